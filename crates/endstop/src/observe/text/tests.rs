//! Tests of `text`.

use super::*;

#[test]
fn a_cut_text_is_never_wider_than_asked() {
    for text in ["", "a", "abcdef", "日本語テキスト", "a日b本c", "e\u{301}e\u{301}e\u{301}"]
    {
        for columns in 0..16 {
            let cut = truncate(text, columns);
            assert!(width(&cut) <= columns, "{text} {columns}: {cut}");
            assert_eq!(cut == text, width(text) <= columns, "{text} {columns}");
        }
    }
    assert_eq!(truncate("日本語", 5), "日本\u{2026}");
    assert_eq!(truncate("日本語", 4), "日\u{2026}");
    assert_eq!(clean_to(&"\u{301}".repeat(100_000), 10).chars().count(), 49);
    assert_eq!(clean_to(&"\n".repeat(100_000), 5), "\\n\\n\u{2026}");
}

#[test]
fn a_clock_shows_the_time_of_day_anywhere() {
    let wall = WallTime(1_793_534_710_123);
    assert_eq!(clock(wall, 0), "12:05:10.123");
    assert_eq!(clock(wall, 120), "14:05:10.123");
    assert_eq!(clock(WallTime(0), -60), "23:00:00.000");
    assert_eq!(clock(WallTime(u64::MAX), i32::MIN).len(), 12);
}

#[test]
fn short_ids_are_the_end_of_long_ones() {
    assert_eq!(short_id("019a8c1e-7b2f-7000-8000-0000a1b2c3"), "a1b2c3");
    assert_eq!([short_id("r1"), short_id("")], ["r1", ""]);
}
