//! Pauses and refusals of a run that nothing stops.

use serde::{Deserialize, Serialize};

use super::*;
use crate::policy::Policy;
use crate::probe::{Probe, Probes};
use crate::units::Millis;

fn unstopped(policy: &str) -> UnstoppedRun {
    let program = Program::new(&Policy::from_toml(policy).unwrap(), &Probes::new()).unwrap();
    UnstoppedRun::new(Arc::new(program))
}

fn reply(tool_calls: u32) -> EventKind<'static> {
    EventKind::Reply { model: None, usage: None, cost: None, finish: None, tool_calls }
}

/// Takes events of which each comes a second after the one before.
fn take(run: &mut UnstoppedRun, kinds: &[EventKind<'_>]) -> Vec<bool> {
    let times = (0..).step_by(1_000).map(Millis);
    kinds.iter().zip(times).map(|(kind, at)| run.take(&Event::new(at, kind.clone()))).collect()
}

#[test]
fn a_pause_is_approved_once_and_what_waited_begins() {
    let mut run = unstopped("[stop]\nend = 'steps >= 3'\n[pause]\nask = 'steps >= 1'\n");
    let step = [EventKind::StepBegin, reply(1), EventKind::StepEnd];
    for _ in 0..2 {
        assert_eq!(take(&mut run, &step), [false; 3]);
    }
    assert_eq!(run.run().step_count(), 2);
    assert_eq!(run.paused_by(), ["ask"]);
    assert_eq!(take(&mut run, &step), [false, false, true]);
}

/// Counts approvals.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Approvals(u64);

impl Probe for Approvals {
    const NAME: &'static str = "approvals";

    fn observe(&mut self, event: &Event<'_>) {
        self.0 += u64::from(matches!(event.kind, EventKind::Approved { .. }));
    }

    fn value(&self) -> Option<u64> {
        Some(self.0)
    }
}

#[test]
fn a_stop_after_an_approval_is_a_stop() {
    let rules = "[stop]\nlimit = 'probe(\"approvals\") >= 1'\n[pause]\nask = 'elapsed >= 2s'\n";
    let probes = Probes::new().with::<Approvals>();
    let program = Program::new(&Policy::from_toml(rules).unwrap(), &probes).unwrap();
    let program = Arc::new(program);
    // At the end of a step, and at an intention.
    for kinds in [
        &[EventKind::StepBegin, reply(1), EventKind::StepEnd][..],
        &[EventKind::StepBegin, reply(1), EventKind::ToolBegin { tool: "search" }],
    ] {
        let mut run = UnstoppedRun::new(Arc::clone(&program));
        assert_eq!(take(&mut run, kinds), [false, false, true], "{kinds:?}");
        assert_eq!(run.paused_by(), ["ask"]);
        assert!(run.run().last_stop_signal().is_some());
    }
}

#[test]
fn a_tool_call_that_is_approved_and_then_refused_has_no_result() {
    let mut run = unstopped("[finish]\nlimit = 'steps >= 0'\n[pause]\nask = 'elapsed >= 2s'\n");
    let tool = "search";
    let begin = EventKind::ToolBegin { tool };
    assert_eq!(take(&mut run, &[EventKind::StepBegin, reply(1), begin]), [false; 3]);
    assert_eq!(run.paused_by(), ["ask"]);
    let end = EventKind::ToolEnd { tool, arguments: "{}", result: "", failed: false };
    let end = Event::new(Millis(0), end);
    assert_eq!(
        run.refusal_for(&end).map(|event| event.kind),
        Some(EventKind::ToolRefused { tool })
    );
}

#[test]
fn a_refusal_takes_the_place_of_the_result() {
    let mut run = unstopped("[finish]\nlimit = 'messages >= 2 or steps >= 0'\n");
    let tool = "search";
    let end = EventKind::ToolEnd { tool, arguments: "{}", result: "", failed: false };
    let kinds =
        [EventKind::StepBegin, reply(1), EventKind::ToolBegin { tool }, end, EventKind::StepEnd];
    assert!(take(&mut run, &kinds).contains(&true));
    let record = run.run().trip_record();
    let messages = record.rules[0].tree.parts[0].observed.as_deref();
    assert_eq!(messages, Some("2"), "a model response and a refusal");
}

#[test]
fn a_natural_end_is_no_stop() {
    let mut run = unstopped("[stop]\nlimit = 'steps >= 1'\n");
    assert_eq!(take(&mut run, &[EventKind::StepBegin, reply(0), EventKind::StepEnd]), [false; 3]);
    assert!(run.run().ended_by_itself());
}
