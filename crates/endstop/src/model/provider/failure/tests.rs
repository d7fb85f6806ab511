//! Tests of `failure`.

use super::*;

#[test]
fn an_error_inside_a_stream_is_the_providers_own_and_free() {
    let told = serde_json::json!({ "code": 500, "message": "overloaded" });
    let openai = ProviderApi::of("openai");
    let error = of_body(&told, openai);
    assert_eq!((error.status, error.may_be_charged(false)), (Some(500), false));
    let odd = of_body(&serde_json::json!({ "code": 504, "message": "timeout" }), openai);
    assert!(odd.may_be_charged(true), "a timeout is charged in any shape");
    let words = serde_json::json!({ "message": "overloaded" });
    for (api, is_charged) in [(openai, false), (ProviderApi::of("azure"), true), (None, true)] {
        assert_eq!(of_body(&words, api).may_be_charged(false), is_charged, "{api:?}");
    }
    assert!(!of_body(&words, None).may_be_charged(true), "the policy says so");
}

#[test]
fn waits_are_read_as_seconds_milliseconds_and_dates() {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let wait = |name: &'static str, text: &'static str| {
        retry_after(&|asked| (asked == name).then(|| text.to_owned()), now)
    };
    let millis = |millis| Some(Duration::from_millis(millis));
    assert_eq!(wait("retry-after", "20"), millis(20_000));
    assert_eq!(wait("retry-after", " 1.25 "), millis(1_250));
    assert_eq!(wait("retry-after-ms", "1500"), millis(1_500));
    assert_eq!(wait("retry-after-ms", "0.5"), millis(1));
    assert_eq!(wait("retry-after", "Sun, 09 Sep 2001 01:47:10 GMT"), millis(30_000));
    assert_eq!(wait("retry-after", "Sun, 09 Sep 2001 01:00:00 GMT"), millis(0), "it is over");
    assert_eq!(
        wait("retry-after", "99999999999999999999999"),
        millis(MAX_RETRY_AFTER_SECONDS * 1_000)
    );
    for nothing in ["", "soon", "-1", "1e3", "1.2.3", "."] {
        assert_eq!(wait("retry-after", nothing), None, "{nothing}");
    }
}

#[test]
fn texts_are_cut_and_show_no_key() {
    let key = Secret::from("sk-secret");
    assert_eq!(shown("key sk-secret is wrong", Some(&key)), "key [key] is wrong");
    let long = shown(&"é".repeat(2_000), None);
    assert_eq!(long.len(), MAX_ERROR_TEXT_BYTES + 3);
    assert_eq!(shown("x", Some(&Secret::from(""))), "x");
}
