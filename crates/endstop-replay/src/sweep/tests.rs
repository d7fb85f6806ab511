//! How sweeps are parsed, and which policies they make.

use super::*;

fn values(text: &str) -> Vec<String> {
    text.parse::<Sweep>().unwrap().values
}

fn message(text: &str) -> String {
    let error = text.parse::<Sweep>().unwrap_err();
    format!("{}; {}", error.message, error.hint)
}

fn sweeps(texts: &[&str]) -> Vec<Sweep> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn a_range_has_both_ends_and_its_gauges_unit() {
    assert_eq!(values("cost=$0.25..$1.00:$0.25"), ["$0.25", "$0.50", "$0.75", "$1.00"]);
    assert_eq!(values("steps = 30..100:30"), ["30", "60", "90", "100"]);
    assert_eq!(values("tokens=100k..300k:100k"), ["100k", "200k", "300k"]);
    assert_eq!(values("active=1m..3m:60s"), ["1m", "2m", "3m"]);
    assert_eq!(values("x=50c..$1:50c"), ["$0.50", "$1.00"]);
    assert_eq!(values("x=2, 5,9"), ["2", "5", "9"]);
    assert_eq!(values("tool_calls(\"a=b\")=1..3:1"), ["1", "2", "3"]);
    assert_eq!(values("own.steps=7..7:3"), ["7"]);
    assert_eq!(values("steps=0..100").len(), 11);
}

#[test]
fn what_is_no_sweep_says_what_to_write() {
    for (text, said) in [
        ("cost", "`cost` is not a sweep; write NAME=FROM..TO:STEP"),
        ("=1..2:1", "names nothing"),
        ("steps=1,,3", "a value of `steps` is missing"),
        ("cost=1..2:1", "is compared with an amount of money"),
        ("cost=.25..$2.00:$0.25", "in the sweep of `cost`"),
        ("steps=9..3:1", "ends before it begins"),
        ("steps=1..9:0", "a step of 0"),
        ("steps=1..1000000:1", "more than 1000 policies"),
        ("x=a..b:c", "`a` is not an amount"),
    ] {
        assert!(message(text).contains(said), "{text}: {}", message(text));
    }
}

#[test]
fn a_gauge_is_added_to_the_policy() {
    let made = candidates(Some("repeats >= 3"), &sweeps(&["steps=3..4:1", "cost=$1,$2"])).unwrap();
    let shown: Vec<(&str, &str)> = made.iter().map(|c| (&*c.label, &*c.series)).collect();
    let expected = [
        ("steps >= 3", "steps"),
        ("steps >= 4", "steps"),
        ("cost >= $1", "cost"),
        ("cost >= $2", "cost"),
    ];
    assert_eq!(shown, expected);
    assert_eq!(made[3].added.as_deref(), Some("cost >= $2"));
    assert!(made.iter().all(|c| c.text.as_deref() == Some("repeats >= 3")));
}

#[test]
fn places_in_the_policy_are_filled_in_every_combination() {
    let text = "no_progress({x}) or cost >= {limit} or repeats >= {x}";
    let made = candidates(Some(text), &sweeps(&["limit=$1,$2", "x=3,4"])).unwrap();
    let labels: Vec<&str> = made.iter().map(|c| &*c.label).collect();
    assert_eq!(
        labels,
        ["limit = $1, x = 3", "limit = $1, x = 4", "limit = $2, x = 3", "limit = $2, x = 4"]
    );
    assert_eq!(made[1].series, "limit = $1, {x}");
    let filled = "no_progress(4) or cost >= $1 or repeats >= 4";
    assert_eq!((made[1].text.as_deref(), &made[1].added), (Some(filled), &None));
    let mixed = candidates(Some("repeats >= {x}"), &sweeps(&["x=3,4", "steps=5"])).unwrap();
    assert_eq!((&*mixed[1].label, &*mixed[1].series), ("x = 4, steps >= 5", "x = 4, steps"));
}

#[test]
fn a_name_that_is_nowhere_is_an_error() {
    let error = candidates(Some("steps >= 3"), &sweeps(&["x=1,2"])).unwrap_err();
    assert_eq!(error.message, "`x` is neither a gauge nor in the policy as `{x}`");
    let error = candidates(None, &sweeps(&["fact=1,2"])).unwrap_err();
    assert!(error.message.starts_with("`fact >= 1`"), "{error}");
    let many: Vec<String> = (0..50).map(|n| n.to_string()).collect();
    let sweep = |name: &str| Sweep { name: name.to_owned(), values: many.clone() };
    let all = [sweep("a"), sweep("b")];
    assert!(candidates(Some("steps >= {a} or repeats >= {b}"), &all).is_err());
}
