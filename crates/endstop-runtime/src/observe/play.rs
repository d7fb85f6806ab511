//! A run that a test plays by hand, watched by an observer.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use endstop_core::event::{Event, EventKind, Source};
use endstop_core::expr::parse;
use endstop_core::probe::Probes;
use endstop_core::units::{Cost, Millis, Money, TokenUsage, WallTime};
use endstop_core::{Directive, Policy, Program, Run};

use super::{Detail, Observation, Observer, RunInfo};
use crate::ledger::{Amounts, Budget, Limits};
use crate::store::RunId;

/// 2026-11-01T14:05:10Z.
pub const BEGAN: u64 = 1_793_541_910_000;

/// A writer that others look into.
#[derive(Clone, Debug, Default)]
pub struct Shared(Arc<Mutex<Vec<Vec<u8>>>>);

impl Shared {
    pub fn writes(&self) -> Vec<String> {
        let writes = self.0.lock().unwrap();
        writes.iter().map(|bytes| String::from_utf8(bytes.clone()).unwrap()).collect()
    }

    pub fn text(&self) -> String {
        self.writes().concat()
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().push(bytes.to_vec());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[expect(missing_debug_implementations, reason = "a helper of tests")]
pub struct Play<'o> {
    pub info: RunInfo,
    pub run: Run,
    pub budget: Budget,
    observer: &'o dyn Observer,
    at: u64,
}

pub fn policy(condition: &str) -> Policy {
    Policy::stop(parse(condition).unwrap())
}

pub fn dollars(text: &str) -> Cost {
    Cost::Known(text.parse().unwrap())
}

impl<'o> Play<'o> {
    pub fn new(observer: &'o dyn Observer, id: &str, policy: Policy) -> Self {
        let info = RunInfo {
            id: RunId::parse(id).unwrap(),
            parent: None,
            agent: "main".to_owned(),
            model: "gpt-5.2".to_owned(),
            provider: "openai".to_owned(),
            depth: 0,
            is_resumed: false,
        };
        let run = Run::new(Arc::new(Program::new(&policy, &Probes::new()).unwrap()));
        Self { info, run, budget: Budget::root(Limits::unlimited()), observer, at: 0 }
    }

    /// Begins a run by a tool call of this one.
    pub fn child(&self, id: &str, agent: &str, policy: Policy) -> Self {
        let mut child = Self::new(self.observer, id, policy);
        child.info.parent = Some(self.info.id.clone());
        child.info.agent = agent.to_owned();
        child.info.depth = self.info.depth + 1;
        child.budget = self.budget.child(Limits::unlimited());
        child.at = self.at;
        child
    }

    /// Records an event, this number of milliseconds after the one before.
    pub fn tell(&mut self, after: u64, kind: EventKind<'_>, detail: Detail<'_>) -> Directive {
        self.tell_of(after, kind, detail, Source::Own)
    }

    pub fn tell_of(
        &mut self,
        after: u64,
        kind: EventKind<'_>,
        detail: Detail<'_>,
        source: Source,
    ) -> Directive {
        self.at += after;
        let event =
            Event { wall: WallTime(BEGAN + self.at), source, ..Event::new(Millis(self.at), kind) };
        let directive = self.run.observe(&event);
        let (info, run, budget) = (&self.info, &self.run, &self.budget);
        let event = &event;
        self.observer.observe(&Observation { info, event, directive, detail, run, budget });
        for notice in self.run.take_notices() {
            self.observer.warned(&self.info, &notice, &self.run);
        }
        directive
    }

    /// Returns a reply of these tokens, for a tenth of a cent; settled in the ledger too.
    pub fn reply(&mut self, usage: (u64, u64), tool_calls: u32, detail: Detail<'_>) -> Directive {
        let usage = TokenUsage { input: usage.0, output: usage.1, ..TokenUsage::default() };
        let cost = Money::from_picos(1_000_000_000);
        let finish = if tool_calls > 0 { "tool_calls" } else { "stop" };
        self.budget.charge(Amounts {
            steps: 1,
            attempts: 1,
            tool_calls: u64::from(tool_calls),
            tokens: usage.total(),
            cost,
        });
        let kind = EventKind::Reply {
            model: Some("gpt-5.2"),
            usage: Some(usage),
            cost: Some(Cost::Known(cost)),
            finish: Some(finish),
            tool_calls,
        };
        self.tell(10, kind, detail)
    }

    pub fn end(&self) {
        self.observer.run_ended(&self.info, &self.run, &self.budget);
    }
}
