//! Tests of `limit`.

use super::*;

#[test]
fn every_limit_has_one_form_that_can_be_read_again() {
    for (text, shown) in [
        ("$3000 per month", "$3,000.00 per month"),
        ("$3,000.50", "$3,000.50"),
        ("$1_000_000", "$1,000,000.00"),
        ("$0.0001 per hour", "$0.0001 per hour"),
        ("$12.345 per day", "$12.345 per day"),
        ("2M tokens per hour", "2M tokens per hour"),
        ("1500000 tokens", "1.5M tokens"),
        ("1,234,567 tokens", "1,234,567 tokens"),
        ("999 tokens", "999 tokens"),
        ("1000 steps per day", "1,000 steps per day"),
    ] {
        let limit: AccountLimit = text.parse().unwrap();
        assert_eq!(limit.to_string(), shown);
        assert_eq!(shown.parse(), Ok(limit));
    }
}

#[test]
fn commas_separate_only_thousands() {
    for text in ["$3,00", "$30,00.00", "$1,000.5,0", "$0,100", "$,100", "1,0 steps", "1,5M tokens"]
    {
        let error = text.parse::<AccountLimit>().unwrap_err();
        assert!(matches!(error, LimitError::Amount(_)), "{text}: {error}");
    }
}

#[test]
fn one_step_is_not_steps() {
    let shown = [0, 1, 2].map(|steps| rounded(Dimension::Steps, steps, Rounding::Up));
    assert_eq!(shown, ["0 steps", "1 step", "2 steps"]);
}
