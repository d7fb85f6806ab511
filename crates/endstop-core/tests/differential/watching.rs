//! Many policies watched together against one run each.

use std::sync::Arc;

use endstop_core::policy::OnUnpriced;
use endstop_core::probe::Probes;
use endstop_core::run::watch::{Watch, WatchError, Watched, can_watch};
use endstop_core::signal::StopReason;
use endstop_core::units::{Millis, Money};
use endstop_core::{Action, Directive, Event, EventKind, Policy, Run};
use proptest::prelude::*;

use crate::compare::{compiled, policy};
use crate::generate::adversarial::long;
use crate::generate::rules::rules;
use crate::saved_states::any_stream;

/// The content of a trip: the policy, steps, tokens, cost.
type Told = (usize, u64, u64, Option<Money>);

/// A policy of stop rules, some of them without any.
fn stopping() -> impl Strategy<Value = Policy> {
    rules().prop_map(|rules| {
        let mut policy = policy(&rules);
        policy.rules.iter_mut().for_each(|rule| rule.action = Action::Stop);
        policy
    })
}

/// One run a policy, until it is made to stop.
struct Apart {
    runs: Vec<Option<Run>>,
}

impl Apart {
    fn observe(&mut self, event: &Event<'_>) -> Result<Vec<Told>, TestCaseError> {
        let mut told = Vec::new();
        for (index, slot) in self.runs.iter_mut().enumerate() {
            let Some(run) = slot else { continue };
            let directive = run.observe(event);
            let expected = [Directive::Proceed, Directive::Pause];
            prop_assert!(directive.stops() || expected.contains(&directive), "{:?}", directive);
            if directive.stops() && run.stop_reason() != Some(StopReason::Completed) {
                told.push((index, run.step_count(), run.tokens(), run.cost()));
                *slot = None;
            }
        }
        Ok(told)
    }
}

fn check(policies: &[Policy], events: &[Event<'_>]) -> Result<(), TestCaseError> {
    let all: Vec<&Policy> = policies.iter().collect();
    let mut watch = Watch::new(Arc::new(Watched::new(&all, &Probes::new()).unwrap()));
    let mut apart =
        Apart { runs: policies.iter().map(|policy| Some(Run::new(compiled(policy)))).collect() };
    for (index, event) in events.iter().enumerate() {
        let together: Vec<Told> = watch.observe(event).map_or_else(Vec::new, |trip| {
            trip.policies.iter().map(|p| (*p, trip.steps, trip.tokens, trip.cost)).collect()
        });
        if !watch.is_exact() {
            return Ok(());
        }
        prop_assert_eq!(together, apart.observe(event)?, "at {}: {:?}", index, event);
    }
    prop_assert_eq!(watch.left(), apart.runs.iter().flatten().count());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn watched_together_as_apart(
        mut policies in prop::collection::vec(stopping(), 1..6),
        ignore in any::<bool>(),
        events in any_stream(),
    ) {
        policies.retain(can_watch);
        if ignore {
            policies.iter_mut().for_each(|p| p.on_unpriced = Some(OnUnpriced::Ignore));
        }
        check(&policies, &events)?;
    }
}

fn stop(text: &str) -> Policy {
    Policy::stop(endstop_core::expr::parse(text).unwrap())
}

#[test]
fn limits_of_one_gauge_are_passed_in_their_order() {
    let limits =
        (0..200u64).map(|n| stop(&format!("steps >= {} or tokens >= {n}", (n * 37) % 211)));
    let policies: Vec<Policy> = limits.collect();
    check(&policies, &long(300)).unwrap();
    let all: Vec<&Policy> = policies.iter().collect();
    let mut watch = Watch::new(Arc::new(Watched::new(&all, &Probes::new()).unwrap()));
    for event in long(300) {
        watch.observe(&event);
    }
    assert_eq!((watch.left(), watch.is_exact()), (0, true));
}

#[test]
fn what_does_more_than_stop_is_refused() {
    let mut pause = stop("steps >= 2");
    pause.rules[0].action = Action::Pause;
    let mut completed = stop("steps >= 2");
    completed.rules[0].reason = Some(StopReason::Completed);
    for policy in [pause, completed, stop("depth >= 2 or steps >= 3")] {
        assert!(!can_watch(&policy));
        let refused = Watched::new(&[&stop("steps >= 2"), &policy], &Probes::new());
        assert_eq!(refused.unwrap_err(), WatchError::NotWatchable(1));
    }
    let lax = Policy { on_unpriced: Some(OnUnpriced::Ignore), ..stop("cost >= $1") };
    let mixed = Watched::new(&[&stop("cost >= $1"), &lax], &Probes::new());
    assert_eq!(mixed.unwrap_err(), WatchError::OnUnpriced(1));
}

#[test]
fn replies_without_steps_stop_every_policy() {
    let reply =
        EventKind::Reply { model: None, usage: None, cost: None, finish: None, tool_calls: 0 };
    let policies = [stop("max_steps(2)"), stop("tokens >= 9")];
    let events = [reply].map(|kind| Event::new(Millis(0), kind));
    check(&policies, &events).unwrap();
    let all: Vec<&Policy> = policies.iter().collect();
    let mut watch = Watch::new(Arc::new(Watched::new(&all, &Probes::new()).unwrap()));
    let trip = watch.observe(&events[0]).map(|trip| trip.policies.to_vec());
    assert_eq!(trip, Some(vec![0, 1]));
    // After a step, and after one that a pause has refused.
    let reply = events[0].kind.clone();
    let step = [EventKind::StepBegin, reply.clone(), EventKind::StepEnd, reply];
    let hold = [EventKind::PauseRequested { by: "ann", why: "" }];
    for kinds in [step.to_vec(), [&hold[..], &step[..]].concat()] {
        let events: Vec<Event<'_>> =
            kinds.into_iter().map(|kind| Event::new(Millis(0), kind)).collect();
        check(&policies, &events).unwrap();
        let mut watch = Watch::new(Arc::new(Watched::new(&all, &Probes::new()).unwrap()));
        let trips: Vec<bool> = events.iter().map(|event| watch.observe(event).is_some()).collect();
        assert_eq!(trips.iter().position(|trips| *trips), Some(events.len() - 1), "{events:?}");
    }
}
