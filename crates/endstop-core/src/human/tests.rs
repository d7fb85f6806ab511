//! Numbers as people read them.

use super::*;

#[test]
fn counts_have_separators_and_tokens_are_short() {
    let counts = [(0, "0"), (999, "999"), (1_234, "1,234"), (1_234_567, "1,234,567")];
    for (number, text) in counts {
        assert_eq!(count(number), text);
    }
    assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
    assert_eq!((counted(1, "run"), counted(1_234, "run")), ("1 run".into(), "1,234 runs".into()));
    let shorts = [
        (999, "999"),
        (1_000, "1k"),
        (12_345, "12.3k"),
        (584_365, "584.4k"),
        (999_949, "999.9k"),
        (999_950, "1M"),
        (2_000_000, "2M"),
        (4_600_000_000, "4.6G"),
    ];
    for (number, text) in shorts {
        assert_eq!(short(number), text);
    }
    assert_eq!(short(u64::MAX), "18,446,744,073,709,551,615");
    assert_eq!((tokens(12_345), tokens(1)), ("12.3k tokens".into(), "1 token".into()));
}

#[test]
fn money_is_in_cents_and_below_ten_cents_in_two_digits() {
    let amounts = [
        ("0", "$0.00"),
        ("19.502722", "$19.50"),
        ("1234.5", "$1,234.50"),
        ("0.995", "$1.00"),
        ("0.5", "$0.50"),
        ("0.104", "$0.10"),
        ("0.0999", "$0.10"),
        ("0.0967", "$0.097"),
        ("0.05", "$0.05"),
        ("0.01", "$0.01"),
        ("0.004596", "$0.0046"),
        ("0.00999", "$0.01"),
        ("0.000000000001", "$0.000000000001"),
        ("0.000000000123", "$0.00000000012"),
    ];
    for (exact, text) in amounts {
        assert_eq!(money(exact.parse().unwrap()), text, "{exact}");
    }
    assert_eq!(money(Money::from_picos(u64::MAX)), "$18,446,744.07");
    let exact: Money = "0.5361".parse().unwrap();
    assert_eq!(money_rounded(exact, Rounding::Up), "$0.54");
    assert_eq!(money_rounded(exact, Rounding::Down), "$0.53");
    let least = Money::from_picos(1);
    assert_eq!(money_rounded(least, Rounding::Down), "$0.000000000001");
}

#[test]
fn times_have_two_units_at_most() {
    let spans = [
        (0, "0s"),
        (96, "96ms"),
        (3_280, "3.2s"),
        (5_000, "5s"),
        (12_345, "12s"),
        (594_999, "9m 54s"),
        (600_000, "10m"),
        (3_723_000, "1h 2m"),
        (90_061_000, "1d 1h"),
    ];
    for (millis, text) in spans {
        assert_eq!(duration(Millis(millis)), text);
    }
}

#[test]
fn amounts_have_the_form_of_their_unit() {
    let amounts = [
        (1_150, Unit::Count, "1,150"),
        (2_000_000, Unit::Tokens, "2M"),
        (1_754_931_000_000, Unit::Money, "$1.75"),
        (594_000, Unit::Duration, "9m 54s"),
        (9_800, Unit::Percent, "98%"),
    ];
    for (value, unit, text) in amounts {
        assert_eq!(amount(value, unit), text);
    }
}
