//! Tests of `through`.

use super::*;

#[test]
fn the_cpu_time_of_a_process_is_read_whatever_its_name_is() {
    let stat = "42 (a) b) c) S 1 42 42 0 -1 4194560 100 0 0 0 12 30 0 0 20 0 9 0 100";
    assert_eq!(ticks(stat), Some(42));
    assert_eq!(ticks("42 (short) S 1"), None);
}

#[test]
fn numbers_of_a_server_are_read() {
    let said = "$300\r\n# Server\r\nprocess_id:4711\r\ncmdstat_fcall:calls=720,usec=3\r\n";
    assert_eq!(number_after(said, "process_id:"), Some(4_711));
    assert_eq!(number_after(said, "cmdstat_fcall:calls="), Some(720));
    assert_eq!(number_after(said, "cmdstat_get:calls="), None);
}

#[test]
fn counts_per_call_have_one_digit() {
    assert_eq!(tenths(7_204, 1_000), "7.2");
    assert_eq!(tenths(7_250, 1_000), "7.3");
    assert_eq!(tenths(0, 0), "0.0");
}
