//! `endstop budget`: the state of budgets over time, and corrections.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use endstop::account::{Account, AccountState, Adjustment, BudgetStoreError, LimitState};
use endstop::core::policy::Policy;
use endstop::core::units::Money;
use endstop::ledger::{Amounts, Dimension};
use endstop::store::RunId;
use serde_json::{Value, json};

#[cfg(unix)]
use super::control::who;
use crate::budgets::{Budgets, StoreArgs, store_error, unknown};
use crate::error::{CliError, ExitMeaning};
use crate::output;
use crate::policy_source::load_file;

const EXAMPLES: &str = "\
Examples:
  endstop budget
  endstop budget me --json
  endstop budget adjust me +1.50 --why 'spent on another machine'
  endstop budget adjust me -1.50 --why 'refunded by the provider'

Budgets are defined as [budget.NAME] tables in ~/.config/endstop/config.toml and
in policy files, and by `--budget '$5 per day'` of run, serve and agent, which
is the budget `me`.";

/// Arguments of `endstop budget`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct BudgetArgs {
    /// The budget; all if none is named
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    source: Source,
    #[command(subcommand)]
    act: Option<Act>,
}

/// Definitions of budgets outside the configuration file.
#[derive(Debug, clap::Args)]
struct Source {
    /// A policy file with budgets
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// A limit of the budget `me`, such as `$5 per day`
    #[arg(long, value_name = "LIMIT")]
    budget: Vec<String>,
    #[command(flatten)]
    store: StoreArgs,
}

/// Changes of a budget.
#[derive(Debug, clap::Subcommand)]
enum Act {
    /// Correct what a budget has spent in its current windows
    Adjust(AdjustArgs),
}

/// Arguments of `endstop budget adjust`.
#[derive(Debug, clap::Args)]
struct AdjustArgs {
    /// The budget
    #[arg(value_name = "NAME")]
    name: String,
    /// US dollars: `+1.50` adds to the spend, `-1.50` takes from it
    #[arg(value_name = "AMOUNT", allow_hyphen_values = true)]
    amount: String,
    /// The reason, for the record
    #[arg(long, value_name = "TEXT")]
    why: String,
    #[command(flatten)]
    source: Source,
}

/// Runs the command.
///
/// # Errors
/// Returns an error if a budget is not defined, or the store cannot be used.
pub fn run(args: &BudgetArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    if let Some(Act::Adjust(adjust)) = &args.act {
        return self::adjust(adjust, out);
    }
    let budgets = args.source.read()?;
    let accounts: Vec<&Account> = match &args.name {
        Some(name) => vec![budgets.set.get(name).ok_or_else(|| unknown(name, &budgets.set))?],
        None => budgets.set.iter().collect(),
    };
    if accounts.is_empty() {
        let hint = "define `[budget.me]` with `limit = \"$5 per day\"` in ~/.config/endstop/config.toml, or pass the limit of your runs: endstop budget --budget '$5 per day'";
        return Err(CliError::new("no budget is defined").with_hint(hint));
    }
    let states = budgets.store()?.read(&accounts).map_err(failed)?;
    if args.json {
        let budgets: Vec<Value> = states.iter().map(to_json).collect();
        writeln!(out, "{}", json!({ "version": 1, "budgets": budgets }))?;
    } else {
        write!(out, "{}", to_text(&states))?;
        for state in states.iter().filter(|state| state.clock_behind.as_secs() > 0) {
            output::warn(&format!(
                "the clock is {} behind the time of budget {}: its windows end later by that",
                output::duration(state.clock_behind.into()),
                state.account
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl Source {
    fn read(&self) -> Result<Budgets, CliError> {
        let policy = self.policy.as_deref().map(load_file).transpose()?.unwrap_or_default();
        let policy = Policy { rules: Vec::new(), ..policy };
        Budgets::of(&policy, &self.budget)?.in_store(&self.store)
    }
}

fn adjust(args: &AdjustArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    let budgets = args.source.read()?;
    let name = &args.name;
    let account = budgets.set.get(name).ok_or_else(|| unknown(name, &budgets.set))?;
    let (is_return, amount) = signed(&args.amount)?;
    if args.why.trim().is_empty() {
        return Err(CliError::new("--why is empty")
            .with_hint("say why, for the record: --why 'spent on another machine'"));
    }
    let amounts = Amounts { cost: amount, ..Amounts::ZERO };
    let (spent, returned) =
        if is_return { (Amounts::ZERO, amounts) } else { (amounts, Amounts::ZERO) };
    let (who, store) = (who(), budgets.store()?);
    let before = store.read(&[account]).map_err(failed)?;
    let id = RunId::new().to_string();
    let adjustment = Adjustment { id: &id, account, spent, returned, who: &who, why: &args.why };
    store.adjust(&adjustment).map_err(failed)?;
    let states = store.read(&[account]).map_err(failed)?;
    write!(out, "{}", to_text(&states))?;
    out.flush()?;
    if is_return {
        let limits = before.iter().flat_map(|state| &state.limits);
        tell_of_the_rest(limits, amount);
    }
    Ok(ExitCode::SUCCESS)
}

/// Who corrects.
#[cfg(not(unix))]
fn who() -> String {
    std::env::var("USERNAME").unwrap_or_else(|_| "unknown".to_owned())
}

/// Reads an amount with its sign; whether it is taken from the spend.
fn signed(text: &str) -> Result<(bool, Money), CliError> {
    let (is_return, amount) = match text.split_at_checked(1) {
        Some(("-", amount)) => (Some(true), amount),
        Some(("+", amount)) => (Some(false), amount),
        _ => (None, text),
    };
    let amount: Money = amount.parse().map_err(|_| {
        CliError::new(format!("`{text}` is not an amount of dollars"))
            .with_hint("write `+1.50` or `-1.50`")
    })?;
    let is_return = is_return.ok_or_else(|| {
        let bare = text.trim_start_matches('$');
        CliError::new(format!("`{text}` has no sign"))
            .with_hint(format!("write `+{bare}` to add to the spend, or `-{bare}` to take from it"))
    })?;
    Ok((is_return, amount))
}

/// Reports the limits that had spent less than the returned amount: no counter falls below zero.
fn tell_of_the_rest<'l>(limits: impl Iterator<Item = &'l LimitState>, amount: Money) {
    for limit in limits.filter(|it| it.limit.dimension == Dimension::Cost) {
        if limit.settled < amount.picos() {
            output::note(&format!(
                "{}: only {} was spent, so {} of {} were not taken back",
                limit.limit,
                output::money(Money::from_picos(limit.settled)),
                output::money(Money::from_picos(amount.picos() - limit.settled)),
                output::money(amount)
            ));
        }
    }
}

fn failed(error: BudgetStoreError) -> CliError {
    store_error(&error).with_exit(ExitMeaning::AnswerIsNo)
}

fn to_text(states: &[AccountState]) -> String {
    let mut table =
        output::table(&["budget", "limit", "spent", "held", "left", "resets"], &[2, 3, 4]);
    for state in states {
        for limit in &state.limits {
            let show = |amount| shown(limit.limit.dimension, amount);
            table.add_row([
                state.account.clone(),
                limit.limit.to_string(),
                show(limit.settled),
                show(limit.held),
                show(limit.left()),
                limit.resets_text.clone().unwrap_or_else(|| "never".to_owned()),
            ]);
        }
    }
    format!("{table}\n")
}

fn shown(dimension: Dimension, amount: u64) -> String {
    match dimension {
        Dimension::Cost => output::money(Money::from_picos(amount)),
        Dimension::Tokens => output::short(amount),
        _ => output::count(amount),
    }
}

fn to_json(state: &AccountState) -> Value {
    let limits: Vec<Value> = state.limits.iter().map(limit_json).collect();
    json!({ "name": state.account, "limits": limits })
}

fn limit_json(limit: &LimitState) -> Value {
    let amount = |amount| match limit.limit.dimension {
        Dimension::Cost => json!(Money::from_picos(amount).to_decimal()),
        _ => json!(amount),
    };
    json!({
        "limit": limit.limit.to_string(),
        "unit": match limit.limit.dimension { Dimension::Cost => "usd", of => of.name() },
        "amount": amount(limit.limit.amount),
        "spent": amount(limit.settled),
        "unconfirmed": amount(limit.unconfirmed),
        "held": amount(limit.held),
        "left": amount(limit.left()),
        "resets_at_ms": limit.resets_at.map(|at| at.0),
        "resets_at": limit.resets_text,
    })
}
