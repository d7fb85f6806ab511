//! `endstop kill --list`: the kills that are recorded on this machine and in a store, or there where a gateway is, with who, when
//! and why.
//!
//! A separate file because it is one of the forms of the command, and shares nothing with the others.

use std::io::Write;
use std::process::ExitCode;

use endstop::account::RedisBudgetStore;
use endstop_gateway::control_source::{KillList, KillRecord};
use jiff::Timestamp;

use super::client::Gateway;
use crate::error::{CliError, ExitMeaning};
use crate::kills::recorded;
use crate::output;

/// The path of the kills in the control API.
const KILLS_PATH: &str = "/endstop/v1/kills";

/// Prints the last kills, the latest last: those of a gateway at an address, or those of this machine and of a store.
pub(super) fn list_kills(
    remote: Option<&Gateway>,
    store: Option<&RedisBudgetStore>,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<ExitCode, CliError> {
    let list: KillList = match remote {
        Some(gateway) => gateway.read(gateway.get(KILLS_PATH)?)?,
        None => {
            recorded(store).map_err(|error| CliError::from(error).with_exit(ExitMeaning::Usage))?
        }
    };
    if as_json {
        writeln!(out, "{:#}", output::json(&list))?;
    } else if list.kills.is_empty() {
        writeln!(out, "no kill is recorded")?;
    } else {
        let machine = remote.map_or_else(|| "this machine".to_owned(), Gateway::name);
        let mut table = output::table(&["killed", "when", "by", "why", "where"], &[]);
        list.kills.iter().for_each(|kill| table.add_row(cells(kill, &machine)));
        writeln!(out, "{}", output::shown(&table.to_string()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The cells of a kill. `machine` is the place of one that no store has recorded.
fn cells(kill: &KillRecord, machine: &str) -> [String; 5] {
    let in_words = |at: &String| match at.parse::<Timestamp>() {
        Ok(time) => time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        Err(_) => at.clone(),
    };
    let target = &kill.target;
    [
        kill.name.as_ref().map_or_else(|| target.clone(), |name| format!("{target} {name}")),
        kill.at.as_ref().map(in_words).unwrap_or_default(),
        kill.by.clone().unwrap_or_default(),
        kill.why.clone().unwrap_or_default(),
        kill.store.clone().unwrap_or_else(|| machine.to_owned()),
    ]
}

#[cfg(test)]
mod tests;
