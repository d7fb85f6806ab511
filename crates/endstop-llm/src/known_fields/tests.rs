//! Tests of `known_fields`.

use serde_json::json;

use crate::Api;

/// The unknown fields of a request.
fn unknown(api: Api, body: &serde_json::Value) -> Vec<String> {
    let body = body.to_string();
    api.dialect().read("/v1beta/models/m:generateContent", body.as_bytes()).unwrap().unknown_fields
}

#[test]
fn a_field_that_no_table_has_is_named() {
    for api in [Api::Chat, Api::Responses, Api::Messages, Api::Gemini] {
        assert_eq!(unknown(api, &json!({ "model": "m", "turbo": 9 })), ["turbo"], "{api:?}");
    }
    let long = "a".repeat(500);
    assert_eq!(unknown(Api::Chat, &json!({ long: 1 })), ["a".repeat(64)]);
    let many: serde_json::Map<_, _> = (0..50).map(|at| (format!("a{at}"), json!(1))).collect();
    assert_eq!(unknown(Api::Chat, &many.into()).len(), 8);
}

#[test]
fn no_field_of_a_table_is_unknown() {
    for (api, keys) in super::KNOWN_FIELDS {
        for key in *keys {
            assert!(super::is_known(*api, key), "{api:?} {key}");
        }
    }
    for field in crate::PRICE_FIELDS {
        assert!(super::is_known(field.api, field.first_key()), "{field:?}");
    }
    let gemini =
        json!({ "system_instruction": {}, "generation_config": {}, "cached_content": null });
    assert!(unknown(Api::Gemini, &gemini).is_empty());
    let chat = json!({ "web_search_options": {}, "plugins": [], "n": 1, "cache_control": {} });
    assert!(unknown(Api::Chat, &chat).is_empty());
}
