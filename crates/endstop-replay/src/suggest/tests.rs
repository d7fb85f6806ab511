//! Choosing, and judging what was chosen, on runs whose answer is known.

use std::collections::BTreeMap;

use endstop_core::units::Money;

use super::super::counterfactual::StopPoint;
use super::*;
use endstop_transcript::CostIs;

/// Runs with these numbers of steps, each step for a cent, that succeeded or not; only step limits cut them.
fn runs(lengths: &[(u64, bool)]) -> Comparison {
    let steps = FAMILIES.iter().position(|family| family.id == "steps").unwrap();
    let offset: usize = FAMILIES.iter().take(steps).map(|family| family.values.len()).sum();
    let all: usize = FAMILIES.iter().map(|family| family.values.len()).sum();
    let cent = Money::from_picos(10_000_000_000);
    let times = |steps: u64| Money::from_picos(cent.picos() * steps);
    let mut comparison = Comparison::default();
    for (index, (length, succeeded)) in lengths.iter().enumerate() {
        let mut run = RunReport::new(&format!("run-{index}"), "endstop", "runs.jsonl");
        (run.steps, run.outcome, run.known_cost) = (*length, Some(*succeeded), times(*length));
        (run.cost, run.cost_is) = (Some(times(*length)), CostIs::Billed);
        let mut cuts: Vec<Option<StopPoint>> = vec![None; all];
        for (value, text) in FAMILIES[steps].values.iter().enumerate() {
            let limit: u64 = text.parse().unwrap();
            let cut = StopPoint { step: limit, tokens: 0, spent: times(limit) };
            cuts[offset + value] = (*length > limit).then_some(cut);
        }
        comparison.runs.push(run);
        comparison.cuts.push(cuts);
    }
    comparison.testable = BTreeMap::from([("endstop", vec![true; all])]);
    comparison
}

fn steps_rule(suggestion: &Suggestion) -> &SuggestedRule {
    suggestion.rules.iter().find(|rule| rule.id == "steps").unwrap()
}

#[test]
fn every_row_is_a_condition_from_tight_to_loose() {
    let policies = policies_of_families();
    assert!(policies.iter().all(|policy| policy.rules.len() == 1));
    for family in FAMILIES {
        let written = |value: usize| family.condition(value).unwrap();
        for value in 0..family.values.len() {
            // As a person would write it, and as the language prints it.
            let parsed = endstop_core::expr::parse(&written(value));
            assert!(parsed.is_ok(), "{}", written(value));
        }
    }
}

fn policies_of_families() -> Vec<Policy> {
    families::policies()
}

#[test]
fn a_limit_stays_clear_of_every_success() {
    let mut lengths: Vec<(u64, bool)> = (1..=40).map(|steps| (steps, true)).collect();
    lengths.extend((0..10).map(|more| (200 + more, false)));
    let suggestion = Chooser::new(runs(&lengths), 0.01).choose();
    let rule = steps_rule(&suggestion);
    // 40 is the tightest that loses none, and unseen parts lose none by it either.
    assert_eq!(rule.condition.as_deref(), Some("steps >= 40"));
    assert_eq!(rule.proposed, Proposed::Yes);
    assert_eq!((rule.effect.succeeded_stopped, rule.effect.failed_stopped), (0, 10));
    assert_eq!((rule.held_out.runs, rule.held_out.failed_stopped), (50, 10));
    assert_eq!(suggestion.together_held_out.succeeded_stopped, 0);
    assert_eq!(suggestion.folds, FOLDS);
}

/// A success that is longer than all others by one value is lost to those; two values looser it is not.
#[test]
fn the_headroom_is_what_unseen_runs_need() {
    let mut lengths = vec![(9u64, true); 30];
    lengths.push((14, true));
    let suggestion = Chooser::new(runs(&lengths), 0.0).choose();
    assert_eq!(suggestion.together_held_out.succeeded_stopped, 0);
    assert_eq!(steps_rule(&suggestion).condition.as_deref(), Some("steps >= 25"));
}

#[test]
fn more_may_be_lost_where_that_is_allowed() {
    let lengths: Vec<(u64, bool)> = (1..=100).map(|steps| (steps, true)).collect();
    let strict = Chooser::new(runs(&lengths), 0.0).choose();
    let loose = Chooser::new(runs(&lengths), 0.5).choose();
    assert_eq!(steps_rule(&strict).condition.as_deref(), Some("steps >= 100"));
    assert_eq!(steps_rule(&loose).condition.as_deref(), Some("steps >= 50"));
    assert!(loose.together.succeeded_stopped <= 50);
}

/// A limit that only its own run made necessary is judged without that run.
#[test]
fn a_limit_is_not_judged_on_the_runs_that_chose_it() {
    let mut lengths = vec![(10u64, true); 20];
    lengths.push((1_000, true));
    let suggestion = Chooser::new(runs(&lengths), 0.0).choose();
    let rule = steps_rule(&suggestion);
    assert_eq!(rule.effect.succeeded_stopped, 0);
    assert_eq!(rule.held_out.succeeded_stopped, 1);
    assert_eq!(rule.held_out.lost().unwrap().count, 1);
}

#[test]
fn where_no_outcome_is_known_no_run_is_to_be_lost() {
    let mut comparison = runs(&[(5, true), (6, true), (30, true)]);
    comparison.runs.iter_mut().for_each(|run| run.outcome = None);
    let suggestion = Chooser::new(comparison, 0.01).choose();
    assert!(!suggestion.knows_outcomes);
    assert_eq!(suggestion.folds, 3);
    assert_eq!(steps_rule(&suggestion).condition.as_deref(), Some("steps >= 80"));
    // A rule that stops nothing is not proposed, even a limit such as `active >= 168h`.
    assert!(suggestion.rules.iter().all(|rule| rule.proposed == Proposed::StopsNothing));
    assert_eq!(suggestion.together, Effect { unknown: 3, ..suggestion.together.clone() });
    assert_eq!(suggestion.together.succeeded, 0, "an unknown outcome is not a success");
}

#[test]
fn what_stops_successes_alone_is_not_proposed() {
    let lengths: Vec<(u64, bool)> = (1..=100).map(|steps| (steps, true)).collect();
    let suggestion = Chooser::new(runs(&lengths), 0.5).choose();
    let rule = steps_rule(&suggestion);
    assert_eq!((rule.proposed, rule.effect.succeeded_stopped), (Proposed::OnlyHarms, 50));
    assert_eq!(suggestion.together.stopped, 0);
}

#[test]
fn time_is_not_judged_where_it_is_a_persons() {
    let time = FAMILIES.iter().position(|family| family.is_time).unwrap();
    let offset: usize = FAMILIES.iter().take(time).map(|family| family.values.len()).sum();
    let mut comparison = runs(&[(5, true), (50, false)]);
    let all = comparison.cuts[0].len();
    for (run, cuts) in comparison.runs.iter_mut().zip(&mut comparison.cuts) {
        run.format = "claude-code";
        cuts[offset] = Some(StopPoint { step: 1, tokens: 0, spent: Money::ZERO });
    }
    comparison.testable = BTreeMap::from([("claude-code", vec![true; all])]);
    forget_time_of_people(&mut comparison);
    let suggestion = Chooser::new(comparison, 0.0).choose();
    let rule = suggestion.rules.iter().find(|rule| rule.id == "time").unwrap();
    assert_eq!((rule.proposed, rule.effect.stopped), (Proposed::NotTestable, 0));
    assert_eq!(rule.not_told_by, ["claude-code"]);
    assert!(steps_rule(&suggestion).not_told_by.is_empty());
}

#[test]
fn nothing_is_suggested_from_nothing() {
    let suggestion = Chooser::new(Comparison::default(), 0.01).choose();
    assert!(suggestion.rules.iter().all(|rule| rule.proposed == Proposed::NotTestable));
}
