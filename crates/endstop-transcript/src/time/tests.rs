//! Tests of `time`.

use super::*;

#[test]
fn seconds_become_milliseconds_exactly() {
    let time = |text: &str| serde_json::from_str(text).ok().as_ref().and_then(of_seconds);
    assert_eq!(time("1763510503"), Some(1_763_510_503_000));
    assert_eq!(time("1763510503.2519"), Some(1_763_510_503_251));
    assert_eq!(time("-1"), None);
    assert_eq!(time("1e300"), None);
}
