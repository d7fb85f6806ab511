//! Tests of `check`.

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
