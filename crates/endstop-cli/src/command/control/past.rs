//! A run that is over, as the history has it.

use std::collections::{BTreeMap, BTreeSet};

use endstop::core::units::{Money, WallTime};
use endstop::runtime::history::{History, RecordedAct, RecordedCall, RecordedRun};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::error::CliError;
use crate::history::{self, history_error};
use crate::limits::{MAX_NAMED_RUNS, MIN_RUN_PREFIX};

/// The totals of calls.
#[derive(Debug, Default)]
struct CallTotals {
    calls: u64,
    input: u64,
    cached: u64,
    output: u64,
    cost: Money,
    unpriced: u64,
    unconfirmed: (u64, Money),
    models: BTreeMap<String, (u64, Money)>,
    keys: BTreeSet<String>,
    budgets: BTreeSet<String>,
}

impl CallTotals {
    fn add(&mut self, call: RecordedCall) {
        let is_model = call.tool.is_none();
        self.calls = self.calls.saturating_add(u64::from(is_model));
        self.input = self.input.saturating_add(call.input);
        self.cached = self.cached.saturating_add(call.cached);
        self.output = self.output.saturating_add(call.output);
        self.cost = self.cost.saturating_add(call.cost);
        self.unpriced = self.unpriced.saturating_add(u64::from(!call.is_priced));
        if !call.unconfirmed.is_zero() {
            let (calls, sum) = self.unconfirmed;
            self.unconfirmed = (calls.saturating_add(1), sum.saturating_add(call.unconfirmed));
        }
        if let Some(model) = call.model {
            let (calls, cost) = self.models.entry(model).or_default();
            *calls = calls.saturating_add(1);
            *cost = cost.saturating_add(call.cost);
        }
        self.keys.extend(call.key);
        self.budgets.extend(call.budgets);
    }
}

/// The last run of exactly this name in the history. `None` if it has none.
///
/// # Errors
/// If the history cannot be read.
pub(super) fn find(name: &str) -> Result<Option<Value>, CliError> {
    let Some(history) = history::read()? else { return Ok(None) };
    let run = history.run(name).map_err(|error| history_error(&error))?;
    run.map(|run| shown(&history, &run)).transpose()
}

/// The last run of the only name in the history that begins so. `None` if none does.
///
/// # Errors
/// If several names begin so, or the history cannot be read.
pub(super) fn find_beginning(name: &str) -> Result<Option<Value>, CliError> {
    if name.len() < MIN_RUN_PREFIX {
        return Ok(None);
    }
    let Some(history) = history::read()? else { return Ok(None) };
    let failed = |error| history_error(&error);
    let mut names = history.names_beginning_with(name).map_err(failed)?;
    match names.as_slice() {
        [] => Ok(None),
        [one] => match history.run(one).map_err(failed)? {
            Some(run) => shown(&history, &run).map(Some),
            None => Ok(None),
        },
        several => {
            let count = several.len();
            names.truncate(MAX_NAMED_RUNS);
            Err(CliError::new(format!("`{name}` matches {count} runs of the history"))
                .with_hint(format!("write more of it: {}", names.join(", "))))
        }
    }
}

/// The time of the first entry of the history. `None` if it has none.
///
/// # Errors
/// If it cannot be read.
pub(super) fn begins() -> Result<Option<Timestamp>, CliError> {
    let Some(history) = history::read()? else { return Ok(None) };
    let begins = history.begins().map_err(|error| history_error(&error))?;
    let millis = begins.and_then(|wall| i64::try_from(wall.0).ok());
    Ok(millis.and_then(|wall| Timestamp::from_millisecond(wall).ok()))
}

fn shown(history: &History, run: &RecordedRun) -> Result<Value, CliError> {
    let mut totals = CallTotals::default();
    let read = history.each_call_of(run, |call| totals.add(call));
    read.map_err(|error| history_error(&error))?;
    Ok(as_json(run, &totals))
}

fn as_json(run: &RecordedRun, totals: &CallTotals) -> Value {
    let models = totals.models.iter().map(|(model, (calls, cost))| {
        json!({ "model": model, "calls": calls, "cost_usd": cost.to_decimal() })
    });
    let (unconfirmed_calls, unconfirmed) = totals.unconfirmed;
    json!({
        "version": 1,
        "source": "history",
        "run": run.id,
        "parent": run.parent,
        "agent": run.agent,
        "kind": run.origin.kind,
        "program": run.origin.program,
        "directory": run.origin.directory,
        "began": time(run.began),
        "ended": run.ended.map(time),
        "status": run.status,
        "reason": run.reason,
        "message": run.text,
        "sub_agents": run.sub_agents,
        "calls": totals.calls,
        "input_tokens": totals.input,
        "cached_tokens": totals.cached,
        "output_tokens": totals.output,
        "cost_usd": totals.cost.to_decimal(),
        "unpriced_calls": totals.unpriced,
        "unconfirmed_calls": unconfirmed_calls,
        "unconfirmed_usd": unconfirmed.to_decimal(),
        "models": models.collect::<Vec<_>>(),
        "keys": totals.keys,
        "budgets": totals.budgets,
        "acts": run.acts.iter().map(act).collect::<Vec<_>>(),
    })
}

fn act(act: &RecordedAct) -> Value {
    json!({
        "at": time(act.at),
        "what": act.what,
        "detail": act.detail,
        "who": act.who,
        "why": act.why,
    })
}

fn time(wall: WallTime) -> Option<String> {
    let wall = i64::try_from(wall.0).ok()?;
    Timestamp::from_millisecond(wall).ok().map(|time| time.to_string())
}
