//! The policy file: accepted files, and the errors for the rest.

use super::*;
use crate::condition::named::{max_steps, no_progress};

const EXAMPLE: &str = r#"
name = "research"
on_unpriced = { input = "$3/M", output = "$15/M" }

[stop]
budget   = "steps >= 25 or cost >= $2.00"
stuck    = "no_progress(3) or repeats >= 4"
answered = 'called("submit_final")'
operator = 'signal("cancel")'

[finish]              # one last answer, tools off
wrap_up = "cost >= $1.80"

[pause]               # a person decides
approve = "next_cost >= $0.50 or cost >= $1.00"

[warn]
near = "steps >= 20"

[rule.stuck]
reason = "no_progress"
hard = true

[rule.operator]
overrides = 1
grant = { steps = 2, cost = "$0.10", tokens = "10k", time = "5m" }
"#;

#[test]
fn a_whole_policy_file_is_read() {
    let policy = Policy::from_toml(EXAMPLE).unwrap();
    assert_eq!(policy.name.as_deref(), Some("research"));
    let ids: Vec<(&str, Action)> = policy.rules.iter().map(|r| (r.id.as_str(), r.action)).collect();
    assert_eq!(
        ids,
        [
            ("answered", Action::Stop),
            ("budget", Action::Stop),
            ("operator", Action::Stop),
            ("stuck", Action::Stop),
            ("wrap_up", Action::Finish),
            ("approve", Action::Pause),
            ("near", Action::Warn),
        ]
    );
    let stuck = policy.rule("stuck").unwrap();
    assert_eq!((stuck.reason, stuck.hard), (Some(StopReason::NoProgress), Some(true)));
    let budget = policy.rule("budget").unwrap();
    let hard: Vec<bool> =
        budget.parts().into_iter().map(|part| budget.is_part_hard(part)).collect();
    assert_eq!(hard, [false, true], "steps are soft, money is hard");
    assert!(!policy.rule("answered").unwrap().is_hard());
    let operator = policy.rule("operator").unwrap();
    assert_eq!(operator.overrides, 1);
    assert_eq!(operator.grant.unwrap().cost, "0.10".parse().unwrap());
    let OnUnpriced::Rates(rates) = policy.unpriced() else { panic!("rates") };
    let usage = crate::units::TokenUsage { input: 1, output: 1, ..Default::default() };
    assert_eq!(rates.cost(&usage), Some(Money::from_picos(18_000_000)));
}

#[test]
fn writing_and_reading_back_gives_the_same_policy() {
    for text in [
        EXAMPLE,
        "[stop]\n\"odd name\" = 'said(\"a \\\"b\\\"\")'\n",
        "unbounded = true\non_unpriced = \"ignore\"",
    ] {
        let policy = Policy::from_toml(text).unwrap();
        let written = policy.to_toml();
        assert_eq!(Policy::from_toml(&written), Ok(policy), "{written}");
    }
}

#[test]
fn three_notations_give_equal_values() {
    let in_rust =
        max_steps(25) | crate::condition::named::max_usd("2.00").unwrap() | no_progress(3);
    let in_text = parse("max_steps(25) | max_usd(2.00) | no_progress(3)").unwrap();
    let in_toml =
        Policy::from_toml("[stop]\nx = \"max_steps(25) | max_usd(2.00) | no_progress(3)\"")
            .unwrap();
    assert_eq!(in_rust, in_text);
    assert_eq!(in_toml.rule("x").unwrap().condition, in_rust);
}

#[test]
fn errors_have_a_place_a_cause_and_help() {
    for (text, at, message, help) in [
        ("[stop]\na = \"cost >= 5\"", "5", "money", "$5.00"),
        ("[stop]\na = \"\"\"cost >= 5\"\"\"", "5", "money", "$5.00"),
        (
            "[stop]\na = \"said(\\\"x\\\") or cost >= 5\"",
            "\"said(\\\"x\\\") or cost >= 5\"",
            "money",
            "$5.00",
        ),
        ("[stpo]\na = \"steps >= 1\"", "stpo", "`stpo` is not a key", "did you mean `stop`?"),
        (
            "[stop]\na = \"steps >= 1\"\n[rule.a]\nhadr = true",
            "hadr",
            "`hadr` is not a key",
            "did you mean `hard`?",
        ),
        (
            "[stop]\nstuck = \"steps >= 1\"\n[rule.stuk]\nhard = true",
            "[rule.stuk]",
            "no rule `stuk`",
            "did you mean `stuck`?",
        ),
        (
            "[stop]\na = \"steps >= 1\"\n[rule.a]\nreason = \"cost_limt\"",
            "\"cost_limt\"",
            "unknown stop reason",
            "`cost_limit`",
        ),
        (
            "[stop]\na = \"steps >= 1\"\n[warn]\na = \"steps >= 1\"",
            "\"steps >= 1\"",
            "two rules have the name `a`",
            "one rule",
        ),
        ("on_unpriced = \"hope\"", "\"hope\"", "`hope` is not known", "ignore"),
        (
            "on_unpriced = { input = \"3\", output = \"$1/M\" }",
            "{ input = \"3\", output = \"$1/M\" }",
            "not a rate",
            "$3/M",
        ),
        (
            "[accounting]\non_client_gone = \"wait\"",
            "\"wait\"",
            "`wait` is not known",
            "\"auto\", \"drain\", \"close\"",
        ),
        ("[accounting]\nunknown = 1", "unknown", "`unknown` is not a key", "on_unknown_usage"),
        ("name = 5\n[stop]\na = \"steps >= 1\"", "5", "string", ""),
        ("[stop\na = 5", "", "", ""),
        (
            "stop = \"steps >= 5\"",
            "\"steps >= 5\"",
            "`stop` is a section of rules",
            "write `[stop]`, and on the next line `limit = \"steps >= 5\"`",
        ),
    ] {
        let error = Policy::from_toml(text).expect_err(text);
        assert!(error.message.contains(message), "{text}: {error:?}");
        assert!(error.help.clone().unwrap_or_default().contains(help), "{text}: {error:?}");
        if !at.is_empty() {
            assert_eq!(
                text.get(error.span.clone()).map(str::trim_end),
                Some(at),
                "{text}: {error:?}"
            );
        }
    }
}

#[test]
fn an_amount_in_place_of_a_condition_gets_an_example() {
    let error = Policy::from_toml("[stop]\nusd = 5").unwrap_err();
    assert!(error.message.contains("a rule is a condition"), "{error:?}");
    assert!(error.help.as_deref().unwrap_or_default().contains("cost >= $2.00"), "{error:?}");
}

#[test]
fn merging_only_tightens_and_keeps_origins() {
    let base = Policy::from_toml("on_unpriced = \"ignore\"\n[stop]\na = \"steps >= 10\"").unwrap();
    let mut narrower = Policy::from_toml("unbounded = true\non_unpriced = \"stop\"\n[stop]\na = \"steps >= 50\"\nb = \"errored\"\n[rule.a]\nhard = false").unwrap();
    for rule in &mut narrower.rules {
        rule.origin = Some("project.toml".to_string());
    }
    let merged = base.merge(&narrower);
    let ids: Vec<&str> = merged.rules.iter().map(|r| r.id.as_str()).collect();
    assert_eq!(ids, ["a", "a@project.toml", "b"]);
    assert_eq!(merged.rule("a"), base.rule("a"));
    assert_eq!((merged.unpriced(), merged.unbounded), (OnUnpriced::Stop, false));
    assert_eq!(merged.bounds().steps.unwrap().limit, 10);
    assert_eq!(base.merge(&Policy::default()), base);
}
