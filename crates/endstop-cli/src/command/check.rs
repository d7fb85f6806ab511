//! `endstop check`: what a policy says, and its bounds.

use std::fmt::Write as _;
use std::io::Write;
use std::process::ExitCode;

use endstop::account::{Account, OnFull};
use endstop::core::condition::gauge::Unit;
use endstop::core::human::amount;
use endstop::core::policy::{Bound, Bounds, OnUnpriced, Policy};
use endstop::core::units::{Millis, Money, WallTime};
use serde_json::{Value, json};

use super::gateway::unseen::unseen;
use crate::budgets::{Budgets, in_full, zone_name};
use crate::error::{CliError, ExitMeaning};
use crate::policy_source::PolicySource;

const EXAMPLES: &str = "\
Examples:
  endstop check policy.toml
  endstop check --stop 'steps >= 25 or cost >= $2.00'
  endstop check --stop 'MaxIters(25) | MaxUsd(2.00)' --json

Exit code 1: the policy leaves a run unbounded, or money is its only bound and
calls without a price count nothing.";

/// Arguments of `endstop check`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct CheckArgs {
    #[command(flatten)]
    source: PolicySource,
    /// Accept a policy that bounds nothing
    #[arg(long)]
    unbounded: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// Returns an error if the policy cannot be read.
pub fn run(args: &CheckArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    let policy = args.source.load()?;
    let bounds = policy.bounds();
    let budgets = Budgets::of(&policy, &[])?;
    let problems = problems(&policy, &bounds, args.unbounded);
    let warnings = warnings(&policy, &bounds);
    if args.json {
        writeln!(out, "{}", to_json(&policy, &bounds, &budgets, (&problems, &warnings)))?;
    } else {
        write!(out, "{}", to_text(&policy, &bounds, &budgets, (&problems, &warnings)))?;
    }
    let meaning = if problems.is_empty() { ExitMeaning::Ok } else { ExitMeaning::AnswerIsNo };
    Ok(ExitCode::from(meaning.code()))
}

/// The reasons why the check failed.
fn problems(policy: &Policy, bounds: &Bounds, unbounded_is_fine: bool) -> Vec<String> {
    let mut problems = Vec::new();
    let ignores = policy.unpriced() == OnUnpriced::Ignore;
    if !bounds.is_bounded() && !policy.unbounded && !unbounded_is_fine {
        let priced = Policy { on_unpriced: None, ..policy.clone() };
        if ignores && priced.bounds().cost.is_some() {
            problems.push(
                "money is the only bound, and calls without a price count nothing: add a limit on steps, \
                 tokens or time, or set on_unpriced = \"stop\""
                    .to_owned(),
            );
        } else {
            problems.push(
                "unbounded: no stop rule limits steps, money, tokens or time for certain; add for example \
                 `steps >= 25`, or write `unbounded = true`"
                    .to_owned(),
            );
        }
    }
    problems
}

/// Warnings about an accepted policy.
fn warnings(policy: &Policy, bounds: &Bounds) -> Vec<String> {
    let mut warnings = Vec::new();
    if policy.rules.is_empty() {
        warnings.push("the policy has no rules".to_owned());
    }
    if bounds.is_bounded() && bounds.cost.is_none() {
        warnings.push("money is not bounded".to_owned());
    }
    for rule in &policy.rules {
        for part in rule.parts().into_iter().filter(|part| rule.is_part_hard(part)) {
            if rule.hard == Some(false) {
                warnings.push(format!(
                    "`{part}` in rule `{}` stays hard: to override money or tokens needs a grant of them",
                    rule.id
                ));
            }
        }
    }
    warnings.extend(unseen(policy));
    warnings
}

/// A dimension: a key for machines, a name and a unit for people, and the bound.
type BoundsRow<'a> = (&'static str, &'static str, Unit, Option<&'a Bound>);

fn rows(bounds: &Bounds) -> [BoundsRow<'_>; 4] {
    [
        ("steps", "steps", Unit::Count, bounds.steps.as_ref()),
        ("cost_usd", "cost", Unit::Money, bounds.cost.as_ref()),
        ("tokens", "tokens", Unit::Tokens, bounds.tokens.as_ref()),
        ("time", "time", Unit::Duration, bounds.time.as_ref()),
    ]
}

/// An amount for machines: exact.
fn exact(amount: u64, unit: Unit) -> String {
    match unit {
        Unit::Money => Money::from_picos(amount).to_decimal(),
        Unit::Duration => Millis(amount).to_string(),
        _ => amount.to_string(),
    }
}

fn deadline_text(at: WallTime) -> String {
    endstop::core::expr::amount_text(at.0, Unit::WallTime)
}

fn to_text(
    policy: &Policy,
    bounds: &Bounds,
    budgets: &Budgets,
    (problems, warnings): (&[String], &[String]),
) -> String {
    let mut text = policy.explain();
    text.push_str("\nA run stops at the latest at\n");
    for (_, name, unit, bound) in rows(bounds) {
        let line = match bound {
            Some(bound) if bound.with_overrides > bound.limit => format!(
                "{} ({} with every override), by rule `{}`",
                amount(bound.limit, unit),
                amount(bound.with_overrides, unit),
                bound.rule
            ),
            Some(bound) => format!("{}, by rule `{}`", amount(bound.limit, unit), bound.rule),
            None => "no bound".to_owned(),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {name:<7} {line}");
    }
    if let Some(at) = bounds.deadline {
        let _ = writeln!(text, "  until   {}", deadline_text(at).trim_matches('"'));
    }
    if !budgets.set.is_empty() {
        text.push_str("\nBudgets over time, shared with other runs\n");
        for account in budgets.set.iter() {
            let _ = writeln!(text, "  {}", in_full(account));
        }
    }
    for warning in warnings {
        let _ = writeln!(text, "\nwarning: {warning}");
    }
    for problem in problems {
        let error = CliError::with_advice(problem);
        let _ = writeln!(text, "\nerror: {}", error.message);
        if let Some(hint) = error.hint {
            let _ = writeln!(text, "hint: {hint}");
        }
    }
    text
}

/// A budget with all that its table can say.
pub(super) fn budget_json(account: &Account) -> Value {
    let limits: Vec<String> = account.limits.iter().map(ToString::to_string).collect();
    json!({
        "name": account.name,
        "limits": limits,
        "parent": account.parent,
        "models": account.models,
        "providers": account.providers,
        "timezone": zone_name(account),
        "warn_percent": account.warn,
        "on_full": match account.on_full {
            OnFull::Pause => "pause",
            OnFull::Refuse => "refuse",
        },
    })
}

fn to_json(
    policy: &Policy,
    bounds: &Bounds,
    budgets: &Budgets,
    (problems, warnings): (&[String], &[String]),
) -> Value {
    let mut dimensions = serde_json::Map::new();
    for (key, _, unit, bound) in rows(bounds) {
        let value = bound.map(|bound| {
            json!({
                "limit": exact(bound.limit, unit),
                "with_overrides": exact(bound.with_overrides, unit),
                "rule": bound.rule,
            })
        });
        dimensions.insert(key.to_owned(), value.unwrap_or(Value::Null));
    }
    let until = bounds.deadline.map(|at| deadline_text(at).trim_matches('"').to_owned());
    dimensions.insert("until".to_owned(), json!(until));
    let rules: Vec<Value> = policy
        .rules
        .iter()
        .map(|rule| {
            json!({
                "id": rule.id,
                "action": rule.action.name(),
                "when": rule.condition.to_string(),
                "condition": rule.condition,
                "hard": rule.is_hard(),
                "origin": rule.origin,
            })
        })
        .collect();
    json!({
        "version": 1,
        "name": policy.name,
        "bounded": bounds.is_bounded(),
        "ok": problems.is_empty(),
        "bounds": dimensions,
        "rules": rules,
        "budgets": budgets.set.iter().map(budget_json).collect::<Vec<_>>(),
        "problems": problems,
        "warnings": warnings,
    })
}
