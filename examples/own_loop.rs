//! An async agent loop of another library on the core alone: initial state, observe, check, save in the middle,
//! resume in what could be another process; and a custom condition (`StopOnError`) as a probe.
//!
//! `cargo run -p endstop-core --example own_loop`

#![expect(clippy::print_stdout, reason = "an example that is read at a terminal")]

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use endstop_core::event::EventKind;
use endstop_core::probe::{Probe, Probes};
use endstop_core::units::{Cost, Millis, TokenUsage};
use endstop_core::{Directive, Event, Policy, Program, Run};
use serde::{Deserialize, Serialize};

/// Counts tool results that begin with "error": a state, updated from each event, then compared.
#[derive(Debug, Default, Serialize, Deserialize)]
struct StopOnError {
    errors: u64,
}

impl Probe for StopOnError {
    const NAME: &'static str = "stop_on_error";

    fn observe(&mut self, event: &Event<'_>) {
        if let EventKind::ToolEnd { result, .. } = event.kind {
            self.errors += u64::from(result.starts_with("error"));
        }
    }

    fn value(&self) -> Option<u64> {
        Some(self.errors)
    }
}

const POLICY: &str = r#"
[stop]
budget = "max_steps(25) | max_usd(2.00) | no_progress(3)"
broken = 'probe("stop_on_error") >= 2'
"#;

/// The loop's own model: what it answers at each step, and what its tool says to that.
async fn ask_model(step: usize) -> (&'static str, &'static str) {
    match step {
        0 => ("I will read the file.", "fn main() {}"),
        1 => ("I will run the tests.", "error: test failed"),
        2 => ("I will run them again.", "error: test failed, again"),
        _ => ("Still going.", "ok"),
    }
}

/// One step of the loop; returns whether the loop continues.
async fn step(run: &mut Run, number: usize, clock: impl Fn() -> Millis) -> Directive {
    let mut see = |kind: EventKind<'_>| run.observe(&Event::new(clock(), kind));
    let begin = see(EventKind::StepBegin);
    if !begin.admits() {
        return begin;
    }
    see(EventKind::AttemptBegin { next_cost: None });
    let (text, result) = ask_model(number).await;
    see(EventKind::Piece { text });
    let usage = TokenUsage { input: 1_200, output: 40, ..TokenUsage::default() };
    let cost = "0.0042".parse().map_or(Cost::Unpriced, Cost::Known);
    see(EventKind::Reply {
        model: Some("some-model"),
        usage: Some(usage),
        cost: Some(cost),
        finish: Some("tool_calls"),
        tool_calls: 1,
    });
    if see(EventKind::ToolBegin { tool: "shell" }).admits() {
        see(EventKind::ToolEnd { tool: "shell", arguments: text, result, failed: false });
    }
    see(EventKind::StepEnd)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let policy = Policy::from_toml(POLICY)?;
    let program = Arc::new(Program::new(&policy, &Probes::new().with::<StopOnError>())?);

    let started = Instant::now();
    let clock = || Millis(u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX));
    let mut run = Run::new(Arc::clone(&program));
    run.observe(&Event::new(clock(), EventKind::RunBegin { agent: None, depth: 0 }));
    run.observe(&Event::new(clock(), EventKind::UserMessage));
    step(&mut run, 0, clock).await;
    step(&mut run, 1, clock).await;

    // All state is one JSON text; what follows could be another process, hours later.
    let saved = run.save()?;
    println!("saved {} bytes after {} steps", saved.len(), run.step_count());
    let mut run = Run::restore(program, &saved)?;
    let offset = run.at();
    let resumed = Instant::now();
    let clock = || {
        let more = u64::try_from(resumed.elapsed().as_millis()).unwrap_or(u64::MAX);
        Millis(offset.0.saturating_add(more))
    };

    let mut number = 2;
    while step(&mut run, number, clock).await == Directive::Proceed {
        number += 1;
    }
    println!("{}", run.explain());
    assert_eq!(run.step_count(), 3);
    assert_eq!(run.trip_record().rule.as_deref(), Some("broken"));
    Ok(())
}
