//! Tests of `groups`.

use super::*;

#[test]
fn a_run_is_let_go_at_its_last_record() {
    let records = ["a", "b", "a", "c", "b"];
    let mut ends = RunEnds::default();
    records.iter().for_each(|run| ends.note(run));
    let mut open = OpenRuns::new(10);
    let mut closed = Vec::new();
    for (index, run) in records.iter().enumerate() {
        assert!(open.add(run, index, 2));
        if ends.is_last(run) {
            closed.push((*run, open.close(run)));
        }
    }
    assert_eq!(closed, [("a", vec![0, 2]), ("c", vec![3]), ("b", vec![1, 4])]);
    assert_eq!(open.bytes, 0);
    assert!(!open.add("d", 5, 11));
}
