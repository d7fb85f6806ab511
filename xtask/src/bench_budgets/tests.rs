//! Tests of the table of budgets.

use super::*;

#[test]
fn options_are_read_and_wrong_ones_are_named() {
    let options = Options::parse(&["--quick", "--only", "kill", "burst"]).unwrap();
    assert!(options.is_quick && options.has("kill") && !options.has("cost"));
    assert!(Options::parse(&[]).unwrap().has("cost"));
    let options = Options::parse(&["--only", "kill", "--quick"]).unwrap();
    assert!(options.is_quick && options.has("kill"), "options may follow the parts");
    for (words, said) in [
        (&["--fast"][..], "`--fast` is unknown"),
        (&["--only", "kills"], "no part `kills`"),
        (&["--quick", "--write"], "--write needs the whole table"),
        (&["--binary"], "--binary needs"),
    ] {
        assert!(Options::parse(words).unwrap_err().contains(said), "{words:?}");
    }
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
