//! `endstop budget`: the state of budgets over time, and corrections.

#[cfg(unix)]
mod remote;
pub(super) mod state;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use endstop::core::policy::Policy;
use endstop::core::units::{Millis, Money};
use endstop::store::RunId;
use endstop_gateway::control_source::{
    BudgetAmount, BudgetCorrection, BudgetList, BudgetReport, CorrectedAmounts, CorrectedBudgets,
    CorrectionRequest,
};

#[cfg(unix)]
use super::control::ServerArgs;
use crate::budgets::{Budgets, StoreArgs};
use crate::error::CliError;
use crate::output;
use crate::policy_source::load_file;
use crate::who::who;
use state::PlannedCorrection;

const EXAMPLES: &str = "\
Examples:
  endstop budget
  endstop budget me --json
  endstop budget adjust me +1.50 --why 'spent on another machine'
  endstop budget adjust me -1.50 --why 'refunded by the provider'
  endstop budget adjust me '-2M tokens' --why 'counted twice'
  endstop budget --server http://127.0.0.1:8485 --token-env ENDSTOP_TOKEN

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

/// The long help of --server.
#[cfg(unix)]
const SERVER_HELP: &str = "Ask the control API at this address\n\n\
    For the budgets of its gateway, instead of those of this machine.";

/// Definitions of budgets outside the configuration file.
#[derive(Debug, clap::Args)]
#[cfg_attr(unix, command(mut_arg("server", |arg| {
    arg.conflicts_with_all(["policy", "budget", "budget_store"]).long_help(SERVER_HELP)
})))]
struct Source {
    /// A policy file with budgets
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// A limit of the budget `me`, such as `$5 per day`
    #[arg(long, value_name = "LIMIT")]
    budget: Vec<String>,
    #[command(flatten)]
    store: StoreArgs,
    #[cfg(unix)]
    #[command(flatten)]
    server: ServerArgs,
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
/// Returns an error if a budget is not defined, the store cannot be used, or the gateway of --server cannot be asked.
pub fn run(args: &BudgetArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    if let Some(BudgetAction::Adjust(adjust)) = &args.act {
        return self::adjust(adjust, out);
    }
    let list = args.source.list(args.name.as_deref())?;
    if args.json {
        writeln!(out, "{}", output::json(&list))?;
    } else {
        write!(out, "{}", to_text(&list.budgets))?;
        // The corrections of all budgets would hide the table.
        for budget in list.budgets.iter().filter(|_| args.name.is_some()) {
            write!(out, "{}", past_to_text(&budget.adjustments))?;
        }
        for budget in list.budgets.iter().filter(|budget| budget.clock_behind_s > 0) {
            output::warn(&format!(
                "the clock is {} behind the time of budget {}: its windows end later by that",
                output::duration(Millis(budget.clock_behind_s.saturating_mul(1_000))),
                budget.name
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn adjust(args: &AdjustArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    let (amount, message) = (args.amount.clone(), args.why.clone());
    let id = Some(RunId::new().to_string());
    let request = CorrectionRequest { amount, message, by: Some(who()), id };
    let corrected = args.source.correct(&args.name, &request)?;
    if !corrected.budgets.is_empty() {
        write!(out, "{}", to_text(&corrected.budgets))?;
        out.flush()?;
    }
    corrected.notes.iter().for_each(|note| output::note(note));
    Ok(ExitCode::SUCCESS)
}

impl Source {
    /// The state of the budget of a name, or of all.
    fn list(&self, name: Option<&str>) -> Result<BudgetList, CliError> {
        #[cfg(unix)]
        if let Some(list) = remote::list(&self.server, name)? {
            return Ok(list);
        }
        let budgets = self.read()?;
        let accounts = state::named(&budgets.set, name)?;
        if accounts.is_empty() {
            let hint = "define `[budget.me]` with `limit = \"$5 per day\"` in ~/.config/endstop/config.toml, or pass the limit of your runs: endstop budget --budget '$5 per day'";
            return Err(CliError::new("no budget is defined").with_hint(hint));
        }
        let store = budgets.store()?;
        Ok(state::list(&budgets.set, &accounts, &*store)?)
    }

    /// Corrects a budget.
    fn correct(
        &self,
        name: &str,
        request: &CorrectionRequest,
    ) -> Result<CorrectedBudgets, CliError> {
        #[cfg(unix)]
        if let Some(corrected) = remote::correct(&self.server, name, request)? {
            return Ok(corrected);
        }
        let budgets = self.read()?;
        let correction = PlannedCorrection::read(&budgets.set, name, request)?;
        let store = budgets.store()?;
        Ok(correction.apply(&budgets.set, &*store)?)
    }

    fn read(&self) -> Result<Budgets, CliError> {
        let policy = self.policy.as_deref().map(load_file).transpose()?.unwrap_or_default();
        let policy = Policy { rules: Vec::new(), ..policy };
        Budgets::of(&policy, &self.budget)?.in_store(&self.store)
    }
}

/// The limits of budgets as a table. The text of a gateway is shown without anything that a terminal would obey.
fn to_text(budgets: &[BudgetReport]) -> String {
    let mut table =
        output::table(&["budget", "limit", "spent", "held", "left", "resets"], &[2, 3, 4]);
    for budget in budgets {
        for limit in &budget.limits {
            let show = |amount| shown(&limit.unit, amount);
            table.add_row([
                budget.name.clone(),
                limit.limit.clone(),
                show(&limit.spent),
                show(&limit.held),
                show(&limit.left),
                limit.resets_at.clone().unwrap_or_else(|| "never".to_owned()),
            ]);
        }
    }
    format!("{}\n", output::shown(&table.to_string()))
}

/// The corrections of a budget under its table; nothing without one.
fn past_to_text(past: &[BudgetCorrection]) -> String {
    if past.is_empty() {
        return String::new();
    }
    let mut table = output::table(&["corrected at", "amount", "why", "by"], &[1]);
    for correction in past {
        let at = correction.at.clone().unwrap_or_default();
        let amounts = amounts_to_text(&correction.spent, &correction.returned);
        table.add_row([at, amounts, correction.why.clone(), correction.who.clone()]);
    }
    format!("{}\n", output::shown(&table.to_string()))
}

/// The amounts of a correction with their signs: `+$1.50`.
fn amounts_to_text(spent: &CorrectedAmounts, returned: &CorrectedAmounts) -> String {
    let mut words = Vec::new();
    for (sign, amounts) in [("+", spent), ("-", returned)] {
        if !amounts.usd.parse::<Money>().is_ok_and(|usd| usd.is_zero()) {
            words.push(format!("{sign}{}", dollars(&amounts.usd)));
        }
        if amounts.tokens > 0 {
            words.push(format!("{sign}{} tokens", output::short(amounts.tokens)));
        }
        if amounts.steps > 0 {
            words.push(format!("{sign}{} steps", output::count(amounts.steps)));
        }
    }
    if words.is_empty() { output::money(Money::ZERO) } else { words.join(", ") }
}

fn shown(unit: &str, amount: &BudgetAmount) -> String {
    match amount {
        BudgetAmount::Usd(amount) => dollars(amount),
        BudgetAmount::Count(amount) if unit == "tokens" => output::short(*amount),
        BudgetAmount::Count(amount) => output::count(*amount),
    }
}

/// Dollars for people. A text that is none is shown as it is.
fn dollars(amount: &str) -> String {
    amount.parse::<Money>().map_or_else(|_| amount.to_owned(), output::money)
}
