//! The report of a replay, for people: the answer first, then the table.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use endstop::core::Policy;
use endstop::core::units::Money;
use endstop_price::CostIs;
use endstop_replay::{Effect, Report, RuleReport, RunReport};

use super::measure::{Measure, knows_money, of};
use crate::output::{count, counted, money, short, table, tokens};

pub(super) fn report(report: &Report, policy: &Policy, per_run: bool) -> String {
    let mut text = answer(report, policy);
    let _ = writeln!(text, "{}", totals(report));
    if !policy.rules.is_empty() {
        let _ = writeln!(text, "\n{}", rules(report));
    }
    if per_run {
        let _ = writeln!(text, "\n{}", runs(report));
    }
    text
}

/// One sentence: stopped, saved, lost.
fn answer(report: &Report, policy: &Policy) -> String {
    if policy.rules.is_empty() {
        return "No policy was given: try --stop 'steps >= 50 or cost >= $1.00'.\n".to_owned();
    }
    let outcomes = &report.outcomes;
    let mut text = format!(
        "This policy would have stopped {} of {}",
        count(report.stopped),
        counted(report.runs, "run")
    );
    let measure = Measure::of(&report.per_run);
    let _ = write!(text, ", saved {}", measure.saved_of(&effect(report)));
    if outcomes.succeeded > 0 {
        let _ = write!(
            text,
            ", and lost {} of {}",
            outcomes.succeeded_stopped,
            successes(outcomes.succeeded)
        );
    }
    text.push_str(".\n");
    text
}

/// The effect of the policy on all runs, as comparisons have it.
fn effect(report: &Report) -> Effect {
    let steps =
        |run: &RunReport| run.steps.saturating_sub(run.stopped_at_step.unwrap_or(run.steps));
    let priced = || report.per_run.iter().filter(|run| run.unpriced_calls == 0);
    Effect {
        cost: sum(priced().filter_map(|run| run.cost)),
        saved: sum(priced().filter_map(|run| run.saved)),
        tokens: report.tokens,
        tokens_saved: report.per_run.iter().filter_map(|run| run.tokens_saved).sum(),
        steps: report.steps,
        steps_saved: report.per_run.iter().map(steps).sum(),
        ..Effect::default()
    }
}

fn sum(amounts: impl Iterator<Item = Money>) -> Money {
    amounts.fold(Money::ZERO, |sum, amount| sum.checked_add(amount).unwrap_or(sum))
}

/// How to see more.
pub(super) fn more(report: &Report, policy: &Policy, per_run: bool) -> String {
    let mut ways = Vec::new();
    if report.stopped > 0 && !per_run {
        ways.push("--per-run lists every run");
    }
    if policy.rules.is_empty() || report.stopped == 0 {
        ways.push("--suggest proposes limits from these runs");
    } else {
        ways.push("`endstop explain FILE` shows why");
        ways.push("--sweep 'steps=20..100:10' compares limits");
    }
    ways.push("--json is for programs");
    format!("\nmore: {}", ways.join(", "))
}

fn successes(number: u64) -> String {
    if number == 1 { "1 success".to_owned() } else { format!("{} successes", count(number)) }
}

fn totals(report: &Report) -> String {
    let outcomes = &report.outcomes;
    let known = if outcomes.succeeded + outcomes.failed > 0 {
        format!(
            "; {} succeeded, {} failed, {} unknown",
            outcomes.succeeded, outcomes.failed, outcomes.unknown
        )
    } else {
        String::new()
    };
    let is_least = |run: &RunReport| matches!(run.cost_is, CostIs::LowerBound | CostIs::Unknown);
    let least = if report.per_run.iter().any(is_least) { "at least " } else { "" };
    let money = if knows_money(&report.per_run) {
        format!("{least}{}", money(report.cost))
    } else {
        "cost unknown".to_owned()
    };
    format!(
        "{}, {}, {}, {money}{known}",
        counted(report.runs, "run"),
        counted(report.steps, "step"),
        tokens(report.tokens)
    )
}

fn rules(report: &Report) -> String {
    let measure = Measure::of(&report.per_run);
    let header = [
        "rule",
        "stopped",
        "at step",
        measure.header(),
        "successes lost",
        "failures cut",
        "not testable",
    ];
    let mut table = table(&header, &[1, 2, 3, 4, 5, 6]);
    for (id, rule) in &report.rules {
        table.add_row([
            id.clone(),
            count(rule.stopped),
            at_steps(rule),
            saved(report, id, measure),
            of(rule.succeeded_stopped, report.outcomes.succeeded),
            of(rule.failed_stopped, report.outcomes.failed),
            count(rule.not_testable),
        ]);
    }
    let mut text = table.to_string();
    for (id, rule) in &report.rules {
        if rule.paused > 0 {
            let _ =
                write!(text, "\n{id} would have asked a person in {}", counted(rule.paused, "run"));
        }
        if rule.warned > 0 {
            let _ = write!(text, "\n{id} would have warned in {}", counted(rule.warned, "run"));
        }
    }
    text
}

/// The saving of a rule, in the best measure that the runs have.
fn saved(report: &Report, id: &str, measure: Measure) -> String {
    let runs = report.per_run.iter().filter(|run| run.rule.as_deref() == Some(id));
    let steps =
        |run: &RunReport| run.steps.saturating_sub(run.stopped_at_step.unwrap_or(run.steps));
    measure.amount(match measure {
        Measure::Money => {
            sum(runs.filter(|run| run.unpriced_calls == 0).filter_map(|run| run.saved)).picos()
        }
        Measure::Tokens => runs.filter_map(|run| run.tokens_saved).sum(),
        Measure::Steps => runs.map(steps).sum(),
    })
}

/// `12`, or the least, the median and the largest: `12 / 31 / 50`.
fn at_steps(rule: &RuleReport) -> String {
    let mut steps = rule.at_steps.clone();
    steps.sort_unstable();
    match (steps.as_slice(), steps.get(steps.len() / 2)) {
        ([], _) | (_, None) => "-".to_owned(),
        ([least, _, .., most], Some(median)) if steps.len() > 2 && least != most => {
            format!("{least} / {median} / {most}")
        }
        ([least, most], _) if least != most => format!("{least} / {most}"),
        ([only, ..], _) => only.to_string(),
    }
}

fn runs(report: &Report) -> String {
    let header = ["run", "format", "steps", "tokens", "cost", "outcome", "stopped at", "why"];
    let mut table = table(&header, &[2, 3, 4, 6]);
    let shared = shared_ids(&report.per_run);
    for run in &report.per_run {
        let name = match shared.contains(run.id.as_str()) {
            true => format!("{} ({})", run.id, run.file),
            false => run.id.clone(),
        };
        table.add_row([
            name,
            run.format.to_owned(),
            count(run.steps),
            short(run.tokens),
            cost(run),
            match run.outcome {
                Some(true) => "succeeded",
                Some(false) => "failed",
                None => "-",
            }
            .to_owned(),
            run.stopped_at_step.map_or_else(|| "-".to_owned(), |step| format!("step {step}")),
            run.evidence.clone().unwrap_or_default(),
        ]);
    }
    table.to_string()
}

/// Ids that more than one run has.
pub(super) fn shared_ids(runs: &[RunReport]) -> BTreeSet<&str> {
    let mut seen = BTreeSet::new();
    runs.iter().map(|run| run.id.as_str()).filter(|id| !seen.insert(*id)).collect()
}

fn cost(run: &RunReport) -> String {
    match (run.cost, run.cost_is) {
        (None, _) | (_, CostIs::Unknown) => "unknown".to_owned(),
        (Some(amount), CostIs::LowerBound) => format!("\u{2265} {}", money(amount)),
        (Some(amount), _) => money(amount),
    }
}
