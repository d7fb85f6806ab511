//! Parsing: accepted expressions, and the errors for the rest.

use alloc::string::{String, ToString};

use super::*;

fn round_trip(text: &str) -> String {
    let condition =
        parse(text).unwrap_or_else(|e| panic!("{text}: {}", e.render(text, "test", false)));
    let printed = condition.to_string();
    assert_eq!(parse(&printed), Ok(condition), "{printed}");
    printed
}

#[test]
fn conditions_print_as_they_are_written() {
    for text in [
        "steps >= 25 or cost >= $2.00 or tokens >= 200k or active >= 10m",
        "streak(no_tool_calls) >= 3 or repeats >= 4 or cycles >= 3",
        "called(\"submit_final\") or said(\"FINAL ANSWER\")",
        "tool_calls(\"search\") >= 5 and not ever(called(\"read\"))",
        "said(\"x\", from=\"agent\")",
        "matches(/a\\/b\\d+/)",
        "count(errored, 5m) >= 3 or count(errored, 10 steps) > 2",
        "called(\"a\") within 10 steps then called(\"b\") then errored",
        "(called(\"a\") then called(\"b\")) and steps < 5",
        "not (steps >= 3 and cost != $0.50)",
        "now >= \"2026-11-30T12:00:00Z\"",
        "own.steps >= 3 or fact(\"score\") >= 90 or probe(\"x\") == 1",
        "finished(\"stop\", \"length\") or handed_off(\"human\") or cancelled",
        "MaxIters(25) or MaxUsd(2.00) or MaxTokens(50_000) or NoProgress(3)",
        "max_usd(2.00, model=\"gpt-5\") or no_progress(patience=3) or Timeout(60)",
    ] {
        assert_eq!(round_trip(text), text);
    }
}

#[test]
fn symbols_and_spellings_are_read() {
    for (text, printed) in [
        ("steps>=25|cost>=50c", "steps >= 25 or cost >= $0.50"),
        ("steps >= 25 || !errored", "steps >= 25 or not errored"),
        ("steps >= 25 && (errored & cancelled)", "steps >= 25 and errored and cancelled"),
        ("cost >= 2.00usd or tokens >= 1.5M", "cost >= $2.00 or tokens >= 1.5M"),
        ("active >= 90s or idle > 250ms", "active >= 1m30s or idle > 250ms"),
        ("now >= '2026-11-30T12:00Z'", "now >= \"2026-11-30T12:00:00Z\""),
        (
            "MaxMessages(50) | TokenBudget(200_000) | TextMention('final_answer') | ExternalSignal(\"cancel\")",
            "MaxMessages(50) or TokenBudget(200_000) or TextMention(\"final_answer\") or ExternalSignal(\"cancel\")",
        ),
        ("ExternalSignal(cancel_token)", "ExternalSignal(\"cancel_token\")"),
        ("((steps >= 1))", "steps >= 1"),
    ] {
        assert_eq!(round_trip(text), printed);
    }
}

#[test]
fn named_conditions_equal_their_expansion() {
    let same = [
        ("max_steps(25)", "steps >= 25"),
        ("max_usd(2.00)", "cost >= $2.00"),
        ("timeout(60s)", "active >= 1m"),
        ("no_progress(patience=3)", "no_progress >= 3"),
        ("no_progress()", "stale >= 30 or repeats >= 8 or cycles >= 3 or no_progress >= 12"),
        ("NoProgress()", "no_progress()"),
        ("text_mention(\"x\")", "said(\"x\")"),
        ("deadline(\"2026-11-30T12:00Z\")", "now >= \"2026-11-30T12:00:00Z\""),
        ("FirstN(5, tool=\"search\")", "tool_calls(\"search\") >= 5"),
    ];
    for (named, plain) in same {
        assert_eq!(parse(named), parse(plain), "{named}");
    }
    assert_eq!(
        named::max_steps(25) | named::no_progress(3),
        parse("max_steps(25) | no_progress(3)").unwrap()
    );
    assert_eq!(named::no_progress_measured(), parse("no_progress()").unwrap());
    assert_eq!(named::no_progress_measured().to_string(), "no_progress()");
    assert_eq!(named::max_usd("2.00").unwrap(), parse("MaxUsd(2.00)").unwrap());
    assert_eq!(!named::cancellation(), parse("not cancelled").unwrap());
}

#[test]
fn errors_say_where_why_and_what_to_do() {
    for (text, at, message, help) in [
        ("cost >= 5", "5", "money", "`$5.00`"),
        ("cost >= .00", ".00", "an amount is missing", "single quotes"),
        ("cost >= ", "", "an amount is missing", "2.00usd"),
        ("cost >= 2.50$", "$", "the dollar sign is written before the amount", "write `$2.50`"),
        ("steps >= ", "", "an amount is missing", "write for example `25`"),
        ("tokens >= 1.5m", "1.5m", "a whole number", "write `1.5M`"),
        ("usd >= 2", "usd", "`usd` is not known here", "did you mean `cost`?"),
        ("turns >= 2", "turns", "`turns` is not known here", "did you mean `steps`?"),
        ("minutes >= 2", "minutes", "`minutes` is not known here", "did you mean `elapsed`?"),
        ("steps >= 1.5", "1.5", "whole number", "25"),
        ("steps >= -1", "-1", "never negative", ""),
        ("active >= 60", "60", "a duration", "`60s`"),
        ("steps >= 10m", "10m", "a whole number", "write `10M`"),
        ("stesp >= 3", "stesp", "`stesp` is not known here", "did you mean `steps`?"),
        (
            "steps >= 1 and cost >= $1 or errored",
            "or",
            "mixed without parentheses",
            "columns 1 to 25",
        ),
        (
            "called(\"a\") then errored and steps >= 1",
            "called(\"a\") then errored",
            "needs parentheses",
            "(a then b)",
        ),
        ("steps", "steps", "a comparison is missing", "25"),
        ("called(\"a\") >= 2", ">=", "true or false", "count(called"),
        ("(steps >= 1", "(", "not closed", ""),
        ("steps >= 1)", ")", "should end here", "closes nothing"),
        ("said()", "()", "`text`", ""),
        ("said(\"\")", "(\"\")", "always found", ""),
        (
            "said(\"x\", form=\"y\")",
            "form=\"y\"",
            "unknown argument `form`",
            "did you mean `from`?",
        ),
        ("cost >= $9000001", "$9000001", "more than $9,000,000", ""),
        ("steps >= 1e9", "1e9", "not a unit", ""),
        ("steps >= 99999999999999999999999", "99999999999999999999999", "too large", ""),
        ("matches(/(/)", "/(/", "regular expression", ""),
        ("own.elapsed >= 1m", "own.elapsed", "the run's own anyway", "leave"),
        ("steps = 3", "=", "a comparison is missing", "`==`"),
        ("now >= \"tomorrow\"", "\"tomorrow\"", "not a time", "2026"),
        ("count(errored, 5m) >= 2000", "2000", "at most 1024", ""),
        ("steps >= 1 #", "#", "not part of the language", ""),
        ("", "", "empty", ""),
        ("MaxIters()", "()", "`n`", "max_steps(25)"),
    ] {
        let error = parse(text).expect_err(text);
        assert!(error.message.contains(message), "{text}: {error:?}");
        assert_eq!(text.get(error.span.clone()), Some(at), "{text}: {error:?}");
        assert!(error.help.clone().unwrap_or_default().contains(help), "{text}: {error:?}");
    }
}

#[test]
fn size_is_bounded() {
    let deep = "not ".repeat(31) + "errored";
    assert!(parse(&deep).is_ok());
    assert!(parse(&("not ".repeat(32) + "errored")).is_err());
    assert!(parse(&("(".repeat(10_000) + "errored")).is_err());
    let wide = |n: usize| alloc::vec!["errored"; n].join(" or ");
    assert!(parse(&wide(1_023)).is_ok());
    assert!(parse(&wide(1_024)).unwrap_err().message.contains("1025 nodes"));
    assert!(parse(&" ".repeat(MAX_TEXT_FOR_TEST + 1)).unwrap_err().message.contains("bytes"));
}

const MAX_TEXT_FOR_TEST: usize = crate::limits::MAX_TEXT;
