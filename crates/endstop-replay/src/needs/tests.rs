//! Tests of `needs`.

use endstop_core::expr::parse;

use super::*;

#[test]
fn a_rule_needs_what_its_leaves_look_at() {
    let nothing = Supplies::default();
    for (text, expected) in [
        ("steps >= 3 or called(\"x\") or not ever(said(\"x\")) or no_progress(3)", nothing),
        ("cost >= $1 and tokens >= 3", Supplies { money: true, tokens: true, ..nothing }),
        ("streak(errored) >= 3", Supplies { tool_failures: true, retries: true, ..nothing }),
        ("count(called(\"x\"), 5m) >= 3", Supplies { time: true, ..nothing }),
        ("fact(\"x\") >= 1", Supplies { interventions: true, ..nothing }),
    ] {
        assert_eq!(needs(&parse(text).unwrap()), expected, "{text}");
    }
}

#[test]
fn rules_that_cannot_be_tested_are_left_out() {
    let policy = Policy::from_toml("[stop]\na = \"cost >= $1\"\nb = \"steps >= 3\"").unwrap();
    let programs = Programs::new(&policy, &Probes::new()).unwrap();
    let some = programs.compile(Supplies::default());
    assert_eq!(
        (some.left_out.as_slice(), some.program.policy().rules.len()),
        (&["a".to_owned()][..], 1)
    );
    assert!(programs.compile(Supplies { money: true, ..Supplies::default() }).left_out.is_empty());
}
