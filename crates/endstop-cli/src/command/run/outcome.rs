//! The end: the trip record, the summary, the JSON file, and the code of the process.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use endstop::account::AccountRefused;
use endstop::core::condition::gauge::Unit;
use endstop::core::expr::amount_text;
use endstop::core::run::WindowReset;
use endstop::core::signal::{StopReason, StopSignal};
use endstop::core::units::{Millis, Money, WallTime};
use endstop::observe::{DryRunObserver, RefusedCall, Remedy, Report, SubAgent, plan_text};
use endstop::store::private_file;
use endstop_gateway::Counts;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::super::trip;
use super::child::Ended;
use super::guard::{GuardOutcome, LIMITS_FIXED};
use super::shutdown::SentSignals;
use crate::command::redact;
use crate::duration::millis;
use crate::error::{CliError, ExitMeaning};
use crate::output::{self, counted, duration, tokens};

/// The line if no call used the gateway.
const NO_CALLS: &str = "endstop: no model call came through the gateway, so nothing was limited; does the \
                        command read OPENAI_BASE_URL, ANTHROPIC_BASE_URL or GOOGLE_GEMINI_BASE_URL? \
                        `endstop doctor -- COMMAND` says how it can be limited";

/// Added to [`NO_CALLS`] without the guard.
const NOT_SEEN: &str = "; with --no-guard, calls that bypassed it were not seen";
/// Of every text about missing calls.
const NO_MODEL_CALL: &str = "endstop: no model call came through the gateway";

/// The hint for a model without a price.
const PRICE_HINT: &str = "hint: --unpriced 3,15 gives models without a price one, in dollars for a million tokens of \
                          input and output; --prices FILE names prices; --unpriced ignore \
                          with --steps or --tokens lets them continue, uncounted";

/// Sub-agents that have a line in the summary.
const SHOWN_AGENTS: usize = 5;

/// The contents of the summary.
pub(super) struct RunOutcome<'s> {
    pub(super) run: String,
    pub(super) command: &'s [OsString],
    pub(super) ended: Ended,
    /// The signals that Endstop sent to end it.
    pub(super) sent: SentSignals,
    /// From the start of the command until Endstop waits for nothing.
    pub(super) elapsed: Duration,
    /// Why the run was stopped, if it was.
    pub(super) stopped: Option<StopSignal>,
    /// The pause rules that paused calls until the end, and why.
    pub(super) paused_by: Option<Vec<String>>,
    /// The reset for which such a rule waits.
    pub(super) reset: Option<WindowReset>,
    /// How long a call waits for an approval.
    pub(super) pause_limit: Duration,
    pub(super) preserves_status: bool,
    pub(super) counts: Counts,
    /// Fields of requests that no table has.
    pub(super) unknown_fields: Vec<String>,
    /// Windows of the subscription and their used part, in hundredths of a percent.
    pub(super) quotas: Vec<(String, u64)>,
    /// The next reset of each window, if the provider reported it.
    pub(super) quota_resets: Vec<WindowReset>,
    pub(super) report: Option<Report>,
    /// The call that money or tokens did not admit.
    pub(super) refused: Option<RefusedCall>,
    /// The full budget that a call waited for, if no call was admitted since.
    pub(super) full_budget: Option<AccountRefused>,
    /// The options of limits that the user gave, without dashes.
    pub(super) options: Vec<&'static str>,
    /// The policy that was not obeyed, under `--dry-run`.
    pub(super) dry_run: Option<&'s DryRunObserver>,
    /// The connections that bypassed the gateway, or would have.
    pub(super) guard: GuardOutcome,
}

impl RunOutcome<'_> {
    /// The code of the process.
    pub(super) fn exit_code(&self) -> u8 {
        if self.guard.has_ended {
            return ExitMeaning::OwnFailure.code();
        }
        let is_forced = self.stopped.as_ref().is_some_and(|signal| signal.reason.is_forced());
        let is_stopped = is_forced || self.paused_by.is_some() || self.full_budget.is_some();
        if !is_stopped && self.lacks_calls() {
            return ExitMeaning::OwnFailure.code();
        }
        match is_stopped && !self.preserves_status {
            true => ExitMeaning::Stopped.code(),
            false => self.ended.code(),
        }
    }

    /// The signal of the terminal's keys that ended the command, if its end is passed on.
    pub(super) fn signal(&self) -> Option<Signal> {
        match self.ended {
            Ended::Signal(signal @ (Signal::SIGINT | Signal::SIGQUIT)) => {
                Some(signal).filter(|_| self.exit_code() == self.ended.code())
            }
            _ => None,
        }
    }

    /// Prints the summary on standard error.
    pub(super) fn tell(&self) {
        if let Some(dry_run) = self.dry_run {
            tell_of_dry_run(dry_run);
        }
        let Some(report) = &self.report else { return };
        if self.stopped.is_some() || self.paused_by.is_some() {
            output::note(&format!("\n{}\n", report.trip_record));
        }
        if let Some(why) = self.why_held() {
            output::note(&format!("endstop: stopped: {why}"));
        }
        if let Some(budget) = self.full_budget.as_ref().filter(|_| self.stopped.is_none()) {
            output::note(&format!("endstop: stopped: {budget}"));
        }
        if let Some(refused) = self.refused_call() {
            output::note(&output::wrapped(
                &format!("endstop: {}", refused.text_for(&self.options)),
                output::error_width(),
                "  ",
            ));
        }
        if let Some(text) = trip::overshoot(&report.overshoot) {
            output::note(&text);
        }
        if !self.unknown_fields.is_empty() {
            let names = self.unknown_fields.join("`, `");
            output::warn(&format!(
                "requests had fields that Endstop does not know: `{}`; they passed, and may have changed the price",
                endstop::observe::clean(&names)
            ));
        }
        let say = |text: &str| {
            output::say(output::wrapped(text, output::error_width(), "  ").trim_end());
        };
        self.guard.lines().iter().for_each(|line| say(line));
        if let Some(intercepted) = self.guard.intercepted() {
            output::note(output::wrapped(&intercepted, output::error_width(), "  ").trim_end());
        }
        if self.had_no_request(report) {
            return say(&self.why_no_request());
        }
        if self.lacks_calls() {
            say(&format!("{NO_MODEL_CALL}{}", self.of_required_calls()));
        }
        output::note(&self.summary(report));
        of_agents(&report.sub_agents).iter().for_each(|line| output::note(line));
        match self.stopped.as_ref().and_then(Remedy::of) {
            Some(Remedy::SetPrice) => output::note(PRICE_HINT),
            Some(remedy) => output::note(&format!("endstop: to continue, {remedy}")),
            None => {}
        }
    }

    /// The call that did not fit, if the run ended by that.
    fn refused_call(&self) -> Option<&RefusedCall> {
        let reason = self.stopped.as_ref()?.reason;
        let is_of_amounts =
            matches!(reason, StopReason::CostLimitReached | StopReason::TokenLimitReached);
        self.refused.as_ref().filter(|_| is_of_amounts)
    }

    /// Whether nothing that the gateway could have limited came, and nothing else stopped the run.
    fn had_no_request(&self, report: &Report) -> bool {
        let counts = &self.counts;
        let answered = counts.stop_responses + counts.refused;
        let requests = report.totals.attempts + counts.unmetered + answered;
        let is_held = self.paused_by.is_some() || self.full_budget.is_some();
        requests == 0 && self.stopped.is_none() && !is_held
    }

    /// The line if no request reached the gateway. A command that failed before it made a call is not asked for its
    /// variables.
    fn why_no_request(&self) -> String {
        let failed = match self.ended {
            Ended::Code(code) if code != 0 => Some(format!("ended with exit code {code}")),
            Ended::Signal(signal) => Some(format!("was ended by {signal}")),
            Ended::Code(_) | Ended::Unknown => None,
        };
        let why = match failed.filter(|_| self.guard.saw_no_attempt()) {
            Some(failed) => format!("{NO_MODEL_CALL}; the command {failed} before it made one"),
            None => NO_CALLS.to_owned(),
        };
        let is_pointed = why == NO_CALLS && !self.guard.intercepted_all();
        let other_way = if is_pointed { LIMITS_FIXED } else { "" };
        let unseen = if self.guard.is_off() { NOT_SEEN } else { "" };
        format!("{why}{other_way}{unseen}{}", self.of_required_calls())
    }

    /// Whose exit code this process has, under `--require-calls` without calls.
    fn of_required_calls(&self) -> String {
        match self.lacks_calls() {
            true => format!(
                "; --require-calls makes the exit code {}, and the command's own is {}",
                self.exit_code(),
                self.ended.code()
            ),
            false => String::new(),
        }
    }

    /// Whether the user requires model calls, and none reached the gateway.
    fn lacks_calls(&self) -> bool {
        let attempts = self.report.as_ref().map_or(0, |report| report.totals.attempts);
        let counts = &self.counts;
        self.guard.requires_calls && attempts + counts.stop_responses + counts.refused == 0
    }

    /// Why a run without an approval counts as stopped.
    fn why_held(&self) -> Option<String> {
        let rules = self.paused_by.as_ref()?.join("; ");
        let limit = millis(self.pause_limit);
        if let Some(reset) = &self.reset {
            let text = trip::reset_text(reset);
            return Some(format!("the command ended before {text} (rule {rules})"));
        }
        Some(match self.counts.stop_responses {
            0 => format!("the command ended without an approval (rule {rules})"),
            _ => format!("not approved within {} (rule {rules})", duration(limit)),
        })
    }

    fn elapsed_ms(&self) -> Millis {
        millis(self.elapsed)
    }

    /// One line: how it ended, steps, calls, tokens, money, time.
    fn summary(&self, report: &Report) -> String {
        let totals = &report.totals;
        let ended = match (&self.stopped, self.ended) {
            _ if self.guard.has_ended => "ended (its calls bypassed the gateway)".to_owned(),
            (Some(signal), _) => format!("stopped ({})", signal.reason),
            (None, _) if self.paused_by.is_some() && self.reset.is_some() => {
                "stopped (waited for the plan)".to_owned()
            }
            (None, _) if self.paused_by.is_some() => "stopped (not approved)".to_owned(),
            (None, _) if self.full_budget.is_some() => "stopped (waited for a budget)".to_owned(),
            (None, Ended::Signal(signal)) => format!("ended by {signal}"),
            (None, ended) => format!("exit code {}", ended.code()),
        };
        let mut parts = vec![
            format!("endstop: {ended}"),
            counted(totals.steps, "step"),
            counted(self.counts.upstream_calls, "model call"),
            tokens(totals.tokens),
            report.spend.to_string(),
            duration(self.elapsed_ms()),
        ];
        if !self.quotas.is_empty() {
            parts.push(format!("plan: {} used", plan_text(&self.quotas)));
        }
        if self.counts.stop_responses > 0 {
            parts.push(counted(self.counts.stop_responses, "stop response"));
        }
        if self.counts.refused > 0 {
            parts.push(format!("{} refused", counted(self.counts.refused, "call")));
        }
        if self.counts.unmetered > 0 {
            parts.push(format!("{} not metered", counted(self.counts.unmetered, "request")));
        }
        parts.join(" \u{b7} ")
    }

    /// The same for machines.
    pub(super) fn to_json(&self) -> Value {
        let command = redact::command(self.command);
        let dry_run = self.dry_run.map(|dry_run| {
            let stop = dry_run.first_stop();
            json!({
                "would_have_stopped": stop.is_some(),
                "reason": stop.as_ref().map(|stop| stop.signal.reason.value()),
                "at_ms": stop.as_ref().map(|stop| stop.at.0),
                "steps": stop.as_ref().map(|stop| stop.steps),
                "tokens": stop.as_ref().map(|stop| stop.tokens),
                "cost_usd": stop.as_ref().and_then(|stop| stop.cost).map(|cost| cost.to_decimal()),
                "paused_by": dry_run.paused_by(),
                "verdict": dry_run.trip_record(),
            })
        });
        let mut summary = json!({
            "version": 1,
            "run": self.run,
            "command": command,
            "exit_code": self.exit_code(),
            "command_exit_code": self.ended.code(),
            "ended_by": self.sent.command.map(Signal::as_str),
            "left_behind_ended_by": self.sent.left_behind.map(Signal::as_str),
            "stopped": self.stopped.is_some()
                || self.paused_by.is_some()
                || self.full_budget.is_some(),
            "paused_by": self.paused_by,
            "elapsed_ms": self.elapsed_ms().0,
            "upstream_calls": self.counts.upstream_calls,
            "stop_responses": self.counts.stop_responses,
            "unmetered": self.counts.unmetered,
            "unknown_fields": self.unknown_fields,
            "not_sent": self.refused_call().map(|refused| refused.text_for(&self.options)),
            "guard": self.guard.to_json(),
            "dry_run": dry_run,
            "report": self.report,
        });
        if let (false, Value::Object(keys)) = (self.quotas.is_empty(), &mut summary) {
            let used = self.quotas.iter();
            let used = used.map(|(window, used)| (window.clone(), Value::from(percent(*used))));
            keys.insert("quotas".to_owned(), Value::Object(used.collect()));
            let resets = self.quota_resets.iter();
            let resets = resets.map(|reset| (reset.window.clone(), Value::from(time(reset.at))));
            keys.insert("quota_resets".to_owned(), Value::Object(resets.collect()));
        }
        summary
    }
}

/// `42%`, from hundredths of a percent.
fn percent(used: u64) -> String {
    amount_text(used, Unit::Percent)
}

/// `2027-01-01T00:00:00Z`.
fn time(at: WallTime) -> String {
    amount_text(at.0, Unit::WallTime).trim_matches('"').to_owned()
}

/// Those that cost most, first.
fn of_agents(agents: &[SubAgent]) -> Vec<String> {
    // Conversations without a name get one from the gateway.
    let is_named = |agent: &SubAgent| !agent.agent.starts_with("conversation ");
    let mut agents: Vec<&SubAgent> = agents.iter().filter(|agent| agent.steps > 0).collect();
    let cost = |agent: &SubAgent| agent.spend.usd.parse::<Money>().unwrap_or_default();
    agents.sort_by_key(|agent| std::cmp::Reverse((cost(agent), agent.tokens)));
    let mut lines = Vec::new();
    for agent in agents.iter().take(SHOWN_AGENTS) {
        let name = endstop::observe::clean(&agent.agent);
        let kind = if is_named(agent) { "sub-agent " } else { "" };
        lines.push(format!(
            "  {kind}{name}: {} \u{b7} {} \u{b7} {}",
            counted(agent.steps, "step"),
            tokens(agent.tokens),
            agent.spend
        ));
    }
    let more = agents.get(SHOWN_AGENTS..).unwrap_or_default();
    if !more.is_empty() {
        let named = more.iter().filter(|agent| is_named(agent)).count();
        let kinds = [(named, "more sub-agent"), (more.len() - named, "more conversation")];
        let kinds = kinds.into_iter().filter(|(count, _)| *count > 0);
        let kinds: Vec<String> = kinds.map(|(count, noun)| counted(count as u64, noun)).collect();
        lines.push(format!("  and {}", kinds.join(" and ")));
    }
    lines
}

fn tell_of_dry_run(dry_run: &DryRunObserver) {
    for rule in dry_run.paused_by() {
        output::note(&format!("endstop: dry run: rule `{rule}` would have paused the run"));
    }
    match dry_run.first_stop() {
        None => output::note("endstop: dry run: these limits would not have stopped it"),
        Some(stop) => {
            let cost = stop.cost.map_or_else(|| "cost unknown".to_owned(), output::money);
            output::note(&format!(
                "endstop: dry run: it would have been stopped after {}, with {} and {} \u{b7} {cost}\n\n{}\n",
                duration(stop.at),
                counted(stop.steps, "step"),
                tokens(stop.tokens),
                not_obeyed(&stop.trip_record.to_string())
            ));
        }
    }
}

/// A trip record of a stop that the dry run did not carry out.
fn not_obeyed(record: &str) -> String {
    let lines = record.lines().map(|line| {
        let is_fact = ["stopped: ", "failed: ", "refused: "].iter().any(|it| line.starts_with(it));
        if is_fact { format!("would have {line}") } else { line.to_owned() }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Ends this process by a signal, with its default action; it returns if that fails.
pub(super) fn by_signal(signal: Signal) {
    #[cfg(target_os = "linux")]
    {
        // Only the command's core dump is useful.
        let _ = nix::sys::prctl::set_dumpable(false);
    }
    // Where it fails the code says the same.
    let _ = signal_hook::low_level::emulate_default_handler(signal as i32);
}

/// A file that is there whole or not at all.
#[derive(Debug)]
pub(super) struct JsonFile {
    path: PathBuf,
    /// A file next to it; `None` if the path is not a regular file, such as a pipe.
    draft: Option<(PathBuf, File)>,
}

impl JsonFile {
    /// Checks that it can be written, before anything starts.
    ///
    /// # Errors
    /// Returns an error if it cannot.
    pub(super) fn prepare(path: &Path) -> Result<Self, CliError> {
        let failed = |error: io::Error| CliError::cannot_write(path, &error);
        let is_special = fs::metadata(path).is_ok_and(|data| !data.is_file());
        let name = path.file_name().filter(|_| !is_special);
        let draft = match name {
            Some(name) => {
                let name = format!(".{}.{}", name.to_string_lossy(), std::process::id());
                let draft = path.with_file_name(name);
                let file = private_file().write(true).create_new(true).open(&draft);
                Some((draft, file.map_err(failed)?))
            }
            None => {
                OpenOptions::new().write(true).open(path).map_err(failed)?;
                None
            }
        };
        Ok(Self { path: path.to_owned(), draft })
    }

    /// Writes it.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub(super) fn write(mut self, value: &Value) -> Result<(), CliError> {
        let text = format!("{value}\n");
        let written = match self.draft.take() {
            Some((draft, mut file)) => file
                .write_all(text.as_bytes())
                .and_then(|()| file.sync_all())
                .and_then(|()| fs::rename(&draft, &self.path))
                .inspect_err(|_| drop(fs::remove_file(&draft))),
            None => fs::write(&self.path, text),
        };
        written.map_err(|error| CliError::cannot_write(&self.path, &error))
    }
}

impl Drop for JsonFile {
    fn drop(&mut self) {
        if let Some((draft, _)) = &self.draft {
            // An unfinished file has no use.
            let _ = fs::remove_file(draft);
        }
    }
}

#[cfg(test)]
mod tests;
