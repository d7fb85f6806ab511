//! Tests of `lookup`.

use super::*;

#[test]
fn compact_dates_get_dashes() {
    for (name, dashed) in [
        ("gpt-5.2-20251211", "gpt-5.2-2025-12-11"),
        ("gpt-5.2-20251211:free", "gpt-5.2-2025-12-11:free"),
        ("a-20251211-preview", "a-2025-12-11-preview"),
        ("a-20251311", "a-20251311"),
        ("a-20250230", "a-20250230"),
        ("a-202512110", "a-202512110"),
        ("a-19991211", "a-19991211"),
        ("20251211-a", "20251211-a"),
        ("plain", "plain"),
        ("é-2025121é", "é-2025121é"),
    ] {
        assert_eq!(dashed_dates(name), dashed);
    }
}
