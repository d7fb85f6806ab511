//! Tests of `tally`.

use super::*;

fn run(id: &str, calls: &[(u64, &str, u64, Option<&str>)]) -> RunCalls {
    let calls = calls.iter().map(|(wall, model, input, cost)| Call {
        wall: *wall,
        model: (*model).to_owned(),
        usage: Some([*input, 0, 1, 1]),
        cost: cost.map(|cost| cost.parse().unwrap()),
    });
    RunCalls { id: id.to_owned(), calls: calls.collect(), ..RunCalls::default() }
}

#[test]
fn a_call_that_a_resumed_session_copied_counts_once() {
    let mut summary = SpendSummary::default();
    let key = |call: &Call| call.model.clone();
    let twice = [(5, "a", 10, Some("0.1")), (5, "a", 10, Some("0.1"))];
    summary.add(&run("one", &twice), None, key);
    summary.add(&run("two", &[twice[0], (6, "a", 10, Some("0.2")), (7, "b", 3, None)]), None, key);
    assert_eq!((summary.total.calls, summary.duplicates), (4, 1), "two of one run are two");
    assert_eq!(summary.total.cost.to_decimal(), "0.4");
    assert_eq!(summary.unpriced, BTreeMap::from([("b".to_owned(), 1)]));
    // Without times two calls cannot be distinguished from one.
    summary.add(&run("three", &[(0, "a", 1, None)]), None, key);
    summary.add(&run("four", &[(0, "a", 1, None)]), None, key);
    assert_eq!(summary.rows["a"].calls, 5);
}

#[test]
fn earlier_calls_are_left_out() {
    let mut summary = SpendSummary::default();
    let calls = [(5, "a", 10, Some("0.1")), (6, "a", 10, Some("0.2"))];
    summary.add(&run("one", &calls), Some(6), |_| String::new());
    assert_eq!(summary.total.cost.to_decimal(), "0.2");
}
