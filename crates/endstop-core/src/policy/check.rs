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
    /// The first problem, in the order of the rules.
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
mod tests {
    use alloc::boxed::Box;
    use alloc::vec;

    use super::*;
    use crate::condition::{CompareOp, Comparison, Fact, Gauge, GaugeId, Temporal, Window};
    use crate::limits::MAX_COUNT;
    use crate::policy::Action;

    fn problem(condition: Condition) -> Option<String> {
        Policy::stop(condition).check().err().map(|error| error.to_string())
    }

    fn at_least(gauge: Gauge, value: u64) -> Condition {
        Condition::Compare(Comparison { gauge, op: CompareOp::Ge, value })
    }

    fn count(n: u64) -> Condition {
        Condition::Fact(Fact::Errored).count_at_least(n, Some(Window::Steps(5)))
    }

    #[test]
    fn what_cannot_be_written_is_refused() {
        let own = |id| Gauge { own: true, ..Gauge::of(id) };
        let of_tool = |id| Gauge { argument: Some("x".to_string()), ..Gauge::of(id) };
        let said = |text: &str| Fact::Said { text: text.to_string(), from: None };
        for condition in [
            Condition::And(vec![]),
            Condition::Or(vec![]),
            !Condition::Or(vec![Condition::Fact(Fact::Errored), Condition::And(vec![])]),
            Condition::Fact(Fact::Finished(vec![])),
            Condition::Fact(said("")),
            Condition::Fact(said(&"x".repeat(5_000))),
            Condition::Fact(Fact::Matches("(".to_string())),
            Condition::Fact(Fact::Matches("a*".to_string())),
            count(MAX_COUNT + 1),
            at_least(own(GaugeId::Elapsed), 1),
            at_least(of_tool(GaugeId::Steps), 1),
            at_least(Gauge::of(GaugeId::Fact), 1),
            at_least(Gauge::of(GaugeId::Cost), 9_000_001 * crate::units::PICOS_PER_DOLLAR),
            at_least(Gauge::of(GaugeId::Now), u64::MAX),
        ] {
            assert!(problem(condition.clone()).is_some(), "{condition:?}");
        }
    }

    #[test]
    fn what_can_be_written_is_accepted() {
        let errored = || Condition::Fact(Fact::Errored);
        for condition in [
            Condition::And(vec![errored()]),
            Condition::Or(vec![Condition::Or(vec![errored(), errored()]), errored()]),
            count(MAX_COUNT),
            at_least(Gauge::of(GaugeId::Cost), 9_000_000 * crate::units::PICOS_PER_DOLLAR),
            Condition::Fact(Fact::Called(String::new())),
            Condition::Temporal(Temporal::Ever(Box::new(errored()))),
        ] {
            assert_eq!(problem(condition.clone()), None, "{condition:?}");
        }
    }

    #[test]
    fn sizes_are_accepted_up_to_the_limit_and_not_beyond() {
        let errored = || Condition::Fact(Fact::Errored);
        let rules = |n: usize| Policy {
            rules: (0..n).map(|i| Rule::new(format!("r{i}"), Action::Stop, errored())).collect(),
            ..Policy::default()
        };
        assert_eq!(rules(MAX_RULES).check(), Ok(()));
        assert_eq!(rules(MAX_RULES + 1).check(), Err(PolicyError::TooManyRules(MAX_RULES + 1)));
        let named = |id: String| Policy {
            rules: vec![Rule::new(id, Action::Stop, errored())],
            ..Policy::default()
        };
        assert_eq!(named("x".repeat(MAX_RULE_ID)).check(), Ok(()));
        assert_eq!(
            named("x".repeat(MAX_RULE_ID + 1)).check(),
            Err(PolicyError::RuleName(MAX_RULE_ID + 1))
        );
        assert_eq!(named(String::new()).check(), Err(PolicyError::RuleName(0)));
        let deep = |n: usize| (1..n).fold(errored(), |inner, _| !inner);
        assert_eq!(problem(deep(MAX_DEPTH)), None);
        assert!(problem(deep(MAX_DEPTH + 1)).is_some());
        let wide = |n: usize| Condition::Or(vec![errored(); n - 1]);
        assert_eq!(problem(wide(MAX_NODES)), None);
        assert!(problem(wide(MAX_NODES + 1)).is_some());
        let twice =
            Policy { rules: vec![Rule::new("a", Action::Stop, errored()); 2], ..Policy::default() };
        assert_eq!(twice.check(), Err(PolicyError::DuplicateRule("a".to_string())));
        assert_eq!(Policy::from(errored()), Policy::stop(errored()));
    }

    #[test]
    fn the_message_names_the_rule_and_the_problem() {
        let mut policy = Policy::default();
        policy.rules.push(Rule::new("late", Action::Stop, count(MAX_COUNT + 1)));
        let message = policy.check().unwrap_err().to_string();
        assert!(message.starts_with("rule `late`: "), "{message}");
    }
}
