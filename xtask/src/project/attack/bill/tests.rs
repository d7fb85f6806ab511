//! Tests of `bill`.

use super::*;

fn arrival(body: &str) -> Arrival {
    Arrival { path: "/v1/messages".to_owned(), body: body.to_owned() }
}

#[test]
fn the_dearer_reading_of_a_cap_counts() {
    assert_eq!(arrival(r#"{"max_tokens":5,"MAX_TOKENS": 70}"#).cap(), 70);
    assert_eq!(arrival(r#"{"max_tokens":5,"max_tokens":4}"#).cap(), 5);
}

#[test]
fn dense_text_is_more_tokens_than_words_of_the_same_length() {
    assert_eq!(arrival("abcdabcd ab").tokens(), 3);
    assert_eq!(arrival("QQQQQQQQ QQ").tokens(), 10);
}

#[test]
fn a_bill_has_tokens_fees_and_the_surcharge_of_a_place() {
    let body = r#"{"model":"claude-sonnet-4-5"}"#;
    let work = Work { input: 1_000_000, ..Work::default() };
    assert_eq!(arrival(body).bill(&work), 6 * DOLLAR);
    let work = Work { output: 100_000, fees: DOLLAR, surcharge: 10, ..Work::default() };
    assert_eq!(arrival(body).bill(&work), DOLLAR * 265 / 100);
}
