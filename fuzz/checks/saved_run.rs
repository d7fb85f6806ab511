//! The reader of saved runs: never panics, and neither does the run that it gives.

use std::sync::{Arc, LazyLock};

use endstop::core::event::EventKind;
use endstop::core::expr::parse;
use endstop::core::probe::Probes;
use endstop::core::units::Millis;
use endstop::core::{Event, Policy, Program, Run};

static PROGRAM: LazyLock<Arc<Program>> = LazyLock::new(|| {
    let condition = parse(
        "steps >= 9 or said(\"stop here\") or matches(/a+b$/) or no_progress(3) or cycles >= 3 \
         or count(errored, 5m) >= 2 or (called(\"a\") then errored) or near_duplicate or cost >= $1",
    );
    let policy = Policy::stop(condition.expect("a condition"));
    Arc::new(Program::new(&policy, &Probes::new()).expect("a policy"))
});

/// Panics if the reader breaks its promise.
pub(crate) fn check(text: &str) {
    let Ok(mut run) = Run::restore(Arc::clone(&PROGRAM), text) else { return };
    for (at, kind) in (0..).zip([
        EventKind::StepBegin,
        EventKind::AttemptBegin { next_cost: None },
        EventKind::Piece { text: "stop here, aab" },
        EventKind::Reply { model: None, usage: None, cost: None, finish: None, tool_calls: 1 },
        EventKind::ToolBegin { tool: "a" },
        EventKind::ToolEnd { tool: "a", arguments: "", result: "", failed: true },
        EventKind::StepEnd,
    ]) {
        run.observe(&Event::new(Millis(at), kind));
    }
    assert!(!run.explain().is_empty());
    let saved = run.save().expect("no probes");
    assert!(Run::restore(Arc::clone(&PROGRAM), &saved).is_ok());
}
