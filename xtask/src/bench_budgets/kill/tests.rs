//! Tests of `kill`.

use super::*;

#[test]
fn only_what_was_sent_before_may_reach_the_model_later() {
    let then = CallCounts { begun: 10, sent: 10, received: 8 };
    assert_eq!(then.admitted_until(then), 0);
    assert_eq!(then.admitted_until(CallCounts { received: 10, ..then }), 0, "it was on its way");
    assert_eq!(then.admitted_until(CallCounts { received: 11, ..then }), 1);
    let begun = CallCounts { begun: 12, sent: 12, received: 8 };
    assert_eq!(then.admitted_until(begun), 2, "even if the model has not had it yet");
    let sent = CallCounts { sent: 11, ..then };
    assert_eq!(then.admitted_until(sent), 0, "an aborted call is counted before it would be sent");
}

#[test]
fn every_target_is_killed_in_both_forms() {
    for tries in [QUICK_TRIES, TRIES] {
        let count = |target| (0..tries).filter(|at| Target::of(*at, tries) == target).count();
        let counts = [Target::Key, Target::Budget, Target::Run, Target::All].map(count);
        assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
        assert_eq!(counts.iter().sum::<usize>(), tries);
        assert_eq!(Target::of(EACH_ALL - 1, tries), Target::All, "gateways end hard after it");
    }
}
