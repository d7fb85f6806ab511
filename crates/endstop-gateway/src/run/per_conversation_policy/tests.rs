//! Tests of `per_conversation_policy`.

use super::*;

fn rules_of(policy: &str) -> Vec<String> {
    let program = program(&Policy::from_toml(policy).unwrap()).unwrap();
    program.policy().rules.iter().map(|rule| rule.condition.to_string()).collect()
}

#[test]
fn a_conversation_has_the_stop_rules_that_are_about_it_alone() {
    let policy = "[stop]\na = \"steps >= 5 or repeats >= 3 or (cost >= $1 and stale >= 90)\"\n\
        b = \"called(\\\"submit\\\")\"\nc = \"tokens >= 9 and errored\"\n\
        d = \"signal(\\\"x\\\")\"\n[finish]\ne = \"cycles >= 2\"\n";
    assert_eq!(rules_of(policy), ["repeats >= 3", "called(\"submit\")"]);
}
