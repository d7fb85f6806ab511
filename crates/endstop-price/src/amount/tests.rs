//! Tests of `amount`.

use super::*;

#[test]
fn amounts_are_exact_until_rounded_once() {
    // 1 token at $0.041666666666666664 per million.
    let one = ExactUsd::of(1, 41_666_666_666_666_664, 1_000_000).unwrap();
    assert_eq!(one.to_decimal(), "0.000000041666666666666664");
    assert_eq!(one.round_up(), Some(Money::from_picos(41_667)));
    let two = one.checked_add(one).unwrap();
    assert_eq!(two.round_up(), Some(Money::from_picos(83_334)));
    assert_eq!(ExactUsd::of(1_000_000, 2 * 10u128.pow(18), 1_000_000).unwrap().to_string(), "$2");
}

#[test]
fn a_ninth_is_shown_as_repeating() {
    // One millisecond at $0.04 an hour.
    let amount = ExactUsd::of(1, 40_000_000_000_000_000, 3_600_000).unwrap();
    assert_eq!(amount.to_decimal(), "0.0000000111111111111111111111…");
    assert_eq!(amount.round_up(), Some(Money::from_picos(11_112)));
}

#[test]
fn too_much_does_not_fit() {
    assert_eq!(ExactUsd::of(u64::MAX, u128::MAX, 1_000), None);
    assert_eq!(ExactUsd::of(1, 1, 0), None);
    let large = ExactUsd::of(20_000_000, 10u128.pow(21), 1_000).unwrap();
    assert_eq!(large.round_up(), None);
}
