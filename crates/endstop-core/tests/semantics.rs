//! The rules of docs/semantics.md, one by one: each test is named after the rule that it shows.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

#[path = "semantics/actions.rs"]
mod actions;
#[path = "semantics/limits.rs"]
mod limits;
#[path = "semantics/next_trip.rs"]
mod next_trip;
#[path = "semantics/overrides.rs"]
mod overrides;
#[path = "semantics/pause.rs"]
mod pause;
#[path = "semantics/progress.rs"]
mod progress;
#[path = "semantics/raise.rs"]
mod raise;
#[path = "semantics/reopen.rs"]
mod reopen;
#[path = "semantics/reserve.rs"]
mod reserve;
#[path = "semantics/tool_cost.rs"]
mod tool_cost;
#[path = "semantics/wrap_up.rs"]
mod wrap_up;

use std::sync::Arc;

use endstop_core::event::Source;
use endstop_core::expr::parse;
use endstop_core::probe::Probes;
use endstop_core::signal::StopReason;
use endstop_core::units::{Cost, Millis, TokenUsage};
use endstop_core::{Directive, Event, EventKind, Policy, Program, Run};

struct Driver {
    run: Run,
    at: u64,
    source: Source,
}

impl Driver {
    fn of(policy: &Policy) -> Self {
        let program = Program::new(policy, &Probes::new()).unwrap();
        Self { run: Run::new(Arc::new(program)), at: 0, source: Source::Own }
    }

    fn stop(expression: &str) -> Self {
        Self::of(&Policy::stop(parse(expression).unwrap()))
    }

    fn toml(text: &str) -> Self {
        Self::of(
            &Policy::from_toml(text)
                .unwrap_or_else(|e| panic!("{}", e.render(text, "test", false))),
        )
    }

    fn see(&mut self, kind: EventKind<'_>) -> Directive {
        self.run.observe(&Event { source: self.source, ..Event::new(Millis(self.at), kind) })
    }

    fn reply(&mut self, tool_calls: u32, cost: &str, tokens: u64) -> Directive {
        let usage = TokenUsage { input: tokens, ..TokenUsage::default() };
        let cost = Cost::Known(cost.parse().unwrap());
        self.see(EventKind::Reply {
            model: None,
            usage: Some(usage),
            cost: Some(cost),
            finish: None,
            tool_calls,
        })
    }

    fn begin(&mut self) -> Directive {
        match self.see(EventKind::StepBegin) {
            directive if directive.admits() => {
                self.see(EventKind::AttemptBegin { next_cost: None });
                directive
            }
            refused => refused,
        }
    }

    fn call(&mut self, tool: &str, result: &str, failed: bool) -> Directive {
        match self.see(EventKind::ToolBegin { tool }) {
            directive if directive.admits() => {
                self.see(EventKind::ToolEnd { tool, arguments: "{}", result, failed })
            }
            refused => refused,
        }
    }

    /// A step with one call of a tool; the directive after it, or the one that refused it.
    fn step(&mut self) -> Directive {
        let result = format!("result {}", self.run.step_count());
        self.step_with("work", &result, "0.10")
    }

    fn step_with(&mut self, tool: &str, result: &str, cost: &str) -> Directive {
        let begun = self.begin();
        if !begun.admits() {
            return begun;
        }
        self.reply(1, cost, 100);
        self.call(tool, result, false);
        self.see(EventKind::StepEnd)
    }

    fn natural_step(&mut self) -> Directive {
        let begun = self.begin();
        if !begun.admits() {
            return begun;
        }
        self.reply(0, "0.10", 100);
        self.see(EventKind::StepEnd)
    }

    /// Raised signals that the run keeps.
    fn raised(&self) -> usize {
        let saved = self.run.save().unwrap();
        let saved: serde_json::Value = serde_json::from_str(&saved).unwrap();
        saved.pointer("/state/raised/standing").and_then(serde_json::Value::as_array).unwrap().len()
    }

    fn reason(&self) -> Option<StopReason> {
        self.run.stop_reason()
    }

    fn ask_to_go_on(&mut self) -> Directive {
        self.see(EventKind::ContinuationRequested { by: "critic" })
    }
}
