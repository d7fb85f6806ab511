//! Tests of `key_desk`.

use super::*;

#[test]
fn an_amount_of_a_key_is_a_number_or_a_text_and_exact_in_both() {
    let usd = |body: &str| serde_json::from_str::<NewKey>(body).unwrap().usd;
    assert_eq!(usd("{}"), None);
    assert_eq!(usd(r#"{"usd": null}"#), None);
    assert_eq!(usd(r#"{"usd": "20.00"}"#).as_deref(), Some("20.00"));
    assert_eq!(usd(r#"{"usd": 1234567.000000000001}"#).as_deref(), Some("1234567.000000000001"));
    let settings: KeySettings = serde_json::from_str(r#"{"usd": "none"}"#).unwrap();
    assert_eq!(settings.usd.as_deref(), Some("none"));
}

#[test]
fn a_field_that_is_not_known_is_an_error_because_it_may_be_a_limit() {
    assert!(serde_json::from_str::<NewKey>(r#"{"name": "a", "limit": "$5"}"#).is_err());
    assert!(serde_json::from_str::<KeySettings>(r#"{"model": ["gpt-*"]}"#).is_err());
    assert!(serde_json::from_str::<KeyReason>(r#"{"why": "left"}"#).is_err());
}

#[test]
fn a_request_is_read_as_it_was_written_and_a_shown_key_is_in_no_debug_output() {
    let new = NewKey {
        name: "ci".to_owned(),
        budgets: vec!["$5 per day".to_owned()],
        usd: Some("20".to_owned()),
        runs: RunsOfKey::One,
        expires: Some("90d".to_owned()),
        ..NewKey::default()
    };
    let text = serde_json::to_string(&new).unwrap();
    assert!(text.contains(r#""runs":"one""#), "{text}");
    assert_eq!(serde_json::from_str::<NewKey>(&text).unwrap(), new);
    let shown = ShownKey { key: "endstop_secret".to_owned(), issued: KeyRecord::default() };
    assert!(!format!("{shown:?}").contains("secret"));
}
