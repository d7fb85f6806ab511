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
