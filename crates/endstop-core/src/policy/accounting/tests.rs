//! Tests of `accounting`.

use super::*;

fn names(names: &[&str]) -> Accounting {
    let allow_unmetered = names.iter().map(|name| String::from(*name)).collect();
    Accounting { allow_unmetered, ..Accounting::default() }
}

#[test]
fn a_narrower_policy_allows_nothing_that_the_first_does_not() {
    let merged = |one: &[&str], other: &[&str]| names(one).merge(&names(other)).allow_unmetered;
    assert_eq!(merged(&[], &["all"]), [""; 0]);
    assert_eq!(merged(&["a", "b"], &["b", "c"]), ["b"]);
    assert_eq!(merged(&["all"], &["b"]), ["b"]);
    assert_eq!(merged(&["a"], &["all"]), ["a"]);
    assert_eq!(merged(&["a"], &[]), ["a"]);
}

#[test]
fn the_larger_least_output_of_two_policies_holds() {
    let least = |min_output_tokens| Accounting { min_output_tokens, ..Accounting::default() };
    for (one, other, both) in [(Some(1), Some(64), 64), (Some(64), Some(1), 64), (None, Some(9), 9)]
    {
        assert_eq!(least(one).merge(&least(other)), least(Some(both)));
    }
}

#[test]
fn a_narrower_policy_holds_what_the_first_estimates() {
    let usage = |on_unknown_usage| Accounting { on_unknown_usage, ..Accounting::default() };
    let (hold, estimate) = (Some(OnUnknownUsage::Hold), Some(OnUnknownUsage::Estimate));
    assert_eq!(usage(estimate).merge(&usage(hold)).on_unknown_usage, hold);
    assert_eq!(usage(hold).merge(&usage(estimate)).on_unknown_usage, hold);
    assert_eq!(usage(None).merge(&usage(estimate)).unknown_usage(), OnUnknownUsage::Hold);
}

#[test]
fn a_narrower_policy_charges_errors_that_the_first_does_not() {
    let errors = |on_server_error| Accounting { on_server_error, ..Accounting::default() };
    let (auto, free) = (Some(OnServerError::Auto), Some(OnServerError::Free));
    assert_eq!(errors(free).merge(&errors(auto)).on_server_error, auto);
    assert_eq!(errors(auto).merge(&errors(free)).on_server_error, auto);
    assert_eq!(errors(None).merge(&errors(free)).server_error(), OnServerError::Auto);
}
