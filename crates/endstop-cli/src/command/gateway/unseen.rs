//! Rules that do less through a gateway than in a program that runs the loop itself.
//!
//! A separate file because it changes with what the gateway can see, not with its flags.

use endstop::core::policy::{Action, Policy};

/// The conditions that depend on failed tool calls.
const FAILURES: [&str; 2] = ["tool_errors", "tool_failed("];

/// The warnings about a policy's rules when it takes effect.
pub(in crate::command) fn unseen(policy: &Policy) -> Vec<String> {
    let of = |is_it: &dyn Fn(&str, Action) -> bool, what: &str| {
        let rules =
            policy.rules.iter().filter(|rule| is_it(&rule.condition.to_string(), rule.action));
        let names: Vec<String> = rules.map(|rule| format!("`{}`", rule.id)).collect();
        (!names.is_empty()).then(|| {
            format!(
                "{} {}: {what}",
                if names.len() == 1 { "rule" } else { "rules" },
                names.join(", ")
            )
        })
    };
    let by_failures = of(
        &|condition, _| FAILURES.iter().any(|it| condition.contains(it)),
        "through a gateway only Anthropic's and Gemini's requests say that a tool has failed; those of OpenAI's APIs do not, so no \
         failed tool is counted there",
    );
    let by_retry = of(
        &|_, action| action == Action::Retry,
        "a gateway repeats only non-streaming calls; a stream has reached its client by then, so it counts, and the run \
         stops where the rule trips for the third time in a row",
    );
    by_failures.into_iter().chain(by_retry).collect()
}

#[cfg(test)]
mod tests;
