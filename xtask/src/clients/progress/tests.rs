//! Tests of `progress`.

use super::*;

#[test]
fn each_row_is_counted_once_in_the_total() {
    let mut progress = Progress::new(9);
    progress.begins("a");
    progress.ends("a", "ok a", None, "");
    progress.ends("a", "FAILED a", Some("4 calls, not 3"), "output");
    progress.is_not_run("b", 4, &NotRun::Skipped("`pip` failed\nat length".to_owned()));
    progress.is_not_run("c", 3, &NotRun::Broken("it names no packages".to_owned()));
    assert_eq!(
        progress.total(),
        "failed: a: 4 calls, not 3\nfailed: c: it names no packages\nnot run: b: `pip` failed\n\
         total: 1 passed, 2 failed, 6 not run"
    );
    assert!(progress.stamp().ends_with(", 9/9]"), "{}", progress.stamp());
    assert_eq!(progress.result(), Err("2 of 9 rows failed".to_owned()));
}

#[test]
fn rows_that_cannot_be_had_are_no_failure() {
    let mut progress = Progress::new(2);
    progress.ends("a", "ok a", None, "");
    progress.is_not_run("b", 1, &NotRun::Skipped("no network".to_owned()));
    assert_eq!(progress.result(), Ok(()));
    assert_eq!(progress.total(), "not run: b: no network\ntotal: 1 passed, 0 failed, 1 not run");
}

#[test]
fn times_are_told_in_two_units() {
    let told = |seconds| in_words(Duration::from_secs(seconds));
    assert_eq!([told(0), told(59), told(725), told(3_720)], ["0s", "59s", "12m 5s", "1h 2m"]);
}
