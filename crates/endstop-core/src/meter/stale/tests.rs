//! Tests of `stale`.

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
    let failed: &[_] = &[("a", "no", true)];
    assert_eq!(after(&[failed; 6]).percent(), 0, "five halves");
    assert_eq!(after(&[failed; 7]).percent(), 42);
}
