//! Tests of the tables for people.

use super::*;

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
fn a_card_is_no_wider_than_its_terminal() {
    let drawn = |on_a_terminal| {
        let mut grid = Grid::new(&["run", "calls"], &[1], on_a_terminal, 30);
        grid.add_row(["a-very-long-name-of-a-run-without-a-space", "1"]);
        grid.to_string()
    };
    let card = "run    a-very-long-name-of-a-r\n\
                \u{20}      un-without-a-space\n\
                calls  1";
    assert_eq!(drawn(true), card);
    assert!(drawn(false).contains("a-very-long-name-of-a-run-without-a-space"));
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
