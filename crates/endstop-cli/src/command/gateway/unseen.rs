//! Rules that do less through a gateway than in a program that runs the loop itself.
//!
//! A file of its own because it changes with what the gateway can see, not with its flags.

use endstop::core::policy::{Action, Policy};

/// What rests on calls of tools having failed.
const FAILURES: [&str; 2] = ["tool_errors", "tool_failed("];

/// What is said of a policy's rules where it begins to hold.
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
        "through a gateway only Anthropic's and Gemini's requests say that a tool has failed; those of OpenAI's interfaces do not, so no \
         failed tool is counted there",
    );
    let by_retry = of(
        &|_, action| action == Action::Retry,
        "through a gateway only whole answers are asked for again; a stream has reached its client by then, so it counts, and the run \
         stops where the rule holds for the third time in a row",
    );
    by_failures.into_iter().chain(by_retry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_that_a_gateway_cannot_see_are_named() {
        let of = |text: &str| unseen(&Policy::from_toml(text).unwrap());
        let all = of(
            "[stop]\na = \"steps >= 9\"\nb = \"tool_errors >= 2 or steps >= 8\"\nc = 'tool_failed(\"x\")'\n[retry]\nd = 'said(\"x\")'\n",
        );
        assert_eq!(all.len(), 2, "{all:?}");
        assert!(
            all[0].starts_with("rules `b`, `c`: ") && all[1].starts_with("rule `d`: "),
            "{all:?}"
        );
        assert!(of("[stop]\na = \"steps >= 9 or errors >= 3\"\n").is_empty());
    }
}
