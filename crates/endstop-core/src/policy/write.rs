//! Policies to TOML, and to trees for people.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt::Write;

use super::{Action, DEFAULT_OVERRIDES, OnUnpriced, Policy, Rule};
use crate::condition::Condition;
use crate::condition::literal::quoted;

impl Policy {
    /// Returns the policy as a policy file. Reading it back gives an equal policy, origins left out.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        if let Some(name) = &self.name {
            out.push_str(&format!("name = {}\n", toml_string(name)));
        }
        match self.on_unpriced {
            None => {}
            Some(OnUnpriced::Stop) => out.push_str("on_unpriced = \"stop\"\n"),
            Some(OnUnpriced::Ignore) => out.push_str("on_unpriced = \"ignore\"\n"),
            Some(OnUnpriced::Rates(rates)) => out.push_str(&format!(
                "on_unpriced = {{ input = \"{}/M\", output = \"{}/M\" }}\n",
                rates.input, rates.output
            )),
        }
        if self.unbounded {
            out.push_str("unbounded = true\n");
        }
        for action in [Action::Stop, Action::Finish, Action::Pause, Action::Retry, Action::Warn] {
            let mut rules = self.rules.iter().filter(|rule| rule.action == action).peekable();
            if rules.peek().is_some() {
                out.push_str(&format!("\n[{}]\n", action.name()));
            }
            for rule in rules {
                let condition = toml_string(&rule.condition.to_string());
                out.push_str(&format!("{} = {condition}\n", toml_string(&rule.id)));
            }
        }
        self.rules.iter().for_each(|rule| details(&mut out, rule));
        out.push_str(&self.accounting.to_toml());
        self.budgets.iter().for_each(|(name, table)| out.push_str(&table.to_toml(name)));
        out
    }

    /// Returns every rule as a tree, for people.
    #[must_use]
    pub fn explain(&self) -> String {
        let mut out = String::new();
        for rule in &self.rules {
            let hard = match rule.parts().iter().filter(|part| rule.is_part_hard(part)).count() {
                0 => "",
                _ if rule.is_hard() => ", hard",
                _ => ", hard in part",
            };
            let origin = rule.origin.as_deref().map_or_else(String::new, |o| format!(", from {o}"));
            out.push_str(&format!("{} ({}{hard}{origin})\n", rule.id, rule.action.name()));
            tree(&mut out, &rule.condition, 1);
        }
        out
    }
}

fn details(out: &mut String, rule: &Rule) {
    let mut lines = String::new();
    if let Some(reason) = rule.reason {
        lines.push_str(&format!("reason = \"{reason}\"\n"));
    }
    if let Some(message) = &rule.message {
        lines.push_str(&format!("message = {}\n", toml_string(message)));
    }
    if let Some(hard) = rule.hard {
        lines.push_str(&format!("hard = {hard}\n"));
    }
    if rule.overrides != DEFAULT_OVERRIDES {
        lines.push_str(&format!("overrides = {}\n", rule.overrides));
    }
    if let Some(grant) = rule.grant {
        lines.push_str(&format!(
            "grant = {{ steps = {}, cost = \"{}\", tokens = \"{}\", time = \"{}\" }}\n",
            grant.steps, grant.cost, grant.tokens, grant.time
        ));
    }
    if rule.resumes_at_reset {
        lines.push_str("resume = \"reset\"\n");
    }
    if !lines.is_empty() {
        out.push_str(&format!("\n[rule.{}]\n{lines}", toml_string(&rule.id)));
    }
}

/// A TOML basic string. The escapes that the expression language uses are TOML's too; other control
/// characters are written by code point.
pub(super) fn toml_string(text: &str) -> String {
    let mut out = String::new();
    for c in quoted(text).chars() {
        if c.is_control() {
            let written = write!(out, "\\u{:04X}", u32::from(c));
            debug_assert!(written.is_ok(), "writing to a string cannot fail");
        } else {
            out.push(c);
        }
    }
    out
}

/// Recursion is bounded by the depth that a policy may have.
fn tree(out: &mut String, condition: &Condition, indent: usize) {
    let line = match condition {
        Condition::And(_) => "all of".to_string(),
        Condition::Or(_) => "any of".to_string(),
        Condition::Not(_) => "not".to_string(),
        Condition::Named(named) => format!("{condition}  (that is, {})", named.expansion()),
        other => other.to_string(),
    };
    out.push_str(&format!("{:width$}{line}\n", "", width = indent * 2));
    if matches!(condition, Condition::And(_) | Condition::Or(_) | Condition::Not(_)) {
        condition.parts().into_iter().for_each(|part| tree(out, part, indent + 1));
    }
}
