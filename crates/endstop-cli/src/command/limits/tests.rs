//! Tests of `limits`.

use super::*;

#[test]
fn limits_are_a_sentence() {
    let words = |text: &str| in_words(Policy::from_toml(text).unwrap().rules.iter());
    let both = "[stop]\nsteps = 'steps >= 50'\nusd = 'cost >= $2.00'\n";
    assert_eq!(words(both), "stops at $2.00 or 50 steps");
    let many = "[stop]\na = 'no_progress() or max_usd(1.5) or tokens >= 2000k or active >= 90m'\n\
                [pause]\nb = 'own.steps >= 3'\n[warn]\nc = 'steps >= 1'\n";
    assert_eq!(
        words(many),
        "stops at $1.50, 2M tokens, 1h 30m or no_progress(); pauses at own.steps >= 3; warns at 1 step"
    );
    assert_eq!(words(""), "stops nothing");
}

#[test]
fn what_is_too_large_is_told_so() {
    assert_eq!(usd("99999999999999").unwrap_err(), "that is too large");
    assert!(usd("much").unwrap_err().contains("an amount of dollars"));
    assert_eq!(number("99999999999999999999999").unwrap_err(), "that is too large");
    assert!(number("-1").unwrap_err().contains("a whole number"));
}

#[test]
fn tokens_are_written_as_in_expressions() {
    for (text, tokens) in [("200k", "200000"), ("1_000", "1000"), ("0", "0")] {
        let bound = |text: &str| {
            let tokens = Some(amount_of_tokens(text).unwrap());
            let chosen = Limits { tokens, ..no_limits() }.choose(None, OF_COMMAND).unwrap();
            format!("{:?}", chosen.policy.bounds().tokens)
        };
        assert_eq!(bound(text), bound(tokens));
    }
    assert!(amount_of_tokens("1.5m").unwrap_err().ends_with("did you mean `1.5M`?"));
    for wrong in ["", "-1", "k", "200x", "$2", "5s", "5 or true", "99999999999999999999999"] {
        assert!(amount_of_tokens(wrong).is_err(), "{wrong}");
    }
}

fn no_limits() -> Limits {
    let (policy, stop, steps, usd) = (None, None, None, None);
    Limits {
        policy,
        stop,
        steps,
        usd,
        tokens: None,
        timeout: None,
        unpriced: None,
        budget: Vec::new(),
        store: StoreArgs::default(),
    }
}

#[test]
fn money_that_is_not_counted_bounds_nothing_and_that_is_said() {
    let usd = Some("1".parse().unwrap());
    let chosen = |steps| {
        let unpriced = Some(OnUnpriced::Ignore);
        Limits { usd, unpriced, steps, ..no_limits() }.choose(None, OF_COMMAND)
    };
    let error = format!("{:?}", chosen(None).unwrap_err());
    assert!(error.contains("--usd alone bounds nothing with --unpriced ignore"), "{error}");
    assert!(chosen(Some(9)).is_ok());
}
