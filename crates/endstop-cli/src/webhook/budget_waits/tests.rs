//! Which waits for budgets are sent.

use super::*;

#[test]
fn a_run_continues_once_no_call_waits_and_one_has_begun_in_either_order() {
    let (mut waits, run) = (BudgetWaits::default(), RunId::new());
    assert!(!waits.call_begins(&run) && !waits.end(&run), "it did not wait");
    assert!(waits.begin(&run, "me"));
    assert!(!waits.call_begins(&run), "its wait ends after this");
    assert!(waits.end(&run));
    assert!(waits.begin(&run, "me"), "it waits again");
    assert!(!waits.end(&run), "the call may have given up");
    assert!(waits.call_begins(&run) && !waits.call_begins(&run));
}

#[test]
fn a_client_that_tries_again_and_a_run_that_is_over_are_not_sent() {
    let (mut waits, run) = (BudgetWaits::default(), RunId::new());
    assert!(waits.begin(&run, "me"));
    for _ in 0..3 {
        assert!(!waits.end(&run));
        assert!(!waits.begin(&run, "me"));
    }
    assert!(waits.begin(&run, "team"), "it is another budget");
    waits.forget(&run);
    assert!(!waits.call_begins(&run) && !waits.end(&run));
    assert!(waits.begin(&run, "me") && waits.begin(&RunId::new(), "me"));
}
