//! The kills that are recorded on this machine and in a store, with who, when and why. `endstop kill --list` prints them, and the
//! control API of `endstop serve` answers with them.

use endstop::account::{BudgetStoreError, KillTarget, PastKill, RedisBudgetStore, StoreKill};
use endstop::core::units::WallTime;
use endstop_gateway::control_source::{KillList, KillRecord, SourceError, SourceErrorKind};
use jiff::Timestamp;

use crate::epoch;

/// The last kill of everything on this machine, and the last kills of a store, the latest last.
///
/// # Errors
/// Returns an error if they cannot be read.
pub(crate) fn recorded(store: Option<&RedisBudgetStore>) -> Result<KillList, SourceError> {
    let here = epoch::last_kill().map_err(|error| error.into_source(SourceErrorKind::Failed))?;
    let here = here.map(|last| {
        let kill = StoreKill { target: KillTarget::All, why: last.why };
        (PastKill { kill, at: Some(WallTime(last.at)) }, None)
    });
    let mut all: Vec<(PastKill, Option<&str>)> = here.into_iter().collect();
    if let Some(store) = store {
        let kills = store.kills().map_err(|error| refused_by_store(&error))?;
        let server = store.server();
        all.extend(kills.into_iter().map(|kill| (kill, Some(server))));
    }
    all.sort_by_key(|(kill, _)| kill.at.map(|at| at.0));
    Ok(KillList::new(all.iter().map(|(kill, store)| record(kill, *store)).collect()))
}

fn refused_by_store(error: &BudgetStoreError) -> SourceError {
    let kind = match error {
        BudgetStoreError::Away { .. } => SourceErrorKind::Away,
        _ => SourceErrorKind::Failed,
    };
    SourceError::new(kind, error.to_string())
}

/// A kill of a store, or of this machine.
fn record(past: &PastKill, store: Option<&str>) -> KillRecord {
    let (target, name) = words_of(&past.kill.target);
    let (by, why) = by_and_why(&past.kill.why);
    let owned = |text: Option<&str>| text.map(str::to_owned);
    KillRecord {
        target: target.to_owned(),
        name: owned(name),
        at: past.at.and_then(timestamp).map(|time| time.to_string()),
        by: owned(by),
        why: owned(why),
        store: owned(store),
    }
}

fn timestamp(at: WallTime) -> Option<Timestamp> {
    let millis = i64::try_from(at.0).ok()?;
    Timestamp::from_millisecond(millis).ok()
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

/// The reason of a kill by someone, as it is recorded.
#[cfg(any(unix, test))]
pub(crate) fn why_by(why: Option<&str>, by: &str) -> String {
    let by = format!("killed by {by}");
    let why = why.filter(|why| !why.is_empty());
    why.map_or_else(|| by.clone(), |why| format!("{why} ({by})"))
}

/// Who killed, and the reason, of a text as `endstop kill` records it. One of another program is the reason.
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
