//! Tests of the results that a run has seen.

use super::*;

#[test]
fn the_last_distinct_results_are_remembered_in_constant_space() {
    let mut seen = SeenResults::default();
    let spread = |i: u64| xxh3_64(&i.to_le_bytes()) % 6_000 + (i << 32);
    let all: Vec<u64> = (0..3 * DISTINCT_RESULTS as u64 + 7).map(spread).collect();
    for (i, &digest) in all.iter().enumerate() {
        assert!(seen.insert(digest), "{i}");
        assert!(!seen.insert(digest));
    }
    let last = &all[all.len() - DISTINCT_RESULTS..];
    assert!(seen.oldest_first().eq(last.iter().copied()));
    assert!(last.iter().all(|d| seen.find(*d).is_some()));
    assert!(all[..all.len() - DISTINCT_RESULTS].iter().all(|d| seen.find(*d).is_none()));
    assert_eq!(seen.index.iter().filter(|cell| **cell != 0).count(), DISTINCT_RESULTS);
    let again: SeenResults = seen.oldest_first().collect();
    assert!(again.oldest_first().eq(seen.oldest_first()));
}
