//! Tests of the recent results.

use super::*;

fn fed(digests: &[u64]) -> RecentResults {
    let mut recent = RecentResults::default();
    for &digest in digests {
        recent.push(digest);
    }
    recent
}

#[test]
fn repeats_count_beyond_the_first() {
    for (digests, repeats) in
        [(&[][..], 0), (&[1], 0), (&[1, 1], 1), (&[1, 1, 1, 1], 3), (&[1, 1, 2], 0)]
    {
        assert_eq!(fed(digests).repeats, repeats, "{digests:?}");
    }
}

#[test]
fn cycles_count_whole_periods_and_not_constant_runs() {
    for (digests, cycles) in [
        (&[1, 2, 1, 2][..], 1),
        (&[1, 2, 1, 2, 1, 2], 2),
        (&[1, 2, 3, 1, 2, 3], 1),
        (&[1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4], 2),
        (&[1, 1, 1, 1, 1, 1, 1], 0),
        (&[1, 2, 3, 4, 5], 0),
        (&[1, 1, 2, 1, 1, 2], 1),
    ] {
        assert_eq!(fed(digests).cycles(), cycles, "{digests:?}");
    }
}

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
