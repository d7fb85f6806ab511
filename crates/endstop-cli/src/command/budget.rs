//! `endstop budget`: the state of budgets over time, and corrections.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use endstop::account::{
    Account, AccountLimit, AccountState, Adjustment, BudgetStoreError, LimitState, PastAdjustment,
    Window,
};
use endstop::core::policy::Policy;
use endstop::core::units::Money;
use endstop::ledger::{Amounts, Dimension};
use endstop::store::RunId;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use crate::budgets::{Budgets, StoreArgs, store_error, unknown};
use crate::error::{CliError, ExitMeaning};
use crate::limits::MAX_LISTED_ADJUSTMENTS;
use crate::output;
use crate::policy_source::load_file;
use crate::who::who;

const EXAMPLES: &str = "\
Examples:
  endstop budget
  endstop budget me --json
  endstop budget adjust me +1.50 --why 'spent on another machine'
  endstop budget adjust me -1.50 --why 'refunded by the provider'
  endstop budget adjust me '-2M tokens' --why 'counted twice'

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
    act: Option<BudgetAction>,
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
enum BudgetAction {
    /// Correct what a budget has spent in its current windows
    Adjust(AdjustArgs),
}

/// Arguments of `endstop budget adjust`.
#[derive(Debug, clap::Args)]
struct AdjustArgs {
    /// The budget
    #[arg(value_name = "NAME")]
    name: String,
    /// Added to the spend: `+1.50` (dollars), `-2M tokens`, `+5 steps`
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
    if let Some(BudgetAction::Adjust(adjust)) = &args.act {
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
    let store = budgets.store()?;
    let states = store.read(&accounts).map_err(failed)?;
    let past = |account: &Account| store.adjustments(&account.name, MAX_LISTED_ADJUSTMENTS);
    if args.json {
        let mut budgets = Vec::new();
        for (state, account) in states.iter().zip(&accounts) {
            budgets.push(to_json(state, account, &past(account).map_err(failed)?));
        }
        writeln!(out, "{}", json!({ "version": 1, "budgets": budgets }))?;
    } else {
        write!(out, "{}", to_text(&states))?;
        // The corrections of all budgets would hide the table.
        for account in accounts.iter().filter(|_| args.name.is_some()) {
            let past = past(account).map_err(failed)?;
            write!(out, "{}", past_to_text(&past, &account.zone))?;
        }
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
    let (is_return, amounts) = signed(&args.amount)?;
    if args.why.trim().is_empty() {
        return Err(CliError::new("--why is empty")
            .with_hint("say why, for the record: --why 'spent on another machine'"));
    }
    let (spent, returned) =
        if is_return { (Amounts::ZERO, amounts) } else { (amounts, Amounts::ZERO) };
    let (who, store) = (who(), budgets.store()?);
    let parents = budgets.set.parents(account);
    let all: Vec<&Account> = [account].into_iter().chain(parents.iter().copied()).collect();
    let before = store.read(&all).map_err(failed)?;
    if is_return && let Some(own) = before.first() {
        check_return(own, &amounts)?;
    }
    let id = RunId::new().to_string();
    let (parents, why) = (parents.as_slice(), args.why.as_str());
    let adjustment = Adjustment { id: &id, account, parents, spent, returned, who: &who, why };
    store.adjust(&adjustment).map_err(failed)?;
    let states = store.read(&all).map_err(failed)?;
    write!(out, "{}", to_text(&states))?;
    out.flush()?;
    tell_of_no_limit(&before, &amounts);
    if is_return {
        tell_of_the_rest(&before, &amounts);
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses to take back more than a budget has spent in any of its windows: the rest would be taken from the spend of others in
/// the budgets above it. A unit that it does not limit is not known.
fn check_return(own: &AccountState, amounts: &Amounts) -> Result<(), CliError> {
    for dimension in units_of(amounts) {
        let limits = own.limits.iter().filter(|it| it.limit.dimension == dimension);
        let Some(most) = limits.map(|it| it.settled).max() else { continue };
        let amount = amounts.get(dimension);
        if amount > most {
            let (name, most) = (&own.account, shown(dimension, most));
            return Err(CliError::new(format!(
                "{} cannot be taken back: budget {name} has spent {most} in its current windows",
                shown(dimension, amount)
            ))
            .with_hint(format!("take back at most {most}")));
        }
    }
    Ok(())
}

/// Reads an amount with its sign; whether it is taken from the spend.
fn signed(text: &str) -> Result<(bool, Amounts), CliError> {
    let (is_return, amount) = match text.split_at_checked(1) {
        Some(("-", amount)) => (Some(true), amount),
        Some(("+", amount)) => (Some(false), amount),
        _ => (None, text),
    };
    let amounts = amounts_of(amount).ok_or_else(|| {
        CliError::new(format!("`{text}` is not an amount"))
            .with_hint("write `+1.50` or `-1.50` for dollars, `+2M tokens` or `-5 steps`")
    })?;
    let is_return = is_return.ok_or_else(|| {
        let bare = text.trim_start_matches('$');
        CliError::new(format!("`{text}` has no sign"))
            .with_hint(format!("write `+{bare}` to add to the spend, or `-{bare}` to take from it"))
    })?;
    Ok((is_return, amounts))
}

/// Reads dollars without a unit, or a number of tokens or steps.
fn amounts_of(text: &str) -> Option<Amounts> {
    if !text.contains(' ') {
        return Some(Amounts { cost: text.parse().ok()?, ..Amounts::ZERO });
    }
    let limit: AccountLimit = text.parse().ok()?;
    match (limit.dimension, limit.window) {
        (Dimension::Tokens, Window::Ever) => {
            Some(Amounts { tokens: limit.amount, ..Amounts::ZERO })
        }
        (Dimension::Steps, Window::Ever) => Some(Amounts { steps: limit.amount, ..Amounts::ZERO }),
        _ => None,
    }
}

/// The units of amounts that are not zero.
fn units_of(amounts: &Amounts) -> impl Iterator<Item = Dimension> {
    let all = [Dimension::Cost, Dimension::Tokens, Dimension::Steps];
    all.into_iter().filter(move |dimension| amounts.get(*dimension) > 0)
}

/// Reports a correction in a unit that no limit counts.
fn tell_of_no_limit(states: &[AccountState], amounts: &Amounts) {
    for dimension in units_of(amounts) {
        let mut limits = states.iter().flat_map(|state| &state.limits);
        if !limits.any(|limit| limit.limit.dimension == dimension) {
            let unit = if dimension == Dimension::Cost { "dollars" } else { dimension.name() };
            output::note(&format!(
                "no limit counts {unit}: the correction shows in the list of corrections only"
            ));
        }
    }
}

/// Reports the limits that had spent less than the returned amount: no counter falls below zero.
fn tell_of_the_rest(before: &[AccountState], amounts: &Amounts) {
    for (at, state) in before.iter().enumerate() {
        // The first is the budget that was named, and the others are above it.
        let name = if at == 0 { String::new() } else { format!("budget {}, ", state.account) };
        for limit in &state.limits {
            let dimension = limit.limit.dimension;
            let amount = amounts.get(dimension);
            if limit.settled < amount {
                output::note(&format!(
                    "{name}{}: only {} was spent, so {} of {} were not taken back",
                    limit.limit,
                    shown(dimension, limit.settled),
                    shown(dimension, amount - limit.settled),
                    shown(dimension, amount)
                ));
            }
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

/// The corrections of a budget under its table; nothing without one.
fn past_to_text(past: &[PastAdjustment], zone: &TimeZone) -> String {
    if past.is_empty() {
        return String::new();
    }
    let mut table = output::table(&["corrected at", "amount", "why", "by"], &[1]);
    for correction in past {
        let at = time_of(correction, zone).unwrap_or_default();
        let amounts = amounts_to_text(&correction.spent, &correction.returned);
        table.add_row([at, amounts, correction.why.clone(), correction.who.clone()]);
    }
    format!("{}\n", output::shown(&table.to_string()))
}

/// The amounts of a correction with their signs: `+$1.50`.
fn amounts_to_text(spent: &Amounts, returned: &Amounts) -> String {
    let mut words = Vec::new();
    for (sign, amounts) in [("+", spent), ("-", returned)] {
        for dimension in [Dimension::Cost, Dimension::Tokens, Dimension::Steps] {
            let amount = amounts.get(dimension);
            if amount > 0 {
                let unit = match dimension {
                    Dimension::Cost => String::new(),
                    dimension => format!(" {dimension}"),
                };
                words.push(format!("{sign}{}{unit}", shown(dimension, amount)));
            }
        }
    }
    if words.is_empty() { shown(Dimension::Cost, 0) } else { words.join(", ") }
}

/// The time of a correction in the time zone of its budget.
fn time_of(correction: &PastAdjustment, zone: &TimeZone) -> Option<String> {
    let at = Timestamp::from_millisecond(i64::try_from(correction.at.0).ok()?).ok()?;
    Some(at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M %Z").to_string())
}

fn shown(dimension: Dimension, amount: u64) -> String {
    match dimension {
        Dimension::Cost => output::money(Money::from_picos(amount)),
        Dimension::Tokens => output::short(amount),
        _ => output::count(amount),
    }
}

fn to_json(state: &AccountState, account: &Account, past: &[PastAdjustment]) -> Value {
    let limits: Vec<Value> = state.limits.iter().map(limit_json).collect();
    let past: Vec<Value> = past.iter().map(|it| past_to_json(it, &account.zone)).collect();
    json!({ "name": state.account, "limits": limits, "adjustments": past })
}

fn past_to_json(correction: &PastAdjustment, zone: &TimeZone) -> Value {
    let amounts = |amounts: &Amounts| json!({ "usd": amounts.cost.to_decimal(), "tokens": amounts.tokens, "steps": amounts.steps });
    json!({
        "at_ms": correction.at.0,
        "at": time_of(correction, zone),
        "spent": amounts(&correction.spent),
        "returned": amounts(&correction.returned),
        "who": correction.who,
        "why": correction.why,
    })
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
