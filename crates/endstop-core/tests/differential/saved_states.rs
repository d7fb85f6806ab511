//! Saving and restoring at any event changes nothing; what was tampered with never panics.

use std::sync::{Arc, LazyLock};

use endstop_core::event::NewLimit;
use endstop_core::expr::parse;
use endstop_core::policy::{Grant, Rule as PolicyRule};
use endstop_core::signal::{StopReason, StopSignal};
use endstop_core::units::{Cost, Millis, Money, TokenUsage};
use endstop_core::{Action, Directive, Event, EventKind, Policy, Program, Run, Truth};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::Value;

use crate::compare::{compiled, policy};
use crate::generate::adversarial::{chaos, damaged};
use crate::generate::rules::rules;
use crate::generate::stream::stream;

static RAISED: LazyLock<StopSignal> = LazyLock::new(|| StopSignal::new(StopReason::StopRequested));

/// Acts of people and hooks in between, which the streams leave out.
fn intervention() -> impl Strategy<Value = EventKind<'static>> {
    let limit = (select(&["cost", "steps", "tokens"][..]), 0u64..500)
        .prop_map(|(gauge, limit)| NewLimit { gauge, limit });
    prop_oneof![
        3 => Just(EventKind::ContinuationRequested { by: "critic" }),
        2 => (select(&["first", "second"][..]), prop::option::of(limit))
            .prop_map(|(rule, limit)| EventKind::Approved { rule, limit, by: "", why: "" }),
        1 => Just(()).prop_map(|()| EventKind::StopRaised { signal: &RAISED }),
    ]
}

pub(crate) fn any_stream() -> impl Strategy<Value = Vec<Event<'static>>> {
    let events = prop_oneof![stream().boxed(), damaged().boxed(), chaos().boxed()];
    (events, prop::collection::vec((any::<Index>(), intervention()), 0..6)).prop_map(
        |(mut events, interventions)| {
            for (place, kind) in interventions {
                let place = place.index(events.len() + 1);
                let at = events[..place].iter().map(|event| event.at).max().unwrap_or_default();
                events.insert(place, Event::new(at, kind));
            }
            events
        },
    )
}

/// Policies in which overrides, grants and similar replies have a meaning.
pub(crate) fn any_policy() -> impl Strategy<Value = Policy> {
    (rules(), any::<bool>(), any::<bool>()).prop_map(|(rules, soft, replies)| {
        let mut policy = policy(&rules);
        if soft {
            for rule in &mut policy.rules {
                let money = Money::from_picos(1);
                rule.hard = Some(false);
                rule.grant = Some(Grant { cost: money, ..Grant::default() });
            }
        }
        if replies {
            let condition = parse("streak(near_duplicate) >= 2").unwrap();
            policy.rules.push(PolicyRule::new("similar", Action::Warn, condition));
        }
        policy
    })
}

pub(crate) fn restored(program: &Arc<Program>, run: &Run) -> Run {
    Run::restore(Arc::clone(program), &run.save().unwrap()).unwrap()
}

/// A run that was restored after every event so far, the last time just now.
fn check_each_event(policy: &Policy, events: &[Event<'static>]) -> Result<(), TestCaseError> {
    let program = compiled(policy);
    let mut run = Run::new(Arc::clone(&program));
    let mut copy = restored(&program, &run);
    for (index, event) in events.iter().enumerate() {
        prop_assert_eq!(run.observe(event), copy.observe(event), "at {}: {:?}", index, event);
        prop_assert_eq!(run.save(), copy.save(), "at {}: {:?}", index, event);
        copy = restored(&program, &run);
        prop_assert_eq!(run.save(), copy.save(), "restored at {}: {:?}", index, event);
        prop_assert_eq!(
            run.trip_record().to_json(),
            copy.trip_record().to_json(),
            "restored at {}: {:?}",
            index,
            event
        );
        let frozen = run.frozen();
        prop_assert_eq!(run.save(), frozen.save());
        prop_assert_eq!(run.trip_record().to_json(), frozen.trip_record().to_json());
        prop_assert_eq!(run.continuation(), copy.continuation());
        prop_assert_eq!(run.status(), copy.status());
        // Notices are handed out, not kept.
        run.take_notices();
    }
    Ok(())
}

/// A run that was restored once goes on to the same end.
fn check_the_rest(
    policy: &Policy,
    events: &[Event<'static>],
    place: usize,
) -> Result<(), TestCaseError> {
    let program = compiled(policy);
    let mut run = Run::new(Arc::clone(&program));
    let (before, after) = events.split_at(place);
    for event in before {
        run.observe(event);
    }
    run.take_notices();
    let mut copy = restored(&program, &run);
    for event in after {
        prop_assert_eq!(run.observe(event), copy.observe(event), "{:?}", event);
        prop_assert_eq!(run.take_notices(), copy.take_notices(), "{:?}", event);
    }
    prop_assert_eq!(run.save(), copy.save());
    prop_assert_eq!(run.trip_record().to_json(), copy.trip_record().to_json());
    Ok(())
}

/// Changes one value somewhere in the JSON.
fn tamper(value: &mut Value, place: Index, with: &Value) {
    let mut leaves = 0;
    count(value, &mut leaves);
    let mut left = place.index(leaves);
    change(value, &mut left, with);
}

fn count(value: &Value, leaves: &mut usize) {
    *leaves += 1;
    match value {
        Value::Array(items) => items.iter().for_each(|item| count(item, leaves)),
        Value::Object(fields) => fields.values().for_each(|field| count(field, leaves)),
        _ => {}
    }
}

fn change(value: &mut Value, left: &mut usize, with: &Value) -> bool {
    if *left == 0 {
        *value = with.clone();
        return true;
    }
    *left -= 1;
    match value {
        Value::Array(items) => items.iter_mut().any(|item| change(item, left, with)),
        Value::Object(fields) => fields.values_mut().any(|field| change(field, left, with)),
        _ => false,
    }
}

fn odd_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => any::<u64>().prop_map(Value::from),
        2 => (0u64..300).prop_map(Value::from),
        1 => Just(Value::from(u64::MAX)),
        1 => Just(Value::from(-1)),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
        1 => select(&["", "true", "unknown", "first", "completed"][..]).prop_map(Value::from),
        1 => Just(Value::Array(Vec::new())),
        1 => prop::collection::vec(any::<u64>(), 0..9).prop_map(Value::from),
    ]
}

/// Each event is saved several times, so half as many cases as elsewhere.
fn few() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig { failure_persistence: None, cases: usual.cases / 2, ..usual }
}

proptest! {
    #![proptest_config(few())]

    #[test]
    fn saving_and_restoring_at_every_event_changes_nothing(
        policy in any_policy(), events in any_stream(),
    ) {
        check_each_event(&policy, &events)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_restored_run_goes_on_to_the_same_end(
        policy in any_policy(), events in any_stream(), place in any::<Index>(),
    ) {
        check_the_rest(&policy, &events, place.index(events.len() + 1))?;
    }

    /// Decisions are a pure function of the policy and the events.
    #[test]
    fn the_same_events_give_the_same_bytes(policy in any_policy(), events in any_stream()) {
        let of = |program: Program| {
            let mut run = Run::new(Arc::new(program));
            let directives: Vec<Directive> = events.iter().map(|e| run.observe(e)).collect();
            (directives, run.save(), run.trip_record().to_json())
        };
        let probes = endstop_core::probe::Probes::new;
        let program = || Program::new(&policy, &probes()).unwrap();
        prop_assert_eq!(of(program()), of(program()));
    }

    #[test]
    fn a_tampered_state_is_refused_or_goes_on_without_a_panic(
        policy in any_policy(), events in any_stream(), place in any::<Index>(),
        changes in prop::collection::vec((any::<Index>(), odd_value()), 1..4),
    ) {
        let program = compiled(&policy);
        let mut run = Run::new(Arc::clone(&program));
        let (before, after) = events.split_at(place.index(events.len() + 1));
        for event in before {
            run.observe(event);
        }
        let mut saved: Value = serde_json::from_str(&run.save().unwrap()).unwrap();
        for (place, with) in changes {
            tamper(&mut saved, place, &with);
        }
        if let Ok(mut run) = Run::restore(program, &saved.to_string()) {
            for event in after {
                run.observe(event);
            }
            run.trip_record().to_string();
            run.save().unwrap();
        }
    }

    /// A state under a policy that it was not saved under is read too.
    #[test]
    fn a_state_is_restored_under_any_policy(
        policy in any_policy(), other in any_policy(), events in any_stream(), place in any::<Index>(),
    ) {
        let mut run = Run::new(compiled(&policy));
        let (before, after) = events.split_at(place.index(events.len() + 1));
        for event in before {
            run.observe(event);
        }
        let mut other = Run::restore(compiled(&other), &run.save().unwrap()).unwrap();
        prop_assert_eq!(run.step_count(), other.step_count());
        prop_assert_eq!(run.tokens(), other.tokens());
        for event in after {
            other.observe(event);
        }
        other.save().unwrap();
    }
}

struct Driver(Run);

impl Driver {
    fn of(text: &str) -> Self {
        Self(Run::new(program(text)))
    }

    fn restored(&self, text: &str) -> Self {
        Self(Run::restore(program(text), &self.0.save().unwrap()).unwrap())
    }

    fn see(&mut self, kind: EventKind<'_>) -> Directive {
        self.0.observe(&Event::new(Millis(0), kind))
    }

    fn reply(&mut self, dollars: u64) {
        let cost = Some(Cost::Known(Money::from_picos(dollars * 1_000_000_000_000)));
        let usage = Some(TokenUsage { input: 10, ..TokenUsage::default() });
        self.see(EventKind::Reply { model: None, usage, cost, finish: None, tool_calls: 1 });
    }

    fn step(&mut self) -> Directive {
        let begun = self.see(EventKind::StepBegin);
        if !begun.admits() {
            return begun;
        }
        self.reply(1);
        self.see(EventKind::StepEnd)
    }

    fn state_of(&self, rule: usize) -> Truth {
        self.0.trip_record().rules[rule].tree.state
    }
}

fn program(text: &str) -> Arc<Program> {
    compiled(&Policy::stop(parse(text).unwrap()))
}

#[test]
fn a_raised_cap_keeps_the_counters() {
    let mut run = Driver::of("cost >= $3.00 or streak(no_tool_calls) >= 3");
    assert_eq!([run.step(), run.step()], [Directive::Proceed; 2]);
    assert_eq!(run.step(), Directive::Stop);
    let mut raised = run.restored("cost >= $5.00 or streak(no_tool_calls) >= 6");
    let go_on = EventKind::ContinuationRequested { by: "a person" };
    assert_eq!(raised.see(go_on.clone()), Directive::Proceed);
    assert_eq!([raised.step(), raised.step()], [Directive::Proceed; 2]);
    assert_eq!(raised.step(), Directive::Stop);
    let shown = raised.0.trip_record().rules[0].tree.parts.clone();
    let observed: Vec<_> = shown.iter().map(|part| part.observed.clone().unwrap()).collect();
    assert_eq!(observed, ["$5.00", "5"]);
    let mut same = run.restored("cost >= $3.00 or streak(no_tool_calls) >= 3");
    same.see(go_on);
    assert_eq!(same.step(), Directive::Stop, "without a raised limit no step begins");
}

#[test]
fn other_texts_are_unknown_until_the_next_step() {
    let mut run = Driver::of("said(\"DONE\")");
    run.see(EventKind::StepBegin);
    run.see(EventKind::Piece { text: "I am DO" });
    for text in ["said(\"I am\") and steps < 9", "matches(/DO/) and steps < 9"] {
        let mut other = run.restored(text);
        let leaf = |run: &Driver| run.0.trip_record().rules[0].tree.parts[0].state;
        assert_eq!(leaf(&other), Truth::Unknown, "{text}");
        other.see(EventKind::Piece { text: "NE" });
        other.reply(1);
        assert_eq!(other.see(EventKind::StepEnd), Directive::Proceed);
        assert_eq!(leaf(&other), Truth::Unknown, "{text}: it may have been said");
        let mut again = other.restored(text);
        for run in [&mut other, &mut again] {
            run.step();
            assert_eq!(
                leaf(run),
                Truth::False,
                "{text}: the next step was read from its beginning"
            );
        }
    }
    let mut negated = run.restored("not said(\"I am\")");
    negated.reply(1);
    assert_eq!(negated.see(EventKind::StepEnd), Directive::Proceed, "unknown trips nothing");
    let mut same = run.restored("said(\"DONE\")");
    assert_eq!(same.see(EventKind::Piece { text: "NE" }), Directive::Stop);
}

#[test]
fn what_was_not_counted_is_unknown_and_not_zero() {
    let mut run = Driver::of("steps >= 9");
    run.step();
    run.step();
    for text in ["streak(no_tool_calls) < 3", "not ever(called(\"a\"))", "tool_calls(\"a\") < 2"] {
        let other = run.restored(text);
        assert_eq!(other.state_of(0), Truth::Unknown, "{text}");
    }
    let mut other = run.restored("streak(no_tool_calls) == 1");
    assert_eq!(other.step(), Directive::Proceed, "it may be the third in a row");
    assert_eq!(other.state_of(0), Truth::Unknown);
}

/// Operators that differ only in their window or limit do not take each other's place.
#[test]
fn operators_over_one_operand_are_told_apart() {
    for text in [
        "no_tool_calls within 2 steps or (no_tool_calls within 5m and steps < 0)",
        "count(no_tool_calls, 9 steps) >= 8 or (count(no_tool_calls, 9 steps) >= 1 and steps < 0)",
        "(count(no_tool_calls, 9 steps) >= 1 and steps < 0) or count(no_tool_calls, 9 steps) >= 8",
    ] {
        let mut run = Driver::of(&format!("steps >= 9 and ({text})"));
        for _ in 0..4 {
            run.step();
        }
        let same = run.restored(&format!("steps >= 9 and ({text})"));
        assert_eq!(same.0.trip_record(), run.0.trip_record(), "{text}");
        assert_eq!(same.0.save(), run.0.save(), "{text}");
    }
}

/// A saved run whose parts do not match its names is distinguished from one whose parts match, and never panics.
#[test]
fn parts_that_do_not_go_together_are_refused() {
    let text = "steps >= 9 or called(\"a\") or tool_calls(\"a\") >= 9 or fact(\"n\") >= 9 or streak(errored) >= 9";
    let mut run = Driver::of(text);
    run.step();
    let saved: Value = serde_json::from_str(&run.0.save().unwrap()).unwrap();
    let damaged = |path: &str, with: Value| {
        let mut saved = saved.clone();
        *saved.pointer_mut(path).unwrap() = with;
        Run::restore(program(text), &saved.to_string()).unwrap_err().to_string()
    };
    let none = || Value::Array(Vec::new());
    for (path, part) in [
        ("/state/meter/tools", "tools"),
        ("/state/meter/reported", "reported"),
        ("/state/meter/facts", "facts"),
        ("/state/meter/operators", "operators"),
        ("/state/meter/compared/numbers", "compared"),
        ("/state/meter/compared/readings", "compared"),
        ("/state/overrides/rules", "overrides"),
        ("/state/marks", "marks"),
        ("/names/gauges", "compared"),
    ] {
        assert!(damaged(path, none()).contains(&format!("`{part}`")), "{path}");
    }
    let latch = serde_json::json!([{"memory": {"latch": true}, "unknown": false}]);
    assert!(damaged("/state/meter/operators", latch).contains("`operators`"), "another kind");
    let wrap_up = serde_json::json!({"rule": 7, "foreseen": null});
    assert!(damaged("/state/wrap_up", wrap_up).contains("`wrap_up`"), "no such rule");
}

#[test]
fn a_text_cut_anywhere_is_refused() {
    let mut run = Driver::of("said(\"DONE\") or streak(errored) >= 2 or cost >= $2.00");
    run.step();
    run.see(EventKind::StepBegin);
    let saved = run.0.save().unwrap();
    let program = program("said(\"DONE\") or streak(errored) >= 2 or cost >= $2.00");
    for end in 0..saved.len() {
        assert!(Run::restore(Arc::clone(&program), &saved[..end]).is_err(), "cut at {end}");
    }
}

#[test]
fn every_state_of_an_automaton_is_told_from_those_that_are_not() {
    let program = program("said(\"DONE\") or said(\"aab\") or matches(/a+b$/) or matches(/é/)");
    let mut run = Run::new(Arc::clone(&program));
    run.observe(&Event::new(Millis(0), EventKind::StepBegin));
    let saved: Value = serde_json::from_str(&run.save().unwrap()).unwrap();
    for id in (0..3_000u64).chain([u64::from(u32::MAX) - 1, u64::from(u32::MAX)]) {
        for place in 0..3 {
            let mut tampered = saved.clone();
            match place {
                0 => tampered["state"]["meter"]["words"]["text"]["phrases"] = id.into(),
                other => {
                    tampered["state"]["meter"]["words"]["text"]["patterns"][other - 1] = id.into()
                }
            }
            let mut run = Run::restore(Arc::clone(&program), &tampered.to_string()).unwrap();
            run.observe(&Event::new(Millis(0), EventKind::Piece { text: "aab DONE é" }));
        }
    }
}
