//! Tests of `input`.

use super::*;

#[test]
fn a_stream_is_read_up_to_its_limit_and_no_further() {
    assert_eq!(read_at_most(&b"abc"[..], 3).unwrap().as_deref(), Some("abc"));
    assert_eq!(read_at_most(&b"abc"[..], 2).unwrap(), None);
    assert_eq!(read_at_most(io::repeat(0), 1 << 20).unwrap(), None);
    assert!(read_at_most(&b"\xff"[..], 3).is_err());
}
