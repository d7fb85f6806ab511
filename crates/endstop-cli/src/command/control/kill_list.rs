//! `endstop kill --list`: the kills that are recorded on this machine and in a store, with who, when and why.

use std::io::Write;
use std::process::ExitCode;

use endstop::account::{KillTarget, PastKill, RedisBudgetStore, StoreKill};
use endstop::core::units::WallTime;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::epoch;
use crate::error::CliError;
use crate::output;
use crate::who::who;

/// A kill, as it is listed.
#[derive(Debug)]
struct ListedKill {
    kill: PastKill,
    /// The server of its store. `None` for one of this machine.
    store: Option<String>,
}

/// Prints the last kills, the latest last.
pub(super) fn list_kills(
    store: Option<&RedisBudgetStore>,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<ExitCode, CliError> {
    let here = epoch::last_kill()?.map(|last| {
        let target = KillTarget::All;
        let kill = StoreKill { target, why: last.why };
        ListedKill { kill: PastKill { kill, at: Some(WallTime(last.at)) }, store: None }
    });
    let mut all: Vec<ListedKill> = here.into_iter().collect();
    if let Some(store) = store {
        let kills = store.kills().map_err(|error| CliError::new(error.to_string()))?;
        let server = store.server();
        let listed = |kill| ListedKill { kill, store: Some(server.to_owned()) };
        all.extend(kills.into_iter().map(listed));
    }
    all.sort_by_key(|listed| listed.kill.at.map(|at| at.0));
    if as_json {
        let kills: Vec<Value> = all.iter().map(ListedKill::to_json).collect();
        writeln!(out, "{:#}", json!({ "version": 1, "kills": kills }))?;
    } else if all.is_empty() {
        writeln!(out, "no kill is recorded")?;
    } else {
        let mut table = output::table(&["killed", "when", "by", "why", "where"], &[]);
        all.iter().for_each(|listed| table.add_row(listed.cells()));
        writeln!(out, "{}", output::shown(&table.to_string()))?;
    }
    Ok(ExitCode::SUCCESS)
}

impl ListedKill {
    fn time(&self) -> Option<Timestamp> {
        let millis = i64::try_from(self.kill.at?.0).ok()?;
        Timestamp::from_millisecond(millis).ok()
    }

    fn to_json(&self) -> Value {
        let (target, name) = words_of(&self.kill.kill.target);
        let (by, why) = by_and_why(&self.kill.kill.why);
        json!({
            "target": target,
            "name": name,
            "at": self.time().map(|time| time.to_string()),
            "by": by,
            "why": why,
            "store": self.store,
        })
    }

    fn cells(&self) -> [String; 5] {
        let (target, name) = words_of(&self.kill.kill.target);
        let (by, why) = by_and_why(&self.kill.kill.why);
        let time = self.time().map(|time| time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string());
        [
            name.map_or_else(|| target.to_owned(), |name| format!("{target} {name}")),
            time.unwrap_or_default(),
            by.unwrap_or_default().to_owned(),
            why.unwrap_or_default().to_owned(),
            self.store.clone().unwrap_or_else(|| "this machine".to_owned()),
        ]
    }
}

/// The kind of a target, and its name.
fn words_of(target: &KillTarget) -> (&'static str, Option<&str>) {
    match target {
        KillTarget::Run(name) => ("run", Some(name.as_str())),
        KillTarget::Key(name) => ("key", Some(name.as_str())),
        KillTarget::Budget(name) => ("budget", Some(name.as_str())),
        _ => ("all", None),
    }
}

/// The reason of a kill, and who it is by.
pub(super) fn why_by(why: Option<&str>) -> String {
    let by = format!("killed by {}", who());
    let why = why.filter(|why| !why.is_empty());
    why.map_or_else(|| by.clone(), |why| format!("{why} ({by})"))
}

/// Who killed, and the reason, of a text as [`why_by`] writes it. One of another program is the reason.
fn by_and_why(text: &str) -> (Option<&str>, Option<&str>) {
    let inner = text.strip_suffix(')').and_then(|text| text.rsplit_once(" (killed by "));
    if let Some((why, by)) = inner {
        return (Some(by), Some(why));
    }
    match text.strip_prefix("killed by ") {
        Some(by) => (Some(by), None),
        None => (None, Some(text).filter(|text| !text.is_empty())),
    }
}

#[cfg(test)]
mod tests;
