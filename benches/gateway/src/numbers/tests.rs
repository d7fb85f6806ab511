//! Tests of `numbers`.

use super::*;

#[test]
fn quantiles_are_values_of_the_list() {
    let mut values: Vec<u64> = (0..=100).rev().collect();
    assert_eq!(quantile(&mut values, 0.5), 50);
    assert_eq!(quantile(&mut values, 0.99), 99);
    assert_eq!(quantile(&mut [], 0.5), 0);
}
