//! Tests of the table of budgets.

use super::*;

#[test]
fn options_are_read_and_wrong_ones_are_named() {
    let options = Options::parse(&["--quick", "--only", "kill", "burst"]).unwrap();
    assert!(options.is_quick && options.has("kill") && !options.has("cost"));
    assert!(Options::parse(&[]).unwrap().has("cost"));
    let options = Options::parse(&["--only", "kill", "--quick"]).unwrap();
    assert!(options.is_quick && options.has("kill"), "options may follow the parts");
    let options = Options::parse(&["--write", "--only", "kill", "cost"]).unwrap();
    assert!(options.is_written && options.has("cost") && !options.has("peers"));
    for (words, said) in [
        (&["--fast"][..], "`--fast` is unknown"),
        (&["--only", "kills"], "no part `kills`"),
        (&["--quick", "--write"], "--write needs the long form"),
        (&["--write", "--only", "kill", "--quick"], "--write needs the long form"),
        (&["--binary"], "--binary needs"),
    ] {
        assert!(Options::parse(words).unwrap_err().contains(said), "{words:?}");
    }
}

fn row(what: &'static str, found: &str) -> Row {
    Row { what, tried: "it".to_owned(), found: found.to_owned() }
}

#[test]
fn rows_of_a_part_replace_those_of_the_same_part_alone() {
    let root = std::env::temp_dir().join(format!("xtask-budgets-{}", std::process::id()));
    std::fs::create_dir_all(root.join("docs")).unwrap();
    let marks = format!("<!-- begin: cargo xtask {TASK} --write -->\n<!-- end -->\n");
    std::fs::write(root.join(PAGE), marks).unwrap();
    let all = [row(BURST, "first"), row(COST, "first"), row(COST, "too"), row(KILL, "first")];
    page::merge(&root, PAGE, TASK, &table(&all, "one machine"), &NAMES).unwrap();
    page::merge(&root, PAGE, TASK, &table(&[row(COST, "new")], "another"), &NAMES).unwrap();
    let text = page::read(&root, PAGE, TASK);
    let rows: Vec<&str> = text.lines().skip(2).collect();
    let expected = [
        format!("| {KILL} | it | first | one machine |"),
        format!("| {COST} | it | new | another |"),
        format!("| {BURST} | it | first | one machine |"),
    ];
    assert_eq!(rows, expected);
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
fn rows_that_failed_or_were_skipped_do_not_replace_others() {
    assert_eq!(Found::row(row(KILL, "0")).unfit(), None);
    let mut broken = Found::row(row(KILL, "1"));
    broken.must(false, "a call was admitted");
    assert_eq!(broken.unfit(), Some("it failed"));
    let mut half = Found::row(row(BURST_LITELLM, "x"));
    half.extend(Found::skipped(BURST_PYDANTIC, "", "not installed"));
    assert_eq!(half.unfit(), Some("a row of it was skipped"));
    assert_eq!(half.rows.len(), 2);
    assert_eq!(Found::default().unfit(), Some("it found nothing"));
}

#[test]
fn a_part_that_fails_leaves_the_others() {
    let tools = Tools::prepare(
        Path::new("/no/such/root"),
        &Options { only: vec!["none".to_owned()], ..Options::default() },
    );
    // Without a binary, processes cannot be started.
    let found = measure_on(Path::new("/"), &tools.unwrap(), "processes", true);
    assert_eq!((found.rows.len(), found.broken.len()), (0, 1), "{found:?}");
}

#[test]
fn a_table_is_one_even_if_it_is_printed_in_parts() {
    let first = table(&[row(KILL, "1")], "x");
    let second = table(&[row(BURST, "2"), row(BURST, "3")], "y");
    let whole = [rows_of(&first, true), rows_of(&second, false)].concat();
    assert_eq!(whole.lines().count(), 5);
    assert!(whole.ends_with("| burst | it | 3 | y |\n"), "{whole}");
}

#[test]
fn quantiles_are_of_what_was_measured() {
    let times: Vec<Duration> = (1..=100).map(Duration::from_millis).collect();
    let at = |part| quantile(&times, part).as_millis();
    assert_eq!((at(500), at(990), at(1_000)), (50, 99, 100));
    assert_eq!(quantile(&[], 500), Duration::ZERO);
}

#[test]
fn money_is_read_and_written_exactly() {
    let picos = |text: &str| place::picos(&text.into());
    assert_eq!(picos("1.25"), Some(1_250_000_000_000));
    assert_eq!(picos("0.000000000001"), Some(1));
    assert_eq!(place::dollars(1_250_000_499_999), "$1.250000");
    assert_eq!(place::dollars(12_000_000_500_000), "$12.000001");
}
