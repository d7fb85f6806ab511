//! Tests of the numbers and tables for people.

use super::*;

#[test]
fn numbers_for_people() {
    let counts = [(0, "0"), (999, "999"), (1_234, "1,234"), (1_234_567, "1,234,567")];
    for (number, text) in counts {
        assert_eq!(count(number), text);
    }
    assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
    assert_eq!((counted(1, "run"), counted(1_234, "run")), ("1 run".into(), "1,234 runs".into()));
    let shorts = [
        (999, "999"),
        (1_000, "1.0k"),
        (12_345, "12.3k"),
        (999_949, "999.9k"),
        (999_950, "1.0M"),
        (4_600_000_000, "4.6G"),
    ];
    for (number, text) in shorts {
        assert_eq!(short(number), text);
    }
    assert_eq!(short(u64::MAX), "18,446,744,073,709,551,615");
    assert_eq!(tokens(12_345), "12.3k tokens");
    assert_eq!(tokens(1), "1 token");
}

#[test]
fn money_for_people() {
    let amounts = [
        ("0", "$0.00"),
        ("19.502722", "$19.50"),
        ("1234.5", "$1,234.50"),
        ("0.995", "$1.00"),
        ("0.5", "$0.50"),
        ("0.01", "$0.01"),
        ("0.004596", "$0.0046"),
        ("0.00999", "$0.01"),
        ("0.000000000001", "$0.000000000001"),
        ("0.000000000123", "$0.00000000012"),
    ];
    for (exact, text) in amounts {
        assert_eq!(money(exact.parse::<Money>().unwrap()), text, "{exact}");
    }
    assert_eq!(money(Money::from_picos(u64::MAX)), "$18,446,744.07");
}

#[test]
fn durations_for_people() {
    let spans = [
        (0, "0s"),
        (850, "850ms"),
        (12_345, "12s"),
        (90_999, "1m30s"),
        (7_500_000, "2h5m"),
        (90_061_000, "1d1h"),
    ];
    for (millis, text) in spans {
        assert_eq!(duration(Millis(millis)), text);
    }
}

#[test]
fn tables_are_ascii_unless_a_wide_terminal_shows_them() {
    let drawn = |on_a_terminal, width| {
        let mut table = Grid::new(&["rule", "runs"], &[1], on_a_terminal, width);
        table.add_row(["steps", "12"]);
        table.to_string()
    };
    assert!(drawn(false, 120).is_ascii());
    assert!(drawn(true, NARROW_COLUMNS - 1).is_ascii());
    assert!(!drawn(true, NARROW_COLUMNS).is_ascii());
    assert!(drawn(false, 120).contains("|   12 |"), "{}", drawn(false, 120));
}

#[test]
fn words_are_not_broken_where_a_terminal_is_narrow() {
    let drawn = |width| {
        let header = ["limit", "runs stopped", "successes lost", ""];
        let mut grid = Grid::new(&header, &[1, 2], true, width);
        grid.add_row(["steps >= 5", "7", "2 of 5", ""]);
        grid.add_row(["steps >= 10", "-", "0 of 5", "of all of them"]);
        grid.to_string()
    };
    assert!(drawn(60).contains("\u{2506}"));
    assert!(drawn(45).contains("| steps >= |"), "{}", drawn(45));
    let cards = "limit           steps >= 5\n\
                 runs stopped    7\n\
                 successes lost  2 of 5\n\
                 \n\
                 limit           steps >= 10\n\
                 runs stopped    -\n\
                 successes lost  0 of 5\n\
                 \u{20}               of all of them";
    assert_eq!(drawn(30), cards);
}
