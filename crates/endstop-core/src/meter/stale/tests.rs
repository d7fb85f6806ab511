//! Tests of `stale`.

use alloc::vec::Vec;

use super::*;

const OK: &str = "The file /a/b/c.go has been updated successfully, as the task requires.";

/// Steps of results: the arguments, the result, whether it failed.
fn after(steps: &[&[(&str, &str, bool)]]) -> Stale {
    let mut stale = Stale::default();
    for step in steps {
        for (arguments, result, failed) in *step {
            stale.result("tool", arguments, result, *failed);
        }
        stale.end_step();
    }
    stale
}

#[test]
fn a_result_is_known_again_with_its_call_and_a_failure_without() {
    let edits: [&[_]; 4] =
        [&[("a", OK, false)], &[("b", OK, false)], &[("c", OK, false)], &[("d", OK, false)]];
    assert_eq!(after(&edits).stale_halves, 0, "an acknowledgement, however long");
    assert_eq!(after(&[edits[0]; 4]).stale_halves, 6);
    let errors: [&[_]; 4] =
        [&[("a", "no", true)], &[("b", "no", true)], &[("c", "no", true)], &[("d", "no", true)]];
    assert_eq!(after(&errors).stale_halves, 3, "failures count half");
    assert_eq!(after(&[&[("a", "no", false)], errors[0]]).stale_halves, 0);
}

#[test]
fn a_share_is_of_the_steps_that_got_results() {
    let (news, again): (&[_], &[_]) = (&[("b", "2", false)], &[("a", "1", false)]);
    assert_eq!(after(&[again, again, again]).percent(), 0, "two are too few");
    let twice = [again, again, again, news, again, again];
    assert_eq!(after(&twice).stale_halves, 8);
    assert_eq!(after(&twice).percent(), 0, "two in a row since the news");
    assert_eq!(after(&[&twice[..], &[again]].concat()).percent(), 71);
    assert_eq!(after(&[&twice[..], &[&[], again]].concat()).percent(), 71);
    let mixed: &[_] = &[("a", "1", false), ("c", "3", false)];
    assert_eq!(after(&[&twice[..], &[mixed, again, again, again]].concat()).percent(), 70);
    let fails = |n: usize| {
        let calls = ["a", "b", "c", "d", "e", "f", "g"];
        let steps: Vec<[_; 1]> = calls.iter().take(n).map(|call| [(*call, "no", true)]).collect();
        after(&steps.iter().map(<[_; 1]>::as_slice).collect::<Vec<_>>()).percent()
    };
    assert_eq!(fails(6), 0, "five halves");
    assert_eq!(fails(7), 42);
}

#[test]
fn one_call_with_the_only_text_that_was_seen_is_left_to_repeats() {
    let (same, other): (&[_], &[_]) = (&[("a", "1", false)], &[("b", "1", false)]);
    assert_eq!(after(&[same; 9]).percent(), 0);
    assert_eq!(after(&[&[other][..], &[same; 9]].concat()).percent(), 0, "another call, one text");
    let failed: &[_] = &[("a", "no", true)];
    assert_eq!(after(&[failed; 9]).percent(), 0);
    let varied: &[_] = &[("b", "2", false)];
    assert_eq!(after(&[&[varied][..], &[same; 4]].concat()).percent(), 60, "two texts");
    let in_turn = [same, other, same, other, same];
    assert_eq!(after(&in_turn).percent(), 60, "two calls in turn");
    let both: &[_] = &[("a", "1", false), ("b", "1", false)];
    assert_eq!(after(&[both; 4]).percent(), 75, "two calls in each step");
}

/// A text counts when its step is over: in an open step, one that is new must not make the steps before it stale.
#[test]
fn another_text_counts_once_its_step_is_over() {
    let same: &[_] = &[("a", "1", false)];
    let mut stale = after(&[same; 4]);
    stale.result("tool", "a", "2", false);
    assert_eq!(stale.percent(), 0);
    stale.end_step();
    assert_eq!(stale.percent(), 0, "it is new");
}
