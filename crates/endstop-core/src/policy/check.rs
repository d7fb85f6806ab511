//! Whether a policy can be used: names, sizes, and conditions that have a written form.
//!
//! A policy that was built in Rust is held to what a policy file is held to. Otherwise it could run and
//! not be shown, saved or compared with a written one.

use alloc::format;
use alloc::string::{String, ToString};

use super::{Policy, PolicyError, Rule};
use crate::condition::Condition;
use crate::expr::parse;
use crate::limits::{MAX_DEPTH, MAX_NODES, MAX_RULE_ID, MAX_RULES};

impl Policy {
    /// Checks names, sizes, and that every condition can be printed and read back.
    ///
    /// # Errors
    /// Returns the first problem, in the order of the rules.
    pub fn check(&self) -> Result<(), PolicyError> {
        if self.rules.len() > MAX_RULES {
            return Err(PolicyError::TooManyRules(self.rules.len()));
        }
        let mut nodes = 0usize;
        for (index, rule) in self.rules.iter().enumerate() {
            if rule.id.is_empty() || rule.id.len() > MAX_RULE_ID {
                return Err(PolicyError::RuleName(rule.id.len()));
            }
            if self.rules.iter().take(index).any(|earlier| earlier.id == rule.id) {
                return Err(PolicyError::DuplicateRule(rule.id.clone()));
            }
            let too_large =
                |problem: String| PolicyError::TooLarge { rule: rule.id.clone(), problem };
            if rule.condition.depth() > MAX_DEPTH {
                return Err(too_large(format!("the condition is nested deeper than {MAX_DEPTH}")));
            }
            nodes = nodes.saturating_add(rule.condition.node_count());
            if nodes > MAX_NODES {
                return Err(too_large(format!("the conditions have more than {MAX_NODES} nodes")));
            }
            is_writable(rule)?;
            if rule.resumes_at_reset && !rule.can_wait_for_reset() {
                return Err(PolicyError::NothingResets(rule.id.clone()));
            }
        }
        Ok(())
    }
}

/// The reader is the judge: it knows every limit on names, amounts, windows and patterns.
fn is_writable(rule: &Rule) -> Result<(), PolicyError> {
    let unwritable = |problem: String| PolicyError::Unwritable { rule: rule.id.clone(), problem };
    if has_empty_group(&rule.condition) {
        return Err(unwritable("`and` and `or` need at least one part".to_string()));
    }
    let text = rule.condition.to_string();
    match parse(&text) {
        Ok(_) => Ok(()),
        Err(error) => Err(unwritable(error.message)),
    }
}

/// Recursion is bounded by the depth that was checked before.
fn has_empty_group(condition: &Condition) -> bool {
    match condition {
        Condition::And(parts) | Condition::Or(parts) if parts.is_empty() => true,
        other => other.parts().into_iter().any(has_empty_group),
    }
}

#[cfg(test)]
mod tests;
