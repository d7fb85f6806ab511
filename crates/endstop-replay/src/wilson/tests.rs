//! Tests of `wilson`.

use super::*;

/// Ends from the closed form, computed apart with exact fractions.
#[test]
fn the_interval_is_wilsons() {
    for (count, of, low, high) in [
        (0, 35, 0.0, 0.098_901),
        (2, 35, 0.015_813, 0.186_071),
        (5, 10, 0.236_593, 0.763_407),
        (10, 10, 0.722_467, 1.0),
    ] {
        let interval = Interval::of(count, of).unwrap();
        assert!((interval.low - low).abs() < 1e-5, "{interval:?}");
        assert!((interval.high - high).abs() < 1e-5, "{interval:?}");
    }
    assert_eq!(Interval::of(0, 0), None);
}
