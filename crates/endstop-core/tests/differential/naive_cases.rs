//! The results of the naive evaluator for the examples in the semantics, and for invariants.

use endstop_core::event::Source;
use endstop_core::expr::parse;
use endstop_core::units::{Cost, Millis, Money, TokenUsage};
use endstop_core::{Condition, Event, EventKind};
use proptest::prelude::*;

use crate::generate::adversarial::{chaos, damaged, long};
use crate::generate::condition::condition;
use crate::generate::rules::rules;
use crate::generate::stream::stream;
use crate::generate::trees::{self, Tree};
use crate::naive::{
    Action, Decision, Entry, Moment, Rule, Standing, Truth, decide, holds, leaf_values, truth,
};

const RUN: EventKind<'static> = EventKind::RunBegin { agent: Some("planner"), depth: 0 };
const STEP: EventKind<'static> = EventKind::StepBegin;
const ATTEMPT: EventKind<'static> = EventKind::AttemptBegin { next_cost: None };
const END: EventKind<'static> = EventKind::StepEnd;
const TICK: EventKind<'static> = EventKind::Tick;

const fn said(text: &'static str) -> EventKind<'static> {
    EventKind::Piece { text }
}

const fn reply(tool_calls: u32) -> EventKind<'static> {
    let usage = Some(TokenUsage {
        input: 100,
        cache_read: 0,
        cache_write: 0,
        cache_write_1h: 0,
        output: 10,
    });
    let cost = Some(Cost::Known(Money::from_picos(1_000_000_000_000)));
    EventKind::Reply { model: None, usage, cost, finish: Some("stop"), tool_calls }
}

const fn begin(tool: &'static str) -> EventKind<'static> {
    EventKind::ToolBegin { tool }
}

const fn end(tool: &'static str, result: &'static str) -> EventKind<'static> {
    EventKind::ToolEnd { tool, arguments: "{}", result, failed: false }
}

/// One event a second.
fn log(kinds: &[EventKind<'static>]) -> Vec<Event<'static>> {
    let timed = (0..).zip(kinds);
    timed.map(|(second, kind)| Event::new(Millis::from_secs(second), kind.clone())).collect()
}

fn judged(rules: &[(Action, &str)], events: &[Event<'static>]) -> Vec<Decision> {
    let named = rules.iter().zip(["first", "second", "third"]);
    let rules: Vec<Rule> = named
        .map(|((action, text), name)| Rule {
            name,
            action: *action,
            condition: parse(text).unwrap(),
        })
        .collect();
    decide(&rules, events).0
}

/// The indices of the events at which the expression holds, without stopping anything.
fn held_at(text: &str, kinds: &[EventKind<'static>]) -> Vec<usize> {
    let decisions = judged(&[(Action::Warn, text)], &log(kinds));
    (0..decisions.len()).filter(|i| !decisions[*i].held.is_empty()).collect()
}

#[test]
fn a_limit_admits_exactly_that_many() {
    let events = long(5);
    let decisions = judged(&[(Action::Stop, "steps >= 3")], &events);
    let begun = |i: &usize| events[*i].kind == STEP && !decisions[*i].refused;
    assert_eq!((0..events.len()).filter(begun).count(), 3);
    let tools = |i: &usize| matches!(events[*i].kind, EventKind::ToolEnd { .. });
    let first = decisions.iter().position(|d| !d.held.is_empty()).unwrap();
    assert_eq!((0..first).filter(tools).count(), 3, "the last step runs its tools");
    assert_eq!(events[first].kind, END);
    assert!(judged(&[(Action::Stop, "steps >= 0")], &events)[0].refused, "0 admits nothing");
}

#[test]
fn a_count_is_compared_inside_a_step_only_when_one_more_begins() {
    let run = [RUN, STEP, ATTEMPT, reply(2), begin("a"), end("a", "x"), TICK, begin("b"), END];
    assert_eq!(held_at("tool_calls >= 1", &run), [7, 8]);
    assert_eq!(held_at("tool_calls(\"b\") < 1", &run), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(held_at("messages >= 1", &run), [8]);
    let retried = [RUN, STEP, ATTEMPT, ATTEMPT, TICK, ATTEMPT, TICK, END];
    assert_eq!(held_at("retries >= 1", &retried), [5, 6, 7]);
    assert_eq!(held_at("retries >= 0", &[RUN, STEP, ATTEMPT, END]), [0, 1, 2, 3]);
}

#[test]
fn facts_are_never_false_inside_their_step() {
    let run = [RUN, STEP, ATTEMPT, said("DO"), said("NE"), reply(0), END, TICK, STEP, TICK];
    assert_eq!(held_at("said(\"DONE\")", &run), [4, 5, 6, 7, 8]);
    assert_eq!(held_at("not said(\"DONE\")", &run), [0, 1]);
    assert_eq!(held_at("matches(/DONE$/)", &run), [5, 6, 7, 8]);
    assert_eq!(held_at("no_tool_calls", &run), [6, 7, 8]);
    assert_eq!(held_at("finished(\"END_TURN\", \"stop\")", &run), [5, 6, 7, 8]);
    let failed = EventKind::AttemptFailed { usage: None, cost: None };
    let retried = [RUN, STEP, ATTEMPT, said("DONE"), failed, ATTEMPT, TICK, END];
    assert_eq!(held_at("said(\"DONE\")", &retried), [3]);
    assert_eq!(held_at("errored", &retried), [4, 5, 6, 7]);
    let handed = [RUN, STEP, said("x"), EventKind::HandOff { to: "human" }, END, STEP, said("x")];
    assert_eq!(held_at("said(\"x\", from=\"human\")", &handed), [6]);
    assert_eq!(held_at("said(\"x\", from=\"planner\")", &handed), [2, 3, 4, 5]);
    assert_eq!(held_at("handed_off(\"human\")", &handed), [3, 4, 5]);
}

#[test]
fn operators_see_closed_steps() {
    let run = [RUN, STEP, begin("a"), end("a", "x"), END, STEP, END, STEP, END, TICK];
    assert_eq!(held_at("ever(called(\"a\"))", &run), [3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(held_at("streak(no_tool_calls) >= 2", &run), [8, 9]);
    assert_eq!(held_at("count(called(\"a\")) >= 1", &run), [4, 5, 6, 7, 8, 9]);
    assert_eq!(held_at("count(called(\"a\"), 2 steps) >= 1", &run), [4, 5, 6, 7]);
    assert_eq!(held_at("called(\"a\") within 2s", &run), [3, 4, 5, 6]);
    assert_eq!(held_at("called(\"a\") within 1 step", &run), [3, 4, 5]);
    assert_eq!(held_at("called(\"a\") then steps >= 1", &run), [6, 7, 8, 9]);
}

#[test]
fn repetition_starts_afresh_at_a_user_message() {
    let run = [end("a", "x"), end("a", "x"), end("a", "x"), EventKind::UserMessage, end("a", "x")];
    assert_eq!(held_at("repeats >= 1", &run), [1, 2]);
    let (a, b) = (end("a", "x"), end("b", "x"));
    let run = [a.clone(), b.clone(), a.clone(), b.clone(), a.clone(), b.clone(), b];
    assert_eq!(held_at("cycles >= 2", &run), [5]);
    assert_eq!(held_at("cycles >= 1", &[a.clone(), a.clone(), a.clone(), a.clone(), a]), [0; 0]);
    let run = [STEP, END, STEP, end("a", "x"), END, STEP, end("a", "x"), END];
    assert_eq!(held_at("no_progress >= 1", &run), [1, 2, 3, 7]);
}

#[test]
fn a_step_is_stale_if_all_it_got_was_seen_since_the_user_spoke() {
    let step = |ends: &[EventKind<'static>]| [&[STEP][..], ends, &[END]].concat();
    let (x, y) = (end("a", "x"), end("a", "y"));
    let only_x = step(std::slice::from_ref(&x));
    let one_call = [only_x.clone(), only_x.clone(), only_x.clone(), only_x.clone()].concat();
    assert_eq!(held_at("stale >= 1", &one_call), [0; 0], "one call with one text is a repeat");
    let first = step(&[end("a", "z"), x.clone()]);
    let run = [first, only_x.clone(), step(&[]), only_x].concat();
    assert_eq!(held_at("stale >= 1", &run), [0; 0]);
    let more = [run, step(&[x.clone(), x.clone()]), vec![TICK]].concat();
    assert_eq!(held_at("stale == 75", &more), [15, 16]);
    let more = [more, step(&[x.clone(), y]), vec![EventKind::UserMessage]].concat();
    assert_eq!(held_at("stale >= 1", &more), [15, 16, 17, 18, 19], "nothing is stale after news");
    let only_x = step(&[x]);
    let again = [&more[..21], &only_x, &only_x, &only_x, &[EventKind::UserMessage]].concat();
    assert_eq!(
        held_at("stale == 75", &again),
        [15, 16, 17, 18, 19, 29],
        "six of eight, in a row again"
    );
}

#[test]
fn a_failure_is_stale_whatever_was_asked_and_counts_half() {
    let step = |kind: EventKind<'static>| vec![STEP, kind, END];
    let of = |arguments, failed| EventKind::ToolEnd { tool: "a", arguments, result: "no", failed };
    let failed = ["1", "2", "3", "4"].map(|arguments| step(of(arguments, true))).concat();
    let other = step(of("1", false));
    let halves = [failed.clone(), other.clone(), failed].concat();
    assert_eq!(
        held_at("stale >= 1", &halves),
        [23, 24, 25, 26],
        "six halves of eight, seven of nine"
    );
    assert_eq!(held_at("stale == 38", &halves), [26]);
    let writes =
        ["1", "2", "3", "4", "5", "6"].map(|arguments| step(of(arguments, false))).concat();
    assert_eq!(held_at("stale >= 1", &writes), [0; 0]);
}

#[test]
fn a_call_that_waits_ten_seconds_is_no_repetition() {
    let poll = [vec![STEP, begin("a")], vec![TICK; 9], vec![end("a", "x"), END]].concat();
    let polls = [poll.clone(), poll.clone(), poll].concat();
    assert_eq!(held_at("repeats >= 1 or no_progress >= 1", &polls), [0; 0]);
}

#[test]
fn unknown_is_not_zero() {
    let unpriced =
        EventKind::Reply { model: None, usage: None, cost: None, finish: None, tool_calls: 0 };
    // Tokens and money are compared where a request would begin.
    let run = [STEP, ATTEMPT, reply(0), END, STEP, ATTEMPT, unpriced, END, STEP];
    assert_eq!(held_at("cost >= $9.00", &run), [8]);
    assert_eq!(held_at("not cost < $9.00", &run), [8]);
    assert_eq!(held_at("not cost >= $9.00", &run), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(held_at("tokens >= 110", &run), [4, 5, 6, 7, 8]);
    assert_eq!(held_at("tokens < 120", &run), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(held_at("next_cost >= $9.00", &run), [1, 5]);
    assert_eq!(held_at("fact(\"x\") >= 0 or not fact(\"x\") >= 0", &run), [0; 0]);
}

#[test]
fn time_without_pauses_stands_still() {
    let run = [RUN, EventKind::Paused, TICK, TICK, EventKind::Resumed, TICK];
    assert_eq!(held_at("active >= 2s", &run), [5]);
    assert_eq!(held_at("elapsed >= 3s", &run), [3, 4, 5]);
    assert_eq!(held_at("idle >= 3s", &run), [3, 4, 5]);
}

#[test]
fn a_natural_end_is_not_undone_by_numbers() {
    let run = log(&[RUN, STEP, ATTEMPT, reply(0), END]);
    let standing = |text: &str| {
        let decisions = judged(&[(Action::Stop, text)], &run);
        decisions[4].held.first().map(|held| held.standing)
    };
    assert_eq!(standing("steps >= 1 or cost >= $1.00"), Some(Standing::YieldsToTheEnd));
    assert_eq!(standing("steps >= 1 and not errored"), Some(Standing::Stands));
    assert_eq!(standing("steps >= 1 or errored"), Some(Standing::YieldsToTheEnd));
    assert_eq!(standing("steps >= 2"), None);
}

#[test]
fn depth_refuses_the_child_and_stops_nothing() {
    let run = log(&[RUN, EventKind::ChildBegin { depth: 1 }, TICK]);
    let decisions = judged(&[(Action::Stop, "depth >= 0 or steps >= 5")], &run);
    assert_eq!(decisions[1].held[0].standing, Standing::RefusesTheChild);
    assert!(decisions[1].refused);
    assert!(decisions[2].held.is_empty());
    let none = judged(&[(Action::Stop, "depth >= 1")], &run);
    assert!(!none[1].refused);
}

#[test]
fn a_hand_off_is_counted_only_if_nothing_stops_the_run() {
    let hand_off = EventKind::HandOff { to: "human" };
    let run = [RUN, STEP, hand_off.clone(), hand_off, TICK, END];
    assert_eq!(held_at("handoffs >= 1", &run), [3, 4, 5]);
    let decisions = judged(&[(Action::Stop, "handoffs >= 1")], &log(&run));
    assert!(!decisions[2].refused && decisions[3].refused);
    let rules = [(Action::Stop, "handed_off(\"human\")"), (Action::Warn, "handoffs >= 1")];
    let decisions = judged(&rules, &log(&run));
    assert!(decisions[2].refused, "the fact is seen at once");
    assert!(decisions[5].held.iter().all(|held| held.rule == "first"));
}

#[test]
fn what_is_raised_refuses_every_intention_from_then_on() {
    let run = [RUN, STEP, EventKind::Cancel { message: "" }, begin("a"), END, STEP];
    let refused: Vec<bool> = judged(&[], &log(&run)).iter().map(|d| d.refused).collect();
    assert_eq!(refused, [false, false, false, true, false, true]);
}

#[test]
fn descendants_count_but_say_nothing() {
    let mut events = log(&[RUN, STEP, said("DONE"), STEP, ATTEMPT, END, TICK]);
    events[2].source = Source::Descendant;
    events[1].source = Source::Descendant;
    let (_, entries) = decide(&[], &events);
    let now = |text: &str| truth(&parse(text).unwrap(), &entries, Moment(6));
    assert_eq!(now("steps == 2"), Truth::True);
    assert_eq!(now("own.steps == 1"), Truth::True);
    assert_eq!(now("said(\"DONE\")"), Truth::False);
    let leaves = leaf_values(&parse("steps >= 9 or idle > 0s").unwrap(), &entries, Moment(6));
    let shown: Vec<_> = leaves.iter().map(|l| (l.text.as_str(), l.truth, l.value)).collect();
    let idle = Some(4_000);
    assert_eq!(shown, [("steps >= 9", Truth::False, Some(2)), ("idle > 0s", Truth::True, idle)]);
}

/// Kleene's tables, a second time.
fn of_tree(tree: &Tree, leaves: &[Truth]) -> Truth {
    match tree {
        Tree::Leaf(label) => leaves[*label],
        Tree::Not(inner) => of_tree(inner, leaves).negated(),
        Tree::And(a, b) => of_tree(a, leaves).min(of_tree(b, leaves)),
        Tree::Or(a, b) => of_tree(a, leaves).max(of_tree(b, leaves)),
    }
}

#[test]
fn every_tree_of_three_leaves_has_its_truth_table() {
    let mut pairs = 0;
    for labels in (1..=3).flat_map(trees::labellings) {
        let distinct = labels.iter().max().unwrap() + 1;
        let assignments = trees::assignments(distinct, &[None, Some(false), Some(true)]);
        let logs: Vec<_> = assignments.iter().map(|a| entries(&trees::reported_log(a))).collect();
        for tree in trees::trees(&labels) {
            let condition = trees::condition(&tree, trees::reported_leaf);
            for (assignment, log) in assignments.iter().zip(&logs) {
                let leaves: Vec<Truth> =
                    assignment.iter().map(|a| a.map_or(Truth::Unknown, Truth::of)).collect();
                let last = Moment(log.len() - 1);
                assert_eq!(truth(&condition, log, last), of_tree(&tree, &leaves), "{condition}");
                pairs += 1;
            }
        }
    }
    assert_eq!(pairs, 6 + 16 * (3 + 9) + 256 * (3 + 3 * 9 + 27));
}

#[test]
fn every_tree_of_four_leaves_decides_by_its_truth_table() {
    let mut pairs = 0;
    for labels in trees::labellings(trees::MAX_LEAVES) {
        let assignments = trees::assignments(labels.iter().max().unwrap() + 1, &[false, true]);
        let logs: Vec<_> = assignments.iter().map(|a| entries(&trees::signal_log(a))).collect();
        for tree in trees::trees(&labels) {
            let condition = trees::condition(&tree, trees::signal_leaf);
            for (assignment, log) in assignments.iter().zip(&logs) {
                let leaves: Vec<Truth> = assignment.iter().copied().map(Truth::of).collect();
                let expected = of_tree(&tree, &leaves) == Truth::True;
                assert_eq!(holds(&condition, log, Moment(log.len() - 1)), expected, "{condition}");
                pairs += 1;
            }
        }
    }
    // 5,120 trees; 1, 7, 6 and 1 labellings with 1, 2, 3 and 4 labels.
    assert_eq!(pairs, 5_120 * (2 + 7 * 4 + 6 * 8 + 16));
}

fn entries(events: &[Event<'static>]) -> Vec<Entry<'static>> {
    events.iter().map(|event| Entry { event: event.clone(), refused: false }).collect()
}

/// Whether the tree has an amount of money, which is read in the rule's favor if it is unknown.
fn has_money(condition: &Condition) -> bool {
    condition.to_string().contains("cost") || condition.to_string().contains("usd")
}

fn any_stream() -> impl Strategy<Value = Vec<Event<'static>>> {
    prop_oneof![stream().boxed(), damaged().boxed(), chaos().boxed()]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// True and false decide; unknown decides only if money helps.
    #[test]
    fn the_decision_agrees_with_the_record(condition in condition(), events in any_stream()) {
        let entries = entries(&events);
        for moment in (0..entries.len()).map(Moment) {
            let decision = holds(&condition, &entries, moment);
            match truth(&condition, &entries, moment) {
                Truth::True => prop_assert!(decision, "{condition} at {moment:?}"),
                Truth::False => prop_assert!(!decision, "{condition} at {moment:?}"),
                Truth::Unknown if has_money(&condition) => {}
                Truth::Unknown => prop_assert!(!decision, "{condition} at {moment:?}"),
            }
        }
    }

    /// A refused intention is not counted, and nothing but intentions and hand-offs is refused.
    #[test]
    fn only_intentions_are_refused(rules in rules(), events in any_stream()) {
        let (decisions, marked) = decide(&rules, &events);
        for (decision, entry) in decisions.iter().zip(&marked) {
            let kind = &entry.event.kind;
            let announces = kind.is_intention() || matches!(kind, EventKind::HandOff { .. });
            prop_assert!(!decision.refused || announces);
            prop_assert_eq!(decision.refused, entry.refused);
            if announces {
                let holds = |action| decision.held.iter().any(|held| held.action == action);
                let below = entry.event.source == Source::Descendant;
                let beside = below && *kind == EventKind::StepBegin && holds(Action::Finish);
                let expected = decision.raised || holds(Action::Stop) || beside;
                prop_assert_eq!(decision.refused, expected);
            }
        }
    }
}
