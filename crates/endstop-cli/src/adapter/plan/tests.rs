//! Tests of `plan`.

use serde_json::json;

use super::*;

/// `{"https://api.openai.com/auth":{"chatgpt_plan_type":"plus"}}`
const CLAIMS: &str =
    "eyJodHRwczovL2FwaS5vcGVuYWkuY29tL2F1dGgiOnsiY2hhdGdwdF9wbGFuX3R5cGUiOiJwbHVzIn19";

#[test]
fn the_plan_of_a_login_is_read() {
    let token = format!("e30.{CLAIMS}.c2VjcmV0");
    let login = json!({ "tokens": { "id_token": token, "access_token": "secret" } });
    assert_eq!(of_chatgpt(&login).as_deref(), Some("plus"));
    let login = json!({ "claudeAiOauth": { "accessToken": "secret", "subscriptionType": "max" } });
    assert_eq!(of_claude(&login).as_deref(), Some("max"));
}

#[test]
fn what_is_no_plan_is_not_shown() {
    for token in ["", "a", "a.b", "a.%.c", "e30.e30.e30"] {
        assert_eq!(of_chatgpt(&json!({ "tokens": { "id_token": token } })), None, "{token}");
    }
    assert_eq!(of_chatgpt(&json!({})), None);
    for plan in [json!(null), json!(""), json!("a b"), json!("x".repeat(25)), json!(1)] {
        assert_eq!(of_claude(&json!({ "claudeAiOauth": { "subscriptionType": plan } })), None);
    }
    assert_eq!(of_claude(&json!({ "claudeAiOauth": {} })), None);
}

#[test]
fn base64_of_urls_is_decoded() {
    assert_eq!(decoded("YQ"), Some(b"a".to_vec()));
    assert_eq!(decoded("-_-_"), Some(vec![0xfb, 0xff, 0xbf]));
    assert_eq!((decoded(""), decoded("YQ==")), (Some(Vec::new()), None));
}
