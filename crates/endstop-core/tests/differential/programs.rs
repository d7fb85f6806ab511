//! Generated policies and runs, and every small boolean tree, through both evaluators.

use endstop_core::expr::parse;
use endstop_core::units::Millis;
use endstop_core::{Condition, Event, EventKind, Run, TripRecord, Truth as Recorded};
use proptest::prelude::*;
use proptest::sample::select;

use crate::compare::{check, compiled, policy};
use crate::generate::adversarial::{chaos, damaged};
use crate::generate::rules::rules;
use crate::generate::stream::stream;
use crate::generate::trees::{self, Tree};
use crate::generate::vocabulary::{ARGUMENTS, RESULTS, TOOLS};
use crate::naive::{Action, Entry, Moment, Rule, Truth, holds, truth};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn well_behaved_runs(rules in rules(), events in stream()) {
        check(&rules, &events)?;
    }

    #[test]
    fn damaged_runs(rules in rules(), events in damaged()) {
        check(&rules, &events)?;
    }

    #[test]
    fn runs_in_no_order(rules in rules(), events in chaos()) {
        check(&rules, &events)?;
    }

    /// Nothing stops such a run, so all of it is compared.
    #[test]
    fn whole_runs(mut rules in rules(), events in stream()) {
        rules.iter_mut().for_each(|rule| rule.action = Action::Warn);
        check(&rules, &events)?;
    }
}

/// Steps of a few calls that meet again, with now and then a user between them.
fn circles() -> impl Strategy<Value = Vec<Event<'static>>> {
    let call = (select(&TOOLS[..2]), select(&ARGUMENTS[..]), select(&RESULTS[..]));
    let step = (prop::collection::vec(call, 0..3), prop::bool::weighted(0.05));
    prop::collection::vec(step, 0..30).prop_map(|steps| {
        let mut kinds = Vec::new();
        for (calls, is_user) in steps {
            kinds.push(EventKind::StepBegin);
            kinds.extend(is_user.then_some(EventKind::UserMessage));
            kinds.extend(calls.into_iter().map(|(tool, arguments, result)| EventKind::ToolEnd {
                tool,
                arguments,
                result,
                failed: false,
            }));
            kinds.push(EventKind::StepEnd);
        }
        (0..).zip(kinds).map(|(at, kind)| Event::new(Millis(at), kind)).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn runs_in_circles(limit in 1u64..100, events in circles()) {
        let texts = [
            format!("stale >= {limit}"),
            format!("stale == {limit}"),
            "repeats >= 2 or cycles >= 2 or no_progress >= 2".to_owned(),
        ];
        let rules: Vec<Rule> = ["share", "exact", "others"]
            .into_iter()
            .zip(&texts)
            .map(|(name, text)| Rule {
                name,
                action: Action::Warn,
                condition: parse(text).unwrap(),
            })
            .collect();
        check(&rules, &events)?;
    }
}

/// Trees that are compiled into one policy; their nodes stay below what a policy may have.
const BATCH: usize = 64;

/// Runs every tree over every log: `see` gets the log's number, the condition and its record.
fn every_tree(
    trees: &[Tree],
    leaf: fn(usize) -> Condition,
    logs: &[Vec<Event<'static>>],
    mut see: impl FnMut(usize, &Condition, bool, Recorded),
) {
    for batch in trees.chunks(BATCH) {
        let rules: Vec<Rule> = batch
            .iter()
            .map(|tree| Rule {
                name: "",
                action: Action::Warn,
                condition: trees::condition(tree, leaf),
            })
            .collect();
        let mut policy = policy(&rules);
        for (number, rule) in policy.rules.iter_mut().enumerate() {
            rule.id = number.to_string();
        }
        let program = compiled(&policy);
        for (number, log) in logs.iter().enumerate() {
            let mut run = Run::new(program.clone());
            for event in log {
                run.observe(event);
            }
            let TripRecord { rules: records, .. } = run.trip_record();
            for (rule, record) in rules.iter().zip(&records) {
                see(number, &rule.condition, record.trips, record.tree.state);
            }
        }
    }
}

fn entries(events: &[Event<'static>]) -> Vec<Entry<'static>> {
    events.iter().map(|event| Entry { event: event.clone(), refused: false }).collect()
}

/// In three values, leaves with equal labels included.
#[test]
fn every_tree_of_three_leaves_agrees() {
    let mut pairs = 0;
    for labels in (1..=3).flat_map(trees::labellings) {
        let distinct = labels.iter().max().unwrap() + 1;
        let assignments = trees::assignments(distinct, &[None, Some(false), Some(true)]);
        let logs: Vec<_> = assignments.iter().map(|a| trees::reported_log(a)).collect();
        let marked: Vec<_> = logs.iter().map(|log| entries(log)).collect();
        every_tree(
            &trees::trees(&labels),
            trees::reported_leaf,
            &logs,
            |log, tree, held, state| {
                let last = Moment(marked[log].len() - 1);
                let expected = match truth(tree, &marked[log], last) {
                    Truth::True => Recorded::True,
                    Truth::False => Recorded::False,
                    Truth::Unknown => Recorded::Unknown,
                };
                assert_eq!((held, state), (expected == Recorded::True, expected), "{tree}");
                pairs += 1;
            },
        );
    }
    assert_eq!(pairs, 6 + 16 * (3 + 9) + 256 * (3 + 3 * 9 + 27));
}

#[test]
fn every_tree_of_four_leaves_agrees() {
    let mut pairs = 0;
    let assignments = trees::assignments(trees::MAX_LEAVES, &[false, true]);
    let logs: Vec<_> = assignments.iter().map(|a| trees::signal_log(a)).collect();
    let marked: Vec<_> = logs.iter().map(|log| entries(log)).collect();
    every_tree(
        &trees::trees(&[0, 1, 2, 3]),
        trees::signal_leaf,
        &logs,
        |log, tree, held, state| {
            let expected = holds(tree, &marked[log], Moment(marked[log].len() - 1));
            assert_eq!((held, state == Recorded::True), (expected, expected), "{tree}");
            pairs += 1;
        },
    );
    assert_eq!(pairs, 5_120 * 16);
}
