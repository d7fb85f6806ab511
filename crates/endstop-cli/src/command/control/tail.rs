//! `endstop tail`: a live run, followed to its end.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::ExitCode;

use endstop::core::units::Money;
use serde_json::{Value, json};

use super::live_runs::Where;
use super::{status, text, waits_for};
use crate::error::CliError;
use crate::output;

const HELP: &str = "\
Examples:
  endstop tail nightly-17
  endstop tail nightly-17 --json

It prints a line when the run has begun another step, spends, warns, pauses or
resumes, and ends with the run or its process. A run that has completed can
continue with the next message of its user, so it is followed further.";

/// Arguments of `endstop tail`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = HELP)]
pub struct TailArgs {
    /// The run, or the beginning of its name
    run: String,
    /// Print JSON lines
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    at: Where,
}

/// The last state of a run that was printed.
#[derive(Debug, Default)]
struct Printed {
    numbers: Option<(u64, String)>,
    status: String,
    waits_for: Option<String>,
    warnings: BTreeSet<String>,
}

/// Follows a run until it has stopped or failed, or its process has ended.
///
/// # Errors
/// Returns an error if there is no such run, or its process does not answer.
pub fn run(args: &TailArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    let live_runs = args.at.live_runs()?;
    let (gateway, found) = live_runs.find(&args.run)?;
    let (mut printed, mut query) = (Printed::default(), String::new());
    loop {
        let path = format!("/endstop/v1/runs/{}/wait{query}", found.id);
        let answer = match gateway.get(&path) {
            Ok(answer) => answer,
            Err(error) if args.at.gateways()?.iter().any(|it| it.name() == gateway.name()) => {
                return Err(error.into());
            }
            Err(_) => {
                line(args.json, &found.id, "gone", json!({}), "its process has ended", out)?;
                return Ok(ExitCode::SUCCESS);
            }
        };
        let events = answer.get("events").and_then(Value::as_u64).unwrap_or_default();
        query = format!("?events={events}");
        let run = answer.get("run").cloned().unwrap_or_default();
        printed.print(&run, &found.id, args.json, out)?;
        let is_closing = answer.get("is_closing").and_then(Value::as_bool) == Some(true);
        let is_idle = run.get("calls_in_flight").and_then(Value::as_u64) == Some(0);
        let has_stopped = matches!(text(&run, "/status"), "stopped" | "failed");
        if is_closing || has_stopped && is_idle {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

impl Printed {
    /// Prints what is new.
    fn print(
        &mut self,
        run: &Value,
        id: &str,
        as_json: bool,
        out: &mut dyn Write,
    ) -> Result<(), CliError> {
        let number = |pointer| run.pointer(pointer).and_then(Value::as_u64).unwrap_or_default();
        let (steps, tokens) = (number("/report/totals/steps"), number("/report/totals/tokens"));
        let usd = text(run, "/report/spend/usd").to_owned();
        let numbers = Some((steps, usd.clone()));
        if self.numbers != numbers {
            self.numbers = numbers;
            let cost = usd.parse::<Money>().map(output::money);
            let cost = cost.unwrap_or_else(|_| "unknown cost".to_owned());
            let words = format!(
                "{} \u{b7} {} \u{b7} {cost}",
                output::counted(steps, "step"),
                output::tokens(tokens)
            );
            let value = json!({ "steps": steps, "tokens": tokens, "cost_usd": usd });
            line(as_json, id, "progress", value, &words, out)?;
        }
        for warning in warnings(run) {
            if self.warnings.insert(warning.clone()) {
                let words = format!("warning: {warning}");
                line(as_json, id, "warning", json!({ "text": warning }), &words, out)?;
            }
        }
        let waits = waits_for(run);
        if self.waits_for != waits {
            let (event, why) = match &waits {
                Some(why) => ("paused", why.as_str()),
                None => ("resumed", ""),
            };
            let words = if why.is_empty() { event.to_owned() } else { format!("{event}: {why}") };
            line(as_json, id, event, json!({ "text": why }), &words, out)?;
            self.waits_for = waits;
        }
        let status = status(None, run);
        if self.status != status {
            status.clone_into(&mut self.status);
            // For people the line of the pause says it.
            if status == "paused" && self.waits_for.is_some() && !as_json {
                return Ok(());
            }
            let reason = text(run, "/report/reason");
            let message = text(run, "/report/verdict/primary/message");
            let why: Vec<&str> = [reason, message]
                .into_iter()
                .filter(|it| !it.is_empty() && *it != status)
                .collect();
            let words = match why.is_empty() {
                true => status.to_owned(),
                false => format!("{status}: {}", why.join(": ")),
            };
            let value = json!({ "status": status, "reason": reason, "text": message });
            line(as_json, id, "status", value, &words, out)?;
        }
        Ok(())
    }
}

/// The warn rules that have tripped.
fn warnings(run: &Value) -> Vec<String> {
    let rules = run.pointer("/report/verdict/rules").and_then(Value::as_array);
    let trips = rules.into_iter().flatten().filter(|rule| {
        text(rule, "/action") == "warn" && rule.get("trips").and_then(Value::as_bool) == Some(true)
    });
    trips.map(|rule| format!("{} ({})", text(rule, "/id"), text(rule, "/tree/text"))).collect()
}

fn line(
    as_json: bool,
    run: &str,
    event: &str,
    value: Value,
    words: &str,
    out: &mut dyn Write,
) -> Result<(), CliError> {
    if as_json {
        let mut all = json!({ "version": 1, "event": event, "run": run });
        if let (Some(all), Value::Object(more)) = (all.as_object_mut(), value) {
            all.extend(more);
        }
        writeln!(out, "{all}")?;
    } else {
        writeln!(out, "{run}: {}", endstop::observe::clean(words))?;
    }
    out.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests;
