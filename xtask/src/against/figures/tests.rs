//! Tests of `figures`.

use super::*;

fn figures(rows: &[(&str, f64, &'static str)]) -> Figures {
    let mut figures = Figures::default();
    for &(name, value, unit) in rows {
        figures.add(Figure { name: name.to_owned(), value, unit });
    }
    figures
}

#[test]
fn the_best_of_all_rounds_counts() {
    let figures = figures(&[
        ("a step", 12.0, "ns"),
        ("a scan", 1.0, "GB/s"),
        ("a step", 10.0, "ns"),
        ("a scan", 2.0, "GB/s"),
        ("a step", 11.0, "ns"),
        ("a scan", 1.5, "GB/s"),
    ]);
    let values: Vec<f64> = figures.0.iter().map(|figure| figure.value).collect();
    assert_eq!(values, [10.0, 2.0]);
}

#[test]
fn the_table_marks_what_is_slower_by_more_than_a_tenth() {
    let before =
        figures(&[("a step", 10.0, "ns"), ("a scan", 2.0, "GB/s"), ("a hold", 10.0, "ns")]);
    let after = figures(&[("a step", 10.9, "ns"), ("a scan", 1.5, "GB/s"), ("a hold", 5.0, "ns")]);
    let expected = "             before        after               slower
a step       10.000       10.900 ns           x  1.09
a scan        2.000        1.500 GB/s         x  1.33  SLOWER
a hold       10.000        5.000 ns           x  0.50
slower by more than a tenth: 1 of 3
";
    assert_eq!(table(&before, &after), expected);
}

#[test]
fn the_table_names_what_only_one_revision_has() {
    let before = figures(&[("old", 1.0, "ns"), ("both", 1.0, "ns"), ("other unit", 1.0, "ns")]);
    let after = figures(&[("both", 1.0, "ns"), ("new", 1.0, "ns"), ("other unit", 1.0, "us")]);
    let text = table(&before, &after);
    let only: Vec<&str> = text.lines().filter(|line| line.starts_with("only")).collect();
    let expected = [
        "only before: old",
        "only before: other unit",
        "only after: new",
        "only after: other unit",
    ];
    assert_eq!(only, expected);
    assert!(text.ends_with("slower by more than a tenth: 0 of 1\n"), "{text}");
}

#[test]
fn nothing_is_as_slow_as_nothing_and_slower_than_it_is_marked() {
    let before = figures(&[("kept", 0.0, "bytes"), ("grows", 0.0, "bytes")]);
    let after = figures(&[("kept", 0.0, "bytes"), ("grows", 8.0, "bytes")]);
    let text = table(&before, &after);
    assert!(text.contains("x  1.00\n") && text.contains("SLOWER"), "{text}");
    assert!(text.ends_with("slower by more than a tenth: 1 of 2\n"), "{text}");
}

#[test]
fn the_verdict_of_all_parts_names_what_is_slower() {
    let mut whole = Part::default();
    for (name, value) in [("a step", 12.0), ("a scan", 10.0), ("a hold", 13.0)] {
        whole.count(Part::of(&figures(&[(name, 10.0, "ns")]), &figures(&[(name, value, "ns")])));
    }
    assert_eq!(whole.verdict(), "slower by more than a tenth: 2 of 3\n");
    assert_eq!(whole.slower(), ["a step", "a hold"]);
}
