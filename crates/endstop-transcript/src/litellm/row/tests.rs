//! Tests of `row`.

use super::*;

#[test]
fn times_are_read_as_they_are_stored() {
    let expected = Some(1_793_534_400_250);
    for text in [
        "2026-11-01T12:00:00.250Z",
        "2026-11-01T12:00:00.250",
        "2026-11-01 12:00:00.25+00:00",
        "2026-11-01 13:00:00.250+01",
    ] {
        assert_eq!(time_of(Some(&json!(text))), expected, "{text}");
    }
    assert_eq!(time_of(Some(&json!(1_793_534_400.25))), expected);
    assert_eq!(time_of(Some(&json!("soon"))), None);
    assert_eq!(time_of(Some(&json!(-1))), None);
}
