//! Errors as providers word them.

use super::*;

#[test]
fn errors_of_providers_have_their_kind() {
    for line in include_str!("../../../tests/provider-errors.jsonl").lines() {
        let sample: Value = serde_json::from_str(line).unwrap();
        let status = u16::try_from(sample["status"].as_u64().unwrap()).unwrap();
        let body = sample["body"].to_string();
        let kind = ModelErrorKind::of_response(status, body.as_bytes());
        assert_eq!(Some(kind.name()), sample["kind"].as_str(), "{line}");
        // As a list, like an error in one of Gemini's streams.
        let list = format!("[{body}]");
        assert_eq!(ModelErrorKind::of_response(status, list.as_bytes()), kind, "{line}");
        let by_status = ModelErrorKind::of_status(status);
        assert!(kind == by_status || ModelErrorKind::depends_on_body(status), "{line}");
    }
    for body in ["", "busy", "<html>", "null", "[]", "7"] {
        let kind = ModelErrorKind::of_response(429, body.as_bytes());
        assert_eq!(kind, ModelErrorKind::RateLimited, "{body}");
    }
}

#[test]
fn an_error_inside_a_stream_names_its_status_or_its_kind() {
    let of = |error: Value| {
        let error = ProviderError::of(&error);
        (error.status(), error.kind(error.status()))
    };
    let json = |text: &str| serde_json::from_str(text).unwrap();
    assert_eq!(of(json(r#"{"code":503}"#)), (Some(503), ModelErrorKind::Unavailable));
    assert_eq!(of(json(r#"{"code":7}"#)), (None, ModelErrorKind::Unavailable));
    assert_eq!(of(json(r#"{"type":"rate_limit_error"}"#)), (None, ModelErrorKind::RateLimited));
    assert_eq!(of(json(r#"{"message":"?"}"#)), (None, ModelErrorKind::Unavailable));
}

#[test]
fn waits_are_read_as_seconds_milliseconds_and_dates() {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let wait = |name: &'static str, text: &'static str| {
        retry_after(|asked| (asked == name).then(|| text.to_owned()), now)
    };
    let millis = |millis| Some(Duration::from_millis(millis));
    assert_eq!(wait("retry-after", "20"), millis(20_000));
    assert_eq!(wait("retry-after", " 1.25 "), millis(1_250));
    assert_eq!(wait("retry-after-ms", "1500"), millis(1_500));
    assert_eq!(wait("retry-after-ms", "0.5"), millis(1));
    assert_eq!(wait("retry-after", "Sun, 09 Sep 2001 01:47:10 GMT"), millis(30_000));
    assert_eq!(wait("retry-after", "Sun, 09 Sep 2001 01:00:00 GMT"), millis(0), "it is over");
    assert_eq!(wait("retry-after", "99999999999999999999999"), Some(MAX_RETRY_AFTER));
    for nothing in ["", "soon", "-1", "1e3", "1.2.3", "."] {
        assert_eq!(wait("retry-after", nothing), None, "{nothing}");
    }
}

#[test]
fn gemini_says_in_the_body_how_long_to_wait() {
    let body = serde_json::json!({ "error": { "details": [{}, { "retryDelay": "34s" }] } });
    assert_eq!(ProviderError::of(&body).retry_after(), Some(Duration::from_secs(34)));
    assert_eq!(ProviderError::of(&Value::Null).retry_after(), None);
}
