//! Asking what a run would answer gives that answer and changes nothing.

use std::sync::Arc;

use endstop_core::event::Source;
use endstop_core::units::WallTime;
use endstop_core::{Directive, Event, EventKind, Policy, Run};
use proptest::prelude::*;

use crate::compare::compiled;
use crate::saved_states::{any_policy, any_stream, restored};

fn check(policy: &Policy, events: &[Event<'static>]) -> Result<(), TestCaseError> {
    let program = compiled(policy);
    let (mut run, mut unasked) = (Run::new(Arc::clone(&program)), Run::new(Arc::clone(&program)));
    for (index, event) in events.iter().enumerate() {
        if event.kind.is_intention() {
            let now = Event { at: run.at(), wall: WallTime(0), ..event.clone() };
            let (before, shown) = (run.save(), run.trip_record().to_json());
            let answer = restored(&program, &run).observe(&now);
            prop_assert_eq!(run.would_admit(&now), answer, "at {}: {:?}", index, event);
            prop_assert_eq!(&run.save(), &before, "at {}: {:?}", index, event);
            prop_assert_eq!(run.trip_record().to_json(), shown, "at {}: {:?}", index, event);
            if let EventKind::ToolBegin { tool } = event.kind {
                let mut ahead = restored(&program, &run);
                if (0..2).all(|_| ahead.observe(&now).admits()) {
                    let answer = ahead.observe(&now);
                    prop_assert_eq!(
                        run.would_admit_after(&[tool, tool], &now),
                        answer,
                        "at {}",
                        index
                    );
                }
                prop_assert_eq!(run.save(), before, "after a batch, at {}", index);
            }
            // Later, the clocks move on with the question; the run is then asked in vain.
            let answer = restored(&program, &run).observe(event);
            prop_assert_eq!(run.would_admit(event), answer, "later, at {}: {:?}", index, event);
        } else {
            prop_assert_eq!(run.would_admit(event), Directive::Proceed);
            // In vain as well: what stands afterwards has to be decided as without the questions.
            for (kind, source) in questions() {
                run.would_admit(&Event { kind, source, ..event.clone() });
            }
        }
        prop_assert_eq!(run.observe(event), unasked.observe(event), "at {}: {:?}", index, event);
        prop_assert_eq!(run.save(), unasked.save(), "after {}: {:?}", index, event);
        prop_assert_eq!(run.take_notices(), unasked.take_notices());
    }
    Ok(())
}

/// Questions of a run and of a descendant.
fn questions() -> impl Iterator<Item = (EventKind<'static>, Source)> {
    let amount = EventKind::Reserve { input_tokens: 1, output_tokens: 1, cost: None };
    let kinds = [EventKind::StepBegin, EventKind::ToolBegin { tool: "a" }, amount];
    kinds
        .into_iter()
        .flat_map(|kind| [Source::Own, Source::Descendant].map(|source| (kind.clone(), source)))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_would_be_answered_is_what_is(policy in any_policy(), events in any_stream()) {
        check(&policy, &events)?;
    }
}

/// Every intention, wherever a wrap-up, a grant of steps or a pause can prevent it.
#[test]
fn every_short_run_is_foretold() {
    let amount = EventKind::Reserve { input_tokens: 1, output_tokens: 1, cost: None };
    let alphabet = [
        EventKind::StepBegin,
        amount,
        EventKind::ChildBegin { depth: 2 },
        EventKind::ToolBegin { tool: "a" },
        EventKind::StepEnd,
        EventKind::ContinuationRequested { by: "critic" },
    ];
    let policies = [
        "[stop]\ns = \"steps >= 2 or tokens >= 1\"\n[finish]\nf = \"steps >= 2\"",
        "[stop]\ns = \"steps >= 9\"\n[finish]\nf = \"tokens >= 1\"",
        "[stop]\ns = \"depth >= 1 or steps >= 1\"\n[rule.s]\nhard = false\noverrides = 1",
        "[stop]\ns = \"steps >= 3\"\n[pause]\np = \"tool_calls >= 1\"",
    ];
    for text in policies {
        let policy = Policy::from_toml(text).unwrap();
        for number in 0..alphabet.len().pow(4) {
            let kinds = (0..4)
                .map(|place| alphabet[number / alphabet.len().pow(place) % alphabet.len()].clone());
            let events: Vec<Event<'static>> = kinds
                .zip(0..)
                .map(|(kind, at)| Event::new(endstop_core::units::Millis(at), kind))
                .collect();
            check(&policy, &events).unwrap();
        }
    }
}
