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
fn texts_are_cut_and_show_no_key() {
    let key = Secret::from("sk-secret");
    assert_eq!(shown("key sk-secret is wrong", Some(&key)), "key [key] is wrong");
    let long = shown(&"é".repeat(2_000), None);
    assert_eq!(long.len(), MAX_ERROR_TEXT_BYTES + 3);
    assert_eq!(shown("x", Some(&Secret::from(""))), "x");
}
