//! Bounds are never passed, overrides cannot defeat them, merging only tightens, `next_trip` is exact, and
//! the algebra of `and` and `or` holds.

use std::sync::Arc;

use endstop_core::condition::{CompareOp, Comparison, Fact, Gauge, GaugeId};
use endstop_core::event::Source;
use endstop_core::expr::parse;
use endstop_core::policy::{Bound, Grant, OnUnpriced, Rule as PolicyRule};
use endstop_core::run::next_trip::{Reserved, Resource};
use endstop_core::signal::StopReason;
use endstop_core::units::{Cost, Millis, Money, TokenUsage, WallTime};
use endstop_core::{Action, Condition, Directive, Event, EventKind, Policy, Run};
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::compare::{compiled, policy};
use crate::generate::adversarial::{chaos, damaged};
use crate::generate::condition::condition;
use crate::generate::rules::rules;
use crate::generate::stream::stream;

const PER_MILLION: u128 = 1_000_000;

fn any_stream() -> impl Strategy<Value = Vec<Event<'static>>> {
    prop_oneof![stream().boxed(), damaged().boxed(), chaos().boxed()]
}

fn at_least(id: GaugeId, value: u64) -> Condition {
    Condition::Compare(Comparison { gauge: Gauge::of(id), op: CompareOp::Ge, value })
}

fn uses(condition: &Condition, wanted: fn(&Condition) -> bool) -> bool {
    wanted(condition) || condition.parts().into_iter().any(|part| uses(part, wanted))
}

fn compares(condition: &Condition, ids: &[GaugeId]) -> bool {
    match condition {
        Condition::Compare(comparison) => ids.contains(&comparison.gauge.id),
        other => other.parts().into_iter().any(|part| compares(part, ids)),
    }
}

/// Feeds events as a driver does that obeys, and checks the bounds at each. A call that is in flight when
/// a bound is reached may pass it; none begins after that.
fn check_bounds(policy: &Policy, events: &[Event<'static>]) -> Result<(), TestCaseError> {
    let bounds = policy.bounds();
    let limit = |bound: &Option<Bound>| bound.as_ref().map_or(u64::MAX, |bound| bound.limit);
    let pauses = events
        .iter()
        .any(|event| matches!(event.kind, EventKind::Paused | EventKind::PauseRequested { .. }));
    let mut run = Run::new(compiled(policy));
    for event in events {
        let money = run.cost().map_or(0, Money::picos);
        let (tokens, at) = (run.tokens(), run.at().max(event.at).0);
        let begins = event.kind.is_intention() && run.observe(event).admits();
        if !event.kind.is_intention() {
            run.observe(event);
        }
        prop_assert!(run.step_count() <= limit(&bounds.steps), "{} steps", run.step_count());
        let is_request = matches!(
            event.kind,
            EventKind::StepBegin | EventKind::AttemptBegin { .. } | EventKind::Reserve { .. }
        );
        if begins && (is_request || matches!(event.kind, EventKind::ToolReserve { .. })) {
            prop_assert!(money < limit(&bounds.cost), "it began at {money}: {event:?}");
        }
        if begins && is_request {
            prop_assert!(tokens < limit(&bounds.tokens), "it began at {tokens} tokens: {event:?}");
        }
        if begins {
            prop_assert!(pauses || at < limit(&bounds.time), "it began at {at} ms: {event:?}");
        }
    }
    Ok(())
}

/// Whether a step of another run is among them.
fn has_descendants(events: &[Event<'_>]) -> bool {
    events.iter().any(|event| event.source == Source::Descendant)
}

fn counts_steps(condition: &Condition) -> bool {
    use endstop_core::condition::Temporal;
    uses(condition, |part| {
        matches!(part, Condition::Temporal(Temporal::Streak { .. } | Temporal::Count { .. }))
    })
}

/// Whether what it says of steps holds in any order of events: attempts and messages bound steps only where
/// each step has its own, operators over steps only where steps end, one after the other.
fn bounds_by_steps_alone(condition: &Condition) -> bool {
    !compares(condition, &[GaugeId::Attempts, GaugeId::Messages]) && !counts_steps(condition)
}

/// Money and tokens that a reply adds, as `next_trip` moves them.
fn reply(output: u64, rate: u64) -> EventKind<'static> {
    let picos = (u128::from(output) * u128::from(rate)).div_ceil(PER_MILLION);
    let cost = Some(Cost::Known(Money::from_picos(u64::try_from(picos).unwrap())));
    let usage = Some(TokenUsage { output, ..TokenUsage::default() });
    EventKind::Reply { model: None, usage, cost, finish: None, tool_calls: 1 }
}

/// Whether a rule trips at the next model request after these events.
fn holds_at_request(policy: &Policy, run: &Run, events: &[Event<'static>]) -> bool {
    let request = events.last().map(|last| {
        let kind = EventKind::AttemptBegin { next_cost: None };
        Event { source: Source::Descendant, kind, ..last.clone() }
    });
    let events: Vec<Event<'static>> = events.iter().cloned().chain(request).collect();
    holds_after(policy, run, &events)
}

/// Whether a rule trips after these events, from the current state of the run.
fn holds_after(policy: &Policy, run: &Run, events: &[Event<'static>]) -> bool {
    let mut copy = Run::restore(compiled(policy), &run.save().unwrap()).unwrap();
    for event in events {
        copy.observe(event);
    }
    copy.trip_record().rules.iter().any(|rule| rule.trips)
}

/// The events with a step that is open at their end, so that a reply may come after them.
fn in_step(events: &[Event<'static>]) -> Vec<Event<'static>> {
    let own = events.iter().filter(|event| event.source == Source::Own);
    let mut edges = own
        .map(|event| &event.kind)
        .filter(|kind| matches!(kind, EventKind::StepBegin | EventKind::StepEnd));
    let is_open = edges.next_back() == Some(&EventKind::StepBegin);
    let begin = events.last().filter(|_| !is_open).map(|last| Event {
        source: Source::Own,
        kind: EventKind::StepBegin,
        ..last.clone()
    });
    events.iter().cloned().chain(begin).collect()
}

/// A run under rules that only tell, after some events.
fn told(conditions: &[Condition], events: &[Event<'static>]) -> (Policy, Run, Event<'static>) {
    let rules = conditions.iter().enumerate().map(|(number, condition)| {
        PolicyRule::new(number.to_string(), Action::Warn, condition.clone())
    });
    let policy = Policy { rules: rules.collect(), ..Policy::default() };
    let mut run = Run::new(compiled(&policy));
    for event in events {
        let kind = match event.kind.clone() {
            // A run that has ended shows the record of its end.
            EventKind::Cancel { .. } => EventKind::Tick,
            EventKind::Reply { model, usage, cost, finish, .. } => {
                EventKind::Reply { model, usage, cost, finish, tool_calls: 1 }
            }
            kind => kind,
        };
        run.observe(&Event { kind, ..event.clone() });
    }
    let wall = events.iter().map(|event| event.wall).max().unwrap_or_default();
    let last = Event { wall, ..Event::new(run.at(), EventKind::Tick) };
    (policy, run, last)
}

/// It trips there and at none of these points before; if it never trips, at none at all.
fn check_trip(
    distance: Option<u64>,
    points: &[Index],
    most: u64,
    trips: impl Fn(u64) -> bool,
) -> Result<(), TestCaseError> {
    if let Some(distance) = distance.filter(|distance| *distance <= most) {
        prop_assert!(trips(distance), "it does not trip at {distance}");
    }
    let end = distance.map_or(most, |distance| distance.min(most));
    let before = points.iter().filter(|_| end > 0).map(|point| point.index(end as usize) as u64);
    for point in before.chain(end.checked_sub(1)) {
        prop_assert!(!trips(point), "it trips at {point}, before {distance:?}");
    }
    Ok(())
}

/// Conditions on what a reply moves, and signals.
fn amounts() -> impl Strategy<Value = Condition> {
    moved_by(&[GaugeId::Tokens, GaugeId::OutputTokens, GaugeId::Cost])
}

fn all_amounts() -> impl Strategy<Value = Condition> {
    moved_by(&[GaugeId::Tokens, GaugeId::InputTokens, GaugeId::OutputTokens, GaugeId::Cost])
}

/// Whether output at this rate moves a gauge of the condition.
fn is_moved(condition: &Condition, rate: u64) -> bool {
    let text = condition.to_string();
    let mut words = text.split(|sign: char| !sign.is_ascii_lowercase() && sign != '_');
    words.any(|word| matches!(word, "tokens" | "output_tokens") || word == "cost" && rate > 0)
}

/// A reply that spent so much.
fn spent(input: u64, output: u64, picos: u64) -> EventKind<'static> {
    let usage = Some(TokenUsage { input, output, ..TokenUsage::default() });
    let cost = Some(Cost::Known(Money::from_picos(picos)));
    EventKind::Reply { model: None, usage, cost, finish: None, tool_calls: 1 }
}

fn moved_by(ids: &'static [GaugeId]) -> impl Strategy<Value = Condition> {
    let ops: Vec<CompareOp> = CompareOp::ALL.iter().map(|(op, _)| *op).collect();
    let leaf = (select(ids), select(ops), any::<bool>(), 0u64..500).prop_map(|(id, op, own, n)| {
        let value = if id == GaugeId::Cost { n * 10_000_000_000 } else { n };
        let is_count = matches!(id, GaugeId::Steps | GaugeId::Attempts | GaugeId::ToolCalls);
        let value = if is_count { n / 50 } else { value };
        Condition::Compare(Comparison { gauge: Gauge { own, ..Gauge::of(id) }, op, value })
    });
    let signal = Condition::Fact(Fact::Signal("cancel".to_string()));
    let leaf = prop_oneof![6 => leaf, 1 => Just(signal)];
    leaf.prop_recursive(3, 8, 2, |inner| {
        let pair = || (inner.clone(), inner.clone());
        prop_oneof![
            pair().prop_map(|(a, b)| a & b),
            pair().prop_map(|(a, b)| a | b),
            inner.clone().prop_map(|c| !c),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_order_of_events_passes_a_bound(rules in rules(), events in any_stream(), n in 0u64..5) {
        let mut policy = policy(&rules);
        policy.rules.retain(|rule| bounds_by_steps_alone(&rule.condition));
        policy.rules.push(PolicyRule::new("bound", Action::Stop, at_least(GaugeId::Steps, n)));
        check_bounds(&policy, &events)?;
    }

    #[test]
    fn no_run_passes_a_bound(rules in rules(), events in stream()) {
        let mut policy = policy(&rules);
        policy.rules.retain(|rule| {
            let exact = [GaugeId::Attempts];
            !compares(&rule.condition, &[GaugeId::Messages])
                && !(has_descendants(&events)
                    && (counts_steps(&rule.condition) || compares(&rule.condition, &exact)))
        });
        check_bounds(&policy, &events)?;
    }

    /// A continuation is requested before every event, and each may be granted.
    #[test]
    fn overrides_cannot_defeat_a_bound(
        n in 0u64..4, allowance in 0u32..4, grant in prop::option::of(0u64..4),
        other in prop::option::of(condition()), events in any_stream(),
    ) {
        let steps = at_least(GaugeId::Steps, n);
        let condition = match other {
            Some(other) if bounds_by_steps_alone(&other) => steps | other,
            _ => steps,
        };
        let mut rule = PolicyRule::new("bound", Action::Stop, condition);
        rule.hard = Some(false);
        rule.overrides = allowance;
        rule.grant = grant.map(|steps| Grant {
            steps, cost: Money::from_picos(1), ..Grant::default()
        });
        let policy = Policy { rules: vec![rule], ..Policy::default() };
        let bound = policy.bounds().steps.unwrap();
        let mut run = Run::new(compiled(&policy));
        for event in &events {
            run.observe(&Event::new(event.at, EventKind::ContinuationRequested { by: "critic" }));
            run.observe(event);
            prop_assert!(run.step_count() <= bound.with_overrides, "{} steps", run.step_count());
        }
    }

    /// Whatever the wider policy stops, the merged one stops, holds or ends earlier.
    #[test]
    fn merging_only_tightens(wide in rules(), narrow in rules(), events in any_stream()) {
        let (wide, mut narrow) = (policy(&wide), policy(&narrow));
        narrow.on_unpriced = Some(OnUnpriced::Ignore);
        let merged = wide.merge(&narrow);
        let (mut alone, mut run) = (Run::new(compiled(&wide)), Run::new(compiled(&merged)));
        for event in &events {
            let (wide, merged) = (alone.observe(event), run.observe(event));
            if wide == merged && (merged == Directive::Proceed || merged == Directive::Refuse) {
                continue;
            }
            let natural = |run: &Run| run.stop_reason() == Some(StopReason::Completed);
            let pauses = natural(&alone) && merged == Directive::Pause;
            let tight = rank(merged) >= rank(wide) || pauses;
            prop_assert!(tight, "{merged:?} for {wide:?} at {event:?}");
            if !(natural(&alone) && natural(&run)) {
                break;
            }
        }
    }

    #[test]
    fn the_next_trip_in_time_is_exact(
        conditions in prop::collection::vec(condition(), 1..3), events in stream(),
        cut in any::<Index>(), points in prop::collection::vec(any::<Index>(), 4),
    ) {
        let (policy, run, last) = told(&conditions, &events[..cut.index(events.len()) + 1]);
        let trip = run.next_trip(Resource::Time, &[Action::Warn]);
        check_trip(trip.map(|trip| trip.distance), &points, 100_000, |way| {
            let wall = WallTime(last.wall.0 + way);
            let tick = Event { wall, at: Millis(last.at.0 + way), ..last.clone() };
            holds_after(&policy, &run, &[tick])
        })?;
    }

    #[test]
    fn the_next_trip_in_output_is_exact(
        conditions in prop::collection::vec(amounts(), 1..3), events in stream(),
        cut in any::<Index>(), rate in select(&[0u64, 1, 1_000_000, 3_333_333_333_333_333][..]),
        points in prop::collection::vec(any::<Index>(), 4),
    ) {
        let (policy, run, last) = told(&conditions, &in_step(&events[..cut.index(events.len()) + 1]));
        let resource = Resource::Output { rate: Money::from_picos(rate) };
        let trip = run.next_trip(resource, &[Action::Warn]);
        check_trip(trip.map(|trip| trip.distance), &points, 1_000_000, |way| {
            holds_at_request(&policy, &run, &[Event { kind: reply(way, rate), ..last.clone() }])
        })?;
    }

    /// Holds count as if they were settled: the trip is where it would be with them, for the rules that read the moving
    /// gauge.
    #[test]
    fn the_room_beside_a_reserve_is_exact(
        conditions in prop::collection::vec(all_amounts(), 1..3), events in stream(),
        cut in any::<Index>(), rate in select(&[0u64, 1, 1_000_000, 3_333_333_333_333_333][..]),
        (input_tokens, output_tokens, picos) in (0u64..200, 0u64..200, 0u64..3_000_000_000_000),
        points in prop::collection::vec(any::<Index>(), 4),
    ) {
        let events = in_step(&events[..cut.index(events.len()) + 1]);
        let (_, run, _) = told(&conditions, &events);
        let moved: Vec<_> = conditions.into_iter().filter(|it| is_moved(it, rate)).collect();
        let (policy, _, last) = told(&moved, &events);
        let cost = Money::from_picos(picos);
        let reserved = Reserved { input_tokens, output_tokens, cost };
        let settled = spent(input_tokens, output_tokens, picos);
        let resource = Resource::Output { rate: Money::from_picos(rate) };
        let trip = run.room(resource, reserved, &[Action::Warn]);
        check_trip(trip.map(|trip| trip.distance), &points, 1_000_000, |way| {
            let events = [settled.clone(), reply(way, rate)];
            let events = events.map(|kind| Event { kind, ..last.clone() });
            holds_at_request(&policy, &run, &events)
        })?;
    }

    #[test]
    fn the_next_trip_in_tokens_or_money_alone_is_exact(
        conditions in prop::collection::vec(moved_by(&[GaugeId::Tokens, GaugeId::Cost]), 1..3),
        events in stream(), cut in any::<Index>(),
        points in prop::collection::vec(any::<Index>(), 4),
    ) {
        let (policy, run, last) = told(&conditions, &in_step(&events[..cut.index(events.len()) + 1]));
        for (resource, most) in [(Resource::Tokens, 1_000), (Resource::Cost, 6_000_000_000_000)] {
            let trip = run.next_trip(resource, &[Action::Warn]);
            check_trip(trip.map(|trip| trip.distance), &points, most, |way| {
                let kind = if resource == Resource::Cost { spent(0, 0, way) } else { spent(way, 0, 0) };
                holds_at_request(&policy, &run, &[Event { kind, ..last.clone() }])
            })?;
        }
    }

    #[test]
    fn the_next_trip_in_calls_is_exact(
        conditions in prop::collection::vec(
            moved_by(&[GaugeId::ToolCalls, GaugeId::Attempts]), 1..3,
        ),
        before in 0usize..6, points in prop::collection::vec(any::<Index>(), 4),
    ) {
        let call = EventKind::ToolBegin { tool: "other" };
        let attempt = EventKind::AttemptBegin { next_cost: None };
        for (resource, kind) in [(Resource::ToolCalls, call), (Resource::Attempts, attempt)] {
            let of = |times: usize| vec![Event::new(Millis(0), kind.clone()); times];
            let (policy, run, last) = told(&conditions, &of(before));
            let trip = run.next_trip(resource, &[Action::Warn]);
            check_trip(trip.map(|trip| trip.distance), &points, 20, |way| {
                let mut events = of(usize::try_from(way).unwrap());
                events.push(last.clone());
                holds_after(&policy, &run, &events)
            })?;
        }
    }

    #[test]
    fn the_next_trip_in_steps_is_exact(
        conditions in prop::collection::vec(moved_by(&[GaugeId::Steps, GaugeId::Attempts]), 1..3),
        steps in 0usize..6, points in prop::collection::vec(any::<Index>(), 4),
    ) {
        let one = [
            EventKind::StepBegin,
            EventKind::AttemptBegin { next_cost: None },
            reply(0, 0),
            EventKind::StepEnd,
        ];
        let of = |steps: usize| -> Vec<Event<'static>> {
            one.iter().cycle().take(4 * steps).map(|k| Event::new(Millis(0), k.clone())).collect()
        };
        let (policy, run, last) = told(&conditions, &of(steps));
        let trip = run.next_trip(Resource::Steps, &[Action::Warn]);
        check_trip(trip.map(|trip| trip.distance), &points, 20, |way| {
            let mut events = of(usize::try_from(way).unwrap());
            events.push(last.clone());
            holds_after(&policy, &run, &events)
        })?;
    }

    /// Idempotent, commutative, absorbing, at every event.
    #[test]
    fn the_algebra_of_groups_holds(a in condition(), b in condition(), events in any_stream()) {
        let (x, y) = (|| a.clone(), || b.clone());
        let conditions = [
            x(), y(), x() | x(), x() & x(), x() | (x() & y()), x() & (x() | y()), x() | y(),
            y() | x(), x() & y(), y() & x(), !(!x() | !y()), !(!x() & !y()),
        ];
        let (_, mut run, _) = told(&conditions, &[]);
        for event in &events {
            run.observe(event);
            let trip_record = run.trip_record();
            let h: Vec<bool> = trip_record.rules.iter().map(|rule| rule.trips).collect();
            prop_assert!(h[2..6].iter().all(|same| *same == h[0]), "{h:?} at {event:?}");
            let (either, both) = (h[0] || h[1], h[0] && h[1]);
            prop_assert_eq!(&h[6..], &[either, either, both, both, both, either], "{:?}", event);
        }
    }
}

/// How much a directive holds a run back.
const fn rank(directive: Directive) -> u8 {
    match directive {
        Directive::Proceed => 0,
        Directive::Retry | Directive::Refuse | Directive::Finish => 1,
        Directive::Pause => 2,
        Directive::Stop | Directive::Abort => 3,
    }
}

/// All runs of up to six events over the events that make up steps.
#[test]
fn every_short_run_keeps_to_a_small_bound() {
    let alphabet = [
        EventKind::StepBegin,
        EventKind::AttemptBegin { next_cost: None },
        reply(0, 0),
        EventKind::ToolBegin { tool: "a" },
        EventKind::StepEnd,
        EventKind::ContinuationRequested { by: "critic" },
    ];
    let policies: Vec<Policy> = ["steps >= 0", "steps >= 1", "steps > 1", "not steps < 2"]
        .into_iter()
        .flat_map(|text| {
            let plain = Policy::stop(parse(text).unwrap());
            let mut finish = plain.clone();
            finish.rules[0].action = Action::Finish;
            let mut hard = plain.clone();
            hard.rules[0].hard = Some(true);
            let mut once = plain;
            once.rules[0].overrides = 1;
            [finish, hard, once]
        })
        .collect();
    let programs: Vec<_> = policies.iter().map(compiled).collect();
    let mut runs = 0u32;
    for (policy, program) in policies.iter().zip(&programs) {
        let bound = policy.bounds().steps.unwrap();
        for number in 0..alphabet.len().pow(5) {
            let mut run = Run::new(Arc::clone(program));
            let mut left = number;
            // Every run begins with a step: what comes before it cannot pass a bound on steps.
            run.observe(&Event::new(Millis(0), EventKind::StepBegin));
            for _ in 0..5 {
                let kind = alphabet[left % alphabet.len()].clone();
                left /= alphabet.len();
                run.observe(&Event::new(Millis(0), kind));
                assert!(run.step_count() <= bound.with_overrides, "{number} under {policy:?}");
            }
            runs += 1;
        }
    }
    assert_eq!(runs, 12 * 7_776);
}
