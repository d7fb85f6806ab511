//! Printing and reading back gives the same condition, and printing it again gives the same text.
#![expect(clippy::indexing_slicing, reason = "a test that is wrong should panic")]

use endstop_core::Condition;
use endstop_core::condition::named::NAMED;
use endstop_core::condition::{Comparison, Fact, Gauge, GaugeId};
use endstop_core::expr::parse;
use proptest::prelude::*;
use proptest::sample::select;

#[path = "generate/text.rs"]
mod generate;

use generate::condition::{condition, limit};

/// Words and signs of the language, each with what must not touch it.
const TOKENS: &[&str] = &[
    "steps",
    "cost",
    "tokens",
    "active",
    "own.",
    "tool_calls",
    "fact",
    "errored",
    "cancelled",
    "no_tool_calls",
    "called",
    "said",
    "matches",
    "finished",
    "signal",
    "ever",
    "streak",
    "count",
    "within",
    "then",
    "and",
    "or",
    "not",
    "|",
    "&",
    "!",
    "||",
    "&&",
    "(",
    ")",
    "(",
    ")",
    ",",
    "=",
    ">=",
    ">",
    "<",
    "==",
    "!=",
    "25",
    "1.5k",
    "$2.00",
    "50c",
    "2.00usd",
    "90s",
    "1h30m",
    "250ms",
    "10 steps",
    "\"read\"",
    "'a\\'b'",
    "/a\\/b$/",
    "from",
    "max_steps",
    "MaxUsd",
    "no_progress",
    "deadline",
    "\"2026-11-30T12:00Z\"",
];

fn check(condition: &Condition) -> Result<(), TestCaseError> {
    let printed = condition.to_string();
    let read = match parse(&printed) {
        Ok(read) => read,
        Err(error) => {
            return Err(TestCaseError::fail(error.render(&printed, "printed", false)));
        }
    };
    prop_assert_eq!(&read, condition, "{}", printed);
    prop_assert_eq!(read.to_string(), printed);
    Ok(())
}

/// Well-formed text with the spellings, spaces and quotes that printing does not choose.
fn expression() -> impl Strategy<Value = String> {
    let leaf = select(LEAVES).prop_map(str::to_string);
    leaf.prop_recursive(4, 16, 3, |inner| {
        let joined = |sign: &'static [&'static str]| {
            (prop::collection::vec(inner.clone(), 2..4), select(sign))
                .prop_map(|(parts, sign)| format!("({})", parts.join(sign)))
        };
        prop_oneof![
            2 => joined(&[" and ", "&", " && "]),
            2 => joined(&[" or ", "|", "\n||\t"]),
            1 => (inner.clone(), select(&["not ", "!", "! "][..])).prop_map(|(c, n)| format!("({n}{c})")),
            1 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} then {b})")),
            1 => inner.clone().prop_map(|c| format!("({c} within 1 step)")),
            1 => inner.clone().prop_map(|c| format!("count({c},90s)>=0")),
            1 => inner.prop_map(|c| format!("ever( {c} )")),
        ]
    })
}

const LEAVES: &[&str] = &[
    "steps>=25",
    "cost >= 50c",
    "cost>0.000000000001usd",
    "tokens >= 1_500",
    "tokens == 1.5M",
    "active != 1.5h",
    "idle < 0s",
    "now >= '2026-11-30T12:00:00.001+02:00'",
    "own.tool_calls('it\\'s') >= 2",
    "fact(score) >= 90",
    "said('say \"so\"', from=planner)",
    "matches(/a\\/b\\d+$/)",
    "matches('a/b')",
    "finished(stop, 'LENGTH')",
    "errored",
    "streak(errored|cancelled) > 3",
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn generated_conditions_survive_printing(condition in condition(), limit in limit()) {
        check(&condition)?;
        check(&limit)?;
    }

    #[test]
    fn well_formed_texts_reach_a_fixed_point(text in expression()) {
        let read = parse(&text).map_err(|e| TestCaseError::fail(e.render(&text, "text", false)))?;
        check(&read)?;
    }

    #[test]
    fn any_words_are_refused_or_reach_a_fixed_point(
        words in prop::collection::vec(select(TOKENS), 1..12), gap in select(&["", " "][..]),
    ) {
        if let Ok(read) = parse(&words.join(gap)) {
            check(&read)?;
        }
    }

    #[test]
    fn names_of_any_characters_survive_printing(name in "\\PC{0,12}|[\"'\\\\\\n\\t\\r\\x00-\\x1f]{0,6}") {
        let gauge = Gauge { argument: Some(name.clone()), ..Gauge::of(GaugeId::ToolCalls) };
        let op = endstop_core::condition::CompareOp::Ge;
        check(&Condition::Compare(Comparison { gauge, op, value: 3 }))?;
        check(&Condition::Fact(Fact::Called(name.clone())))?;
        check(&Condition::Fact(Fact::Finished(vec![name.clone(), name.clone()])))?;
        let said = Fact::Said { text: format!("{name}."), from: Some(name) };
        check(&Condition::Fact(said))?;
    }

    #[test]
    fn amounts_of_every_size_survive_printing(value in any::<u64>(), shift in 0u32..64) {
        let value = value >> shift;
        let op = endstop_core::condition::CompareOp::Ge;
        // A condition that is built in Rust may exceed the limits of the parser.
        let most_money = 9_000_000_000_000_000_000;
        let year_9999 = 253_402_000_000_000;
        for (id, value) in [
            (GaugeId::Steps, value),
            (GaugeId::Tokens, value),
            (GaugeId::Active, value),
            (GaugeId::Cost, value.min(most_money)),
            (GaugeId::Now, value.min(year_9999)),
        ] {
            check(&Condition::Compare(Comparison { gauge: Gauge::of(id), op, value }))?;
        }
    }

    #[test]
    fn patterns_survive_printing(pattern in "[a-c/\\\\$.]{1,8}") {
        if let Ok(read) = parse(&format!("matches({pattern:?})")) {
            check(&read)?;
        }
        if let Ok(read) = parse(&format!("matches(/{pattern}/)")) {
            check(&read)?;
        }
    }
}

#[test]
fn the_example_of_every_named_condition_prints_as_written() {
    for row in NAMED {
        for spelling in row.spellings {
            let (_, arguments) = row.example.split_once('(').unwrap();
            let text = format!("{spelling}({arguments}");
            let read = parse(&text).unwrap();
            assert_eq!(read.to_string(), text);
            check(&read).unwrap();
        }
    }
}

#[test]
fn a_slash_escaped_between_quotes_survives_printing() {
    check(&parse("matches(\"a\\\\/b\")").unwrap()).unwrap();
}
