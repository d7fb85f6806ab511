//! The answers that a model reads for a call without a result: one text for each outcome.
//!
//! Each says what happened, why, and what the model can do. The texts of tools, hooks and models are cut, so that no
//! answer fills the context.

use std::fmt;
use std::time::Duration;

use endstop_core::human;
use endstop_core::signal::{StopReason, StopSignal};
use endstop_core::units::Money;

use crate::limits::{MAX_KNOWN_TOOLS, MAX_QUOTED_NAME_BYTES};
pub use crate::limits::{MAX_PARTIAL_BYTES, MAX_QUOTED_BYTES};

/// Returns the result of a call that a limit refused.
///
/// `rule` is the rule's id, `limit` its condition as written, `now` the number that was reached with its
/// unit; an empty one is left out.
#[must_use]
pub fn refused(tool: &str, rule: &str, limit: &str, now: &str) -> String {
    let tool = name(tool);
    let mut text = format!("Not run: a limit of this run refuses the call of `{tool}`.");
    let (rule, limit, now) = (cut(rule), cut(limit), cut(now));
    match (rule.as_str(), limit.as_str()) {
        ("", "") => {}
        ("", limit) => text.push_str(&format!(" The limit is {limit}")),
        (rule, "") => text.push_str(&format!(" The rule is `{rule}`")),
        (rule, limit) => text.push_str(&format!(" The rule `{rule}` is {limit}")),
    }
    match (rule.is_empty() && limit.is_empty(), now.is_empty()) {
        (false, false) => text.push_str(&format!("; now it is at {now}.")),
        (false, true) => text.push('.'),
        (true, false) => text.push_str(&format!(" It is at {now}.")),
        (true, true) => {}
    }
    text.push_str(" Calling it again will be refused too; continue with what you have.");
    text
}

/// Returns the result of a call that a hook blocked.
#[must_use]
pub fn blocked(tool: &str, hook: &str, why: &str) -> String {
    let (tool, hook) = (name(tool), name(hook));
    let by = if hook.is_empty() { String::new() } else { format!(" by `{hook}`") };
    format!("Not run: the call of `{tool}` was blocked{by}: {}.", reason(why))
}

/// Returns the result of a call that failed.
#[must_use]
pub fn failed(tool: &str, why: &str) -> String {
    format!("`{}` failed: {}", name(tool), reason(why))
}

/// Returns the result of a call that panicked: a mistake in the tool, not in the call.
#[must_use]
pub fn panicked(tool: &str, why: &str) -> String {
    format!("`{}` failed because of a defect in the tool: {}", name(tool), reason(why))
}

/// Returns the result of a call that ran longer than it may.
#[must_use]
pub fn timed_out(tool: &str, after: Duration) -> String {
    format!(
        "`{}` was stopped after {}, its time limit. Its effects until then may remain.",
        name(tool),
        Seconds(after)
    )
}

/// Returns the result of a call whose arguments do not fit; `problems` is what
/// [`ArgumentSchema::check`](super::ArgumentSchema::check) says.
#[must_use]
pub fn invalid_arguments(tool: &str, problems: &str) -> String {
    format!(
        "Not run: the arguments of `{}` do not fit.\n{}\nCall it again with arguments that fit.",
        name(tool),
        reason(problems)
    )
}

/// Returns the result of a call of an unknown tool; `nearest` lists the names it may have meant, `known` all of them.
#[must_use]
pub fn unknown_tool(tool: &str, nearest: &[&str], known: &[&str]) -> String {
    let text = format!("Not run: there is no tool `{}`.", name(tool));
    let quoted = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|known| format!("`{}`", name(known))).collect();
        names.join(", ")
    };
    match (nearest, known) {
        ([], []) => format!("{text} There are no tools here; answer without one."),
        ([], known) if known.len() <= MAX_KNOWN_TOOLS => {
            format!("{text} The tools are {}.", quoted(known))
        }
        ([], known) => format!("{text} Take one of the {} tools that you were given.", known.len()),
        ([one], _) => format!("{text} Do you mean `{}`?", name(one)),
        (several, _) => format!("{text} Do you mean one of {}?", quoted(several)),
    }
}

/// Returns the result of a call that never started.
#[must_use]
pub fn not_executed(tool: &str, signal: &StopSignal) -> String {
    format!("Not run: the run was stopped before `{}` began: {}", name(tool), told(signal))
}

/// Returns the result of a call that a cancellation aborted.
#[must_use]
pub fn cut_off(tool: &str, signal: &StopSignal, after: Duration) -> String {
    format!(
        "`{}` was cut off after {} because the run was stopped: {}. Its effects until then may remain.",
        name(tool),
        Seconds(after),
        told(signal)
    )
}

/// Returns the result of a call that was cut off and cannot be aborted: it is still running.
#[must_use]
pub fn still_running(tool: &str, signal: &StopSignal, after: Duration) -> String {
    format!(
        "`{}` was left running after {} because the run was stopped and it cannot be aborted: {}. \
         Its result is not known.",
        name(tool),
        Seconds(after),
        told(signal)
    )
}

/// A sub-agent that was stopped.
///
/// ```
/// use endstop::core::signal::{StopReason, StopSignal};
/// use endstop::tool::answers::{StoppedAgent, stopped_agent};
///
/// let signal = &StopSignal::new(StopReason::StepsLimitReached);
/// let (agent, limit, partial) = ("helper", "max_steps(3)", "");
/// let told = StoppedAgent { agent, signal, limit, steps: 3, tokens: 900, cost: None, partial };
/// let text = stopped_agent(&told);
/// assert!(text.contains("It used 3 steps, 900 tokens, at an unknown cost."), "{text}");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct StoppedAgent<'a> {
    /// Its name.
    pub agent: &'a str,
    /// Why.
    pub signal: &'a StopSignal,
    /// The limit that stopped it, as written; empty without one.
    pub limit: &'a str,
    /// Its steps.
    pub steps: u64,
    /// The tokens that it and its descendants used.
    pub tokens: u64,
    /// The cost of that; `None` if a call had no price.
    pub cost: Option<Money>,
    /// Its answer by then.
    pub partial: &'a str,
}

/// Returns the answer for the parent's model about a sub-agent that was stopped. Never empty.
#[must_use]
pub fn stopped_agent(stopped: &StoppedAgent<'_>) -> String {
    let StoppedAgent { agent, signal, limit, steps, tokens, cost, partial } = stopped;
    let cost = cost.map_or_else(|| "at an unknown cost".to_owned(), human::money);
    let agent = name(agent);
    let mut text = if signal.reason == StopReason::Completed {
        format!("The agent `{agent}` ended without an answer")
    } else {
        format!("The agent `{agent}` was stopped before it finished: {}", told(signal))
    };
    if !limit.is_empty() {
        text.push_str(&format!(" (limit: {})", cut(limit)));
    }
    let (steps, tokens) = (human::counted(*steps, "step"), human::tokens(*tokens));
    text.push_str(&format!(". It used {steps}, {tokens}, {cost}."));
    if partial.trim().is_empty() {
        text.push_str(" It gave no answer.");
    } else {
        text.push_str(&format!(
            " Its unfinished answer:\n{}",
            shortened(partial, MAX_PARTIAL_BYTES)
        ));
    }
    text
}

fn told(signal: &StopSignal) -> String {
    cut(&signal.to_string())
}

fn reason(why: &str) -> String {
    if why.trim().is_empty() { "no reason was given".to_owned() } else { cut(why) }
}

fn name(name: &str) -> String {
    super::schema::cut(name.trim().to_owned(), MAX_QUOTED_NAME_BYTES)
}

fn cut(text: &str) -> String {
    shortened(text, MAX_QUOTED_BYTES)
}

fn shortened(text: &str, limit: usize) -> String {
    super::schema::cut(text.trim().to_owned(), limit)
}

/// Seconds with as many decimals as are meaningful.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.as_secs(), self.0.subsec_millis()) {
            (0, millis) => write!(f, "{millis} ms"),
            (seconds, 0) => write!(f, "{seconds} s"),
            (seconds, millis) if seconds < 10 => write!(f, "{seconds}.{} s", millis / 100),
            (seconds, _) => write!(f, "{seconds} s"),
        }
    }
}
