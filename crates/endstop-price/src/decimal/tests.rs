//! Tests of `decimal`.

use super::*;

#[test]
fn plain_and_exponent_forms_are_exact() {
    for (text, digits, value) in [
        ("0.0052318", 12, 5_231_800_000),
        ("1e-05", 12, 10_000_000),
        ("1E+2", 2, 10_000),
        ("2", 18, 2_000_000_000_000_000_000),
        ("0.041666666666666664", 18, 41_666_666_666_666_664),
        ("1.50", 1, 15),
        ("-0.0", 12, 0),
        ("0e-300", 12, 0),
    ] {
        assert_eq!(scaled(text, digits, Beyond::Refuse), Ok(value), "{text}");
    }
}

#[test]
fn digits_beyond_the_scale_are_refused_or_round_up() {
    assert_eq!(scaled("0.0000000000011", 12, Beyond::RoundUp), Ok(2));
    assert_eq!(scaled("1e-300", 12, Beyond::RoundUp), Ok(1));
    assert_eq!(scaled("0.0000000000011", 12, Beyond::Refuse), Err(DecimalError::TooFine));
    assert_eq!(scaled("0.00000000000110", 13, Beyond::Refuse), Ok(11));
}

#[test]
fn what_is_no_amount_is_refused() {
    use DecimalError::{Negative, NotANumber, TooLarge};
    for (text, error) in [
        ("", NotANumber),
        (".5", NotANumber),
        ("5.", NotANumber),
        ("1e", NotANumber),
        ("+1", NotANumber),
        ("NaN", NotANumber),
        ("inf", NotANumber),
        ("1_0", NotANumber),
        ("-1", Negative),
        ("1e401", TooLarge),
        ("1e40", TooLarge),
        ("9999999999999999999999999999999999999999", TooLarge),
    ] {
        assert_eq!(scaled(text, 12, Beyond::RoundUp), Err(error), "{text}");
    }
}

#[test]
fn text_is_the_shortest() {
    assert_eq!(plain(2_000, 3), "2");
    assert_eq!(plain(125, 3), "0.125");
    assert_eq!(plain(10, 3), "0.01");
}
