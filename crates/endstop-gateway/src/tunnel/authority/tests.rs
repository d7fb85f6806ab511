//! Tests of `authority`.

use super::*;

#[test]
fn every_host_of_a_pattern_is_in_its_domain() {
    for (pattern, expected) in [
        ("api.openai.com", "api.openai.com"),
        ("*.api.openai.com", "api.openai.com"),
        ("*-aiplatform.googleapis.com", "googleapis.com"),
        ("aiplatform.*.rep.googleapis.com", "rep.googleapis.com"),
        ("bedrock-runtime.*.amazonaws.com", "amazonaws.com"),
    ] {
        assert_eq!(domain(pattern), expected);
    }
    for (pattern, _) in hosts::model_hosts() {
        assert!(domain(pattern).contains('.'), "{pattern}");
    }
}

#[test]
fn its_key_is_shown_nowhere() {
    let authority = Authority::new().unwrap();
    assert_eq!(format!("{authority:?}"), "Authority");
    assert!(authority.pem().starts_with("-----BEGIN CERTIFICATE-----"));
    assert!(!authority.pem().contains("PRIVATE"));
}
