//! Amounts in the bodies of commands, which commands do not need their client, and the token.

use super::servers::tightens;
use super::*;

#[test]
fn an_amount_is_a_number_or_a_text_and_exact_in_both() {
    for (body, dollars) in [
        (r#"{"limit": 100}"#, "100"),
        (r#"{"limit": "100.00"}"#, "100"),
        (r#"{"limit": 0.1}"#, "0.1"),
        // A float would lose the last digit.
        (r#"{"limit": 1234567.000000000001}"#, "1234567.000000000001"),
    ] {
        let limit = parsed(body.as_bytes()).unwrap().limit.unwrap().dollars().unwrap();
        assert_eq!(limit.to_decimal(), dollars, "{body}");
    }
    assert!(parsed(br#"{"limit": null}"#).unwrap().limit.is_none());
    for body in [r#"{"limit": true}"#, r#"{"limit": -1}"#, r#"{"limit": [1]}"#, r#"{"limit": ""}"#]
    {
        let limit = parsed(body.as_bytes()).unwrap().limit.unwrap().dollars();
        assert!(limit.is_err(), "{body}");
    }
}

#[test]
fn a_blank_name_is_that_of_nobody_and_the_control_api_acts() {
    for (body, by, reason) in [
        (r#"{"by": "ann", "message": "lunch"}"#, "ann", "lunch (killed by ann)"),
        (r#"{"by": "", "message": "lunch"}"#, SOMEONE, "lunch"),
        (r#"{"by": " "}"#, SOMEONE, NO_MESSAGE),
        ("{}", SOMEONE, NO_MESSAGE),
    ] {
        let command = parsed(body.as_bytes()).unwrap();
        assert_eq!((command.by(), command.reason("killed").as_str()), (by, reason), "{body}");
    }
}

#[test]
fn limits_are_raised_by_numbers_and_by_texts() {
    let raises = |body: &str| parsed(body.as_bytes()).unwrap().raises();
    let numbers = raises(r#"{"usd": 1, "tokens": 500, "steps": 2}"#).unwrap();
    assert_eq!(numbers, raises(r#"{"usd": "1.00", "tokens": "500", "steps": "2"}"#).unwrap());
    assert_eq!(numbers[1..], [(GaugeId::Tokens, 500), (GaugeId::Steps, 2)]);
    let error = raises(r#"{"tokens": 1.5}"#).unwrap_err().to_string();
    assert!(error.starts_with("`tokens` is not a whole number: "), "{error}");
    let error = raises(r#"{"usd": "much"}"#).unwrap_err().to_string();
    assert!(error.starts_with("`usd` is not an amount: "), "{error}");
}

#[test]
fn only_commands_that_stop_or_hold_runs_are_obeyed_without_their_client() {
    for path in [
        KILL_PATH,
        "/endstop/v1/runs/a/kill",
        "/endstop/v1/runs/a/cancel",
        "/endstop/v1/runs/a/pause",
        "/endstop/v1/runs/a/pause/",
    ] {
        assert!(tightens(path), "{path}");
    }
    for path in [
        TOTAL_PATH,
        "/endstop/v1/runs",
        "/endstop/v1/runs/kill",
        "/endstop/v1/runs/a/resume",
        "/endstop/v1/runs/a/approve",
        "/endstop/v1/runs/a/signal",
        "/endstop/v1/runs/a/x/kill",
        "/v1/kill",
    ] {
        assert!(!tightens(path), "{path}");
    }
}

#[test]
fn a_request_has_the_token_only_if_it_sends_one() {
    let sending = |value: &'static str| {
        HeaderMap::from_iter([(http::header::AUTHORIZATION, HeaderValue::from_static(value))])
    };
    let (none, empty, token) = (None, Key::new(""), Key::new("secret"));
    assert!(has_token(none, &HeaderMap::new()));
    assert!(has_token(Some(&token), &sending("Bearer secret")));
    for wrong in ["Bearer other", "Bearer ", "Basic secret", "secret"] {
        assert!(!has_token(Some(&token), &sending(wrong)), "{wrong}");
    }
    for token in [&token, &empty] {
        assert!(!has_token(Some(token), &HeaderMap::new()), "a missing token is none");
    }
}
