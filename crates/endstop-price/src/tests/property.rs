//! The arithmetic against long multiplication, and hostile input.

use endstop_core::units::WallTime;
use proptest::prelude::*;

use super::prices::{NOON, table, usage};
use crate::*;

/// A rate as text with up to 6 whole and 18 fractional digits, and the same as a fraction of 10^18.
fn rate() -> impl Strategy<Value = (String, u128)> {
    (0u64..1_000, 0u64..1_000_000_000_000_000_000).prop_map(|(whole, fraction)| {
        let attos = u128::from(whole) * 10u128.pow(18) + u128::from(fraction);
        (format!("{whole}.{fraction:018}"), attos)
    })
}

/// Long multiplication in base 10⁹, least digit first: nothing here can overflow.
fn multiply(a: &[u64], factor: u64) -> Vec<u64> {
    let (mut carry, mut product) = (0u128, Vec::new());
    for digit in a {
        carry += u128::from(*digit) * u128::from(factor);
        product.push(u64::try_from(carry % 1_000_000_000).unwrap());
        carry /= 1_000_000_000;
    }
    while carry > 0 {
        product.push(u64::try_from(carry % 1_000_000_000).unwrap());
        carry /= 1_000_000_000;
    }
    product
}

fn big(mut value: u128) -> Vec<u64> {
    let mut digits = Vec::new();
    while value > 0 {
        digits.push(u64::try_from(value % 1_000_000_000).unwrap());
        value /= 1_000_000_000;
    }
    digits
}

fn plus(a: &[u64], b: &[u64]) -> Vec<u64> {
    let (mut carry, mut sum) = (0, Vec::new());
    for index in 0..a.len().max(b.len()) {
        carry += a.get(index).unwrap_or(&0) + b.get(index).unwrap_or(&0);
        sum.push(carry % 1_000_000_000);
        carry /= 1_000_000_000;
    }
    sum.push(carry);
    sum
}

fn at_most(a: &[u64], b: &[u64]) -> bool {
    let length = a.len().max(b.len());
    let digits = |n: &[u64]| (0..length).rev().map(|i| *n.get(i).unwrap_or(&0)).collect::<Vec<_>>();
    digits(a) <= digits(b)
}

proptest! {
    /// Rounded up, and by less than one pico-dollar, against long multiplication: for each call
    /// `exact ≤ total < exact + 1` in units of 10⁻¹⁸ / 10⁶ USD.
    #[test]
    fn a_call_is_rounded_up_by_less_than_a_pico(
        (input_text, input_rate) in rate(), (output_text, output_rate) in rate(),
        input in 0u64..1 << 32, output in 0u64..1 << 32,
    ) {
        let table = table(&format!(
            r#""prices":{{"input_mtok":{input_text},"output_mtok":"{output_text}"}}"#
        ));
        let model = table.find(Some("p"), "m").unwrap();
        let usage = usage(&[("input_tokens", input), ("output_tokens", output)]);
        let priced = model.price(&usage, NOON, &CallContext::default()).unwrap();
        // A pico-dollar is 10^12 of these units.
        let exact = plus(
            &multiply(&big(input_rate), input),
            &multiply(&big(output_rate), output),
        );
        let total = multiply(&big(u128::from(priced.total.picos())), 1_000_000_000_000);
        prop_assert!(at_most(&exact, &total));
        if priced.total.picos() > 0 {
            let below = multiply(&big(u128::from(priced.total.picos() - 1)), 1_000_000_000_000);
            prop_assert!(!at_most(&exact, &below));
        }
    }

    #[test]
    fn sums_are_free_of_order_and_scale(
        (text, _) in rate(), counts in prop::collection::vec(0u64..1 << 40, 1..12), by in 1u64..1_000,
    ) {
        let table = table(&format!(r#""prices":{{"input_mtok":{text}}}"#));
        let model = table.find(Some("p"), "m").unwrap();
        let exact = |count| {
            let usage = usage(&[("input_tokens", count)]);
            model.price(&usage, NOON, &CallContext::default()).ok().map(|priced| priced.exact)
        };
        let add = |sum: ExactUsd, count: &u64| sum.checked_add(exact(*count)?);
        let forward = counts.iter().try_fold(ExactUsd::ZERO, add);
        prop_assert_eq!(forward, counts.iter().rev().try_fold(ExactUsd::ZERO, add));
        if let (Some(forward), Some(whole)) = (forward, exact(counts.iter().sum())) {
            prop_assert_eq!(forward, whole);
        }
        if let Some(one) = exact(counts[0]) {
            let many = (0..by).try_fold(ExactUsd::ZERO, |sum, _| sum.checked_add(one));
            if let (Some(many), Some(scaled)) = (many, exact(counts[0] * by)) {
                prop_assert_eq!(many, scaled);
            }
        }
    }

    #[test]
    fn nothing_overflows_or_panics(
        rate in "[0-9]{1,20}(\\.[0-9]{1,18})?", input in 0u64..MAX_COUNT, cached in 0u64..MAX_COUNT,
        at in any::<u64>(),
    ) {
        let table = table(&format!(
            r#""prices":{{"input_mtok":"{rate}","cache_read_mtok":"{rate}"}}"#
        ));
        let model = table.find(Some("p"), "m").unwrap();
        let usage = usage(&[("input_tokens", input), ("cache_read_tokens", cached)]);
        let priced = model.price(&usage, WallTime(at), &CallContext::default());
        prop_assert!(priced.is_ok() || cached > input || priced == Err(PriceError::TooLarge));
    }

    #[test]
    fn no_name_panics(name in ".{0,60}", provider in ".{0,20}") {
        let table = PriceTable::embedded();
        let _ = table.find(Some(&provider), &name);
        let _ = table.find(None, &name);
        let _ = table.find(Some("openrouter"), &name);
        let _ = table.nearest(None, &name);
    }
}
