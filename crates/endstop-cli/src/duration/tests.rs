//! Tests of `duration`.

use super::*;

#[test]
fn lengths_of_time_are_read_as_in_expressions() {
    assert_eq!(span("90s"), Ok(Duration::from_secs(90)));
    assert_eq!(span("1h30m"), Ok(Duration::from_secs(5_400)));
    assert_eq!(span("250ms"), Ok(Duration::from_millis(250)));
    assert_eq!(span("0s"), Ok(Duration::ZERO));
    for wrong in ["", "10", "ten", "-1s", "1x", "5s or 1m"] {
        assert!(span(wrong).is_err(), "{wrong}");
    }
    assert!(span("10").unwrap_err().contains("did you mean `10s`?"));
}
