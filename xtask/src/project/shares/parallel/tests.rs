//! Tests of `parallel`.

use super::*;

#[test]
fn eight_agents_with_large_caps_all_get_their_answers_within_the_limit() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let it = runtime.block_on(measure(Limited::ByShares, Answers::Short, true)).unwrap();
    assert_eq!((it.calls, it.cut), (AGENTS * CALLS, 0), "{it:?}");
    assert!(it.billed <= 2 * DOLLAR && it.billed <= it.ledger, "{it:?}");
}

#[test]
fn an_answer_is_cut_where_its_cap_is_lower() {
    let body = r#"{"max_tokens":500}"#.to_owned();
    let served = serve(&Arrival { path: "/v1/messages".to_owned(), body }, ANSWER);
    assert_eq!(served.work.output, 500);
    let Sent::Slowly(_, _, rest) = served.sent else { panic!("it is not sent slowly") };
    assert!(String::from_utf8(rest).unwrap().contains("max_tokens"));
}
