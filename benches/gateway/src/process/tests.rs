//! Tests of `process`.

use super::*;

#[test]
fn a_name_with_brackets_does_not_shift_the_numbers() {
    let text = "7 (a) b) S 3 7 7 0 -1 4194304 100 0 0 0 21 4 0 0 20 0 1 0 5 6 7";
    assert_eq!(stat_of(text), Some(Stat { parent: 3, ticks: 25 }));
}

#[test]
fn this_process_has_memory() {
    assert!(resident_kib(std::process::id()) > 100);
}
