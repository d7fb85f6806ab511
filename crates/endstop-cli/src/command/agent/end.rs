//! The output when a run has ended or pauses: the answer, the reason, its usage, and the exit code.

use std::io::Write;
use std::process::ExitCode;

use endstop::agent::AgentState;
use endstop::core::run::Status;
use endstop::core::signal::StopReason;
use endstop::core::trip_record::{RuleRecord, TripRecord};
use endstop::core::units::{Millis, Money};
use endstop::core::wire::v1::trace::Usage;
use endstop::ledger::Amounts;
use endstop::message::Message;
use serde_json::{Value, json};

use super::super::limits::take_an_amount;
use super::super::trip;
use super::setup::{PRICE_HINT, Setup};
use crate::error::{CliError, ExitMeaning};
use crate::output::{self, counted, duration, money, tokens};

/// The form of the output.
pub(super) struct How {
    pub(super) as_json: bool,
    /// The run is in a store.
    pub(super) is_kept: bool,
    /// Messages of earlier parts: their answers have been printed.
    pub(super) before: usize,
}

/// Prints how the run ended.
///
/// # Errors
/// Returns an error if the output cannot be written.
pub(super) fn tell(
    state: &AgentState,
    setup: &Setup,
    how: &How,
    overshoot: &Amounts,
    out: &mut dyn Write,
) -> Result<ExitCode, CliError> {
    let meaning = meaning(state);
    let record = trip_record(state, setup);
    if how.as_json {
        let mut object = to_json(state, setup, meaning, how.before);
        if let Value::Object(object) = &mut object {
            object.insert("overshoot".to_owned(), overshoot_json(overshoot));
            object.insert("verdict".to_owned(), json!(record));
        }
        writeln!(out, "{object}")?;
    } else if let Some(response) = new_response(state, how.before) {
        writeln!(out, "{}", output::shown(response.trim_end()))?;
    }
    // The answer comes first on a terminal too.
    out.flush()?;
    if matches!(meaning, ExitMeaning::Stopped | ExitMeaning::Interrupted) {
        let record = record.map_or_else(|| state.explain(), |record| record.to_string());
        output::note(&format!("\n{record}\n"));
    }
    if let Some(text) = trip::overshoot(overshoot) {
        output::note(&text);
    }
    for tool in &state.execution.still_running {
        output::warn(&format!("the tool `{tool}` could not be aborted and may still be running"));
    }
    let kept = if how.is_kept { format!(" \u{b7} run {}", state.id) } else { String::new() };
    output::note(&format!("{}{kept}", summary(state, setup)));
    if state.status() == Status::Paused {
        tell_of_pause(state, setup, how.is_kept);
    }
    if state.stop_reason() == Some(StopReason::CostLimitReached)
        && setup.stops_for_want_of_a_price()
    {
        output::note(&format!("hint: {PRICE_HINT}, --unpriced ignore lets it continue"));
    }
    if meaning == ExitMeaning::AnswerIsNo {
        let why = state.execution.error.as_deref().map(str::to_owned);
        let why = why.unwrap_or_else(|| {
            state.last_stop_signal().map(ToString::to_string).unwrap_or_default()
        });
        CliError::new(why).print();
    }
    Ok(ExitCode::from(meaning.code()))
}

/// The pause rules that pause the run.
pub(super) fn held(state: &AgentState) -> Vec<&RuleRecord> {
    let record = state.execution.trip_record.as_deref();
    let record = record.filter(|_| state.status() == Status::Paused);
    record.map(|record| trip::pausing(record).collect()).unwrap_or_default()
}

fn tell_of_pause(state: &AgentState, setup: &Setup, is_kept: bool) {
    let held = held(state);
    for rule in &held {
        output::note(&format!("paused by {}", trip::why(rule)));
    }
    if !is_kept {
        return;
    }
    let id = &state.id;
    output::note(&format!("it is paused; resume it with: endstop agent --resume {id} --approve"));
    if !held.is_empty() && take_an_amount(&setup.policy, held.iter().map(|rule| rule.id.as_str())) {
        output::note(&format!(
            "or up to an amount:       endstop agent --resume {id} --approve=USD"
        ));
    }
}

/// The text of the run after its first `before` messages: the final answer, or the last text.
fn new_response(state: &AgentState, before: usize) -> Option<&str> {
    let replies = state.steps().iter().rev().filter_map(|step| step.reply);
    let new = replies.take_while(|at| *at >= before);
    let mut texts = new.filter_map(|at| state.messages.get(at)).map(Message::text);
    match state.final_response() {
        Some(answer) => texts.next().map(|_| answer),
        None => texts.find(|text| !text.trim().is_empty()),
    }
}

/// The trip record, in which an unknown amount is not reported as zero.
fn trip_record(state: &AgentState, setup: &Setup) -> Option<TripRecord> {
    let mut record = state.execution.trip_record.as_deref()?.clone();
    record.cost_usd = record.cost_usd.filter(|_| setup.cost(state).is_some());
    Some(record)
}

/// Null if the run kept its limits.
fn overshoot_json(overshoot: &Amounts) -> Value {
    if trip::overshoot(overshoot).is_none() {
        return Value::Null;
    }
    json!({ "cost_usd": overshoot.cost.to_decimal(), "tokens": overshoot.tokens })
}

/// The exit code of the process.
fn meaning(state: &AgentState) -> ExitMeaning {
    match (state.status(), state.stop_reason()) {
        _ if state.execution.error.is_some() => ExitMeaning::AnswerIsNo,
        (Status::Completed, _) => ExitMeaning::Ok,
        (Status::Failed, _) => ExitMeaning::AnswerIsNo,
        (_, Some(StopReason::UserRequested)) => ExitMeaning::Interrupted,
        _ => ExitMeaning::Stopped,
    }
}

/// One line: how it ended, steps, tokens, money, time.
fn summary(state: &AgentState, setup: &Setup) -> String {
    let ended = match (state.status(), state.stop_reason()) {
        (Status::Completed | Status::Paused, _) | (_, None) => state.status().name().to_owned(),
        (status, Some(reason)) => format!("{} ({})", status.name(), reason.value()),
    };
    let about = if state.execution.is_estimate { "about " } else { "" };
    let cost = match (setup.cost(state), state.cost()) {
        (Some(cost), _) => money(cost),
        (None, Some(least)) if least > Money::ZERO => format!("at least {}", money(least)),
        (None, _) => "cost unknown".to_owned(),
    };
    format!(
        "{ended} \u{b7} {} \u{b7} {about}{} \u{b7} {cost} \u{b7} {}",
        counted(state.step_count(), "step"),
        tokens(state.usage().total()),
        duration(Millis(state.execution.at_ms)),
    )
}

fn to_json(state: &AgentState, setup: &Setup, meaning: ExitMeaning, before: usize) -> Value {
    let execution = &state.execution;
    let response = new_response(state, before);
    let paused_by = held(state).into_iter().map(|rule| {
        let leaf = rule.tree.first_true();
        json!({
            "rule": rule.id,
            "condition": leaf.map(|leaf| &leaf.text),
            "observed": leaf.and_then(|leaf| leaf.observed.as_ref()),
        })
    });
    json!({
        "version": 1,
        "run": state.id,
        "model": setup.model,
        "status": state.status().name(),
        "reason": state.stop_reason().map(|reason| reason.value()),
        "paused_by": paused_by.collect::<Vec<_>>(),
        "exit_code": meaning.code(),
        "response": response,
        "is_final": response.is_some() && state.has_final_response(),
        "steps": state.step_count(),
        "usage": Usage::from(state.usage()),
        "tokens": state.usage().total(),
        "is_estimate": execution.is_estimate,
        "cost_usd": setup.cost(state).map(|cost| cost.to_decimal()),
        "elapsed_ms": execution.at_ms,
        "error": execution.error,
        "still_running": execution.still_running,
    })
}
