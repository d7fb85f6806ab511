//! Budgets of a gateway, by its control API. A separate file because it is built for Unix only.

use endstop_gateway::control_source::{BudgetList, CorrectedBudgets, CorrectionRequest};

use crate::command::control::{AskError, ServerArgs, escaped};
use crate::error::CliError;
use crate::output;

const BUDGETS: &str = "/endstop/v1/budgets";

/// The state of a budget or of all. `None` without --server.
///
/// # Errors
/// Returns an error if the gateway cannot be asked, or has no such budget.
pub(super) fn list(
    server: &ServerArgs,
    name: Option<&str>,
) -> Result<Option<BudgetList>, CliError> {
    let Some(gateway) = server.gateway()? else { return Ok(None) };
    let path = name.map_or_else(|| Ok(BUDGETS.to_owned()), path_of)?;
    let list: BudgetList = gateway.read(gateway.get(&path)?)?;
    if list.budgets.is_empty() {
        let error = CliError::new(format!("{} has no budgets", gateway.name()));
        return Err(error.with_hint("define them in the configuration file of the gateway"));
    }
    Ok(Some(list))
}

/// Corrects a budget. `None` without --server.
///
/// # Errors
/// Returns an error if the gateway cannot be asked, or does not make the correction.
pub(super) fn correct(
    server: &ServerArgs,
    name: &str,
    request: &CorrectionRequest,
) -> Result<Option<CorrectedBudgets>, CliError> {
    let Some(gateway) = server.gateway()? else { return Ok(None) };
    let (path, body) = (format!("{}/adjust", path_of(name)?), output::json(request));
    let answer = gateway.post(&path, &body).or_else(|error| match error {
        // The answer may be lost, and the correction made: with the same id it counts once.
        AskError::NoAnswer(_) => gateway.post(&path, &body),
        AskError::Refused { .. } => Err(error),
    });
    let answer = answer.map_err(|error| match error {
        AskError::NoAnswer(_) => CliError::from(error).with_hint(format!(
            "see in `endstop budget {name}` whether it is made before you repeat it"
        )),
        AskError::Refused { .. } => CliError::from(error),
    });
    gateway.read(answer?).map(Some)
}

/// The path of a budget.
fn path_of(name: &str) -> Result<String, CliError> {
    if name.is_empty() {
        return Err(CliError::new("the name of a budget is missing").with_hint("name a budget"));
    }
    Ok(format!("{BUDGETS}/{}", escaped(name)))
}
