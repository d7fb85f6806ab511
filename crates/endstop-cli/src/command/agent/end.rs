//! What is said when a run has ended or pauses: the answer, why, what it took, how it ends the process.

use std::io::Write;
use std::process::ExitCode;

use endstop::agent::AgentState;
use endstop::core::run::Status;
use endstop::core::signal::StopReason;
use endstop::core::units::Millis;
use endstop::core::wire::v1::trace::Usage;
use serde_json::{Value, json};

use super::setup::Setup;
use crate::error::{CliError, ExitMeaning};
use crate::output::{self, counted, duration, money, tokens};

/// Prints how the run ended.
///
/// # Errors
/// If the output cannot be written.
pub(super) fn tell(
    state: &AgentState,
    setup: &Setup,
    as_json: bool,
    is_kept: bool,
    out: &mut dyn Write,
) -> Result<ExitCode, CliError> {
    let meaning = meaning(state);
    if as_json {
        writeln!(out, "{}", to_json(state, setup, meaning))?;
    } else if let Some(response) = state.current_response() {
        writeln!(out, "{}", response.trim_end())?;
    }
    // The answer comes first on a terminal too.
    out.flush()?;
    if matches!(meaning, ExitMeaning::Stopped | ExitMeaning::Interrupted) {
        output::note(&format!("\n{}\n", state.explain()));
    }
    for tool in &state.execution.still_running {
        output::warn(&format!("the tool `{tool}` could not be aborted and may still be running"));
    }
    let kept = if is_kept { format!(" \u{b7} run {}", state.id) } else { String::new() };
    output::note(&format!("{}{kept}", summary(state)));
    if state.status() == Status::Paused && is_kept {
        let id = &state.id;
        output::note(&format!(
            "it is paused; go on with: endstop agent --resume {id} --approve\n\
             or up to an amount:       endstop agent --resume {id} --approve=USD"
        ));
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

/// What the process ends with.
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
fn summary(state: &AgentState) -> String {
    let ended = match (state.status(), state.stop_reason()) {
        (Status::Completed | Status::Paused, _) | (_, None) => state.status().name().to_owned(),
        (status, Some(reason)) => format!("{} ({})", status.name(), reason.value()),
    };
    let about = if state.execution.is_estimate { "about " } else { "" };
    let cost = state.cost().map_or_else(|| "cost unknown".to_owned(), money);
    format!(
        "{ended} \u{b7} {} \u{b7} {about}{} \u{b7} {cost} \u{b7} {}",
        counted(state.step_count(), "step"),
        tokens(state.usage().total()),
        duration(Millis(state.execution.at_ms)),
    )
}

fn to_json(state: &AgentState, setup: &Setup, meaning: ExitMeaning) -> Value {
    let execution = &state.execution;
    json!({
        "version": 1,
        "run": state.id,
        "model": setup.model,
        "status": state.status().name(),
        "reason": state.stop_reason().map(|reason| reason.value()),
        "exit_code": meaning.code(),
        "response": state.current_response(),
        "is_final": state.has_final_response(),
        "steps": state.step_count(),
        "usage": Usage::from(state.usage()),
        "tokens": state.usage().total(),
        "is_estimate": execution.is_estimate,
        "cost_usd": state.cost().map(|cost| cost.to_decimal()),
        "elapsed_ms": execution.at_ms,
        "error": execution.error,
        "still_running": execution.still_running,
        "verdict": execution.verdict,
    })
}
