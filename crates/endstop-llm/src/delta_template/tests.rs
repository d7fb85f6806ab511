//! Tests that an event is read the same whether or not the one before was like it.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::delta_template::DeltaTemplate;
use crate::json::Raw;
use crate::sse::SseEvent;
use crate::tests::dialect;
use crate::{Api, CallRequest, CallResponse, EventContent};

/// Words as models write them, and as they do not.
fn words() -> impl Strategy<Value = String> {
    prop_oneof![4 => "[a-z ]{0,12}", 1 => ".{0,6}", 1 => "[\"\\\\\n\u{1}é]{1,4}"]
}

fn chat() -> impl Strategy<Value = Value> {
    let other = prop_oneof![
        8 => Just(json!({})),
        1 => Just(json!({"role": "assistant", "refusal": null})),
        1 => Just(json!({"refusal": "no"})),
        1 => Just(json!({"reasoning": "hm"})),
        1 => Just(json!({"tool_calls": [{"index": 0, "id": "1", "function": {"name": "f", "arguments": "{"}}]})),
        1 => Just(json!({"function_call": {"arguments": "x"}})),
    ];
    let around = prop_oneof![
        8 => Just(json!({"id": "c", "model": "m", "usage": null})),
        1 => Just(json!({"id": "d", "service_tier": "flex"})),
        1 => Just(json!({"service_tier": "flex", "usage": {"prompt_tokens": 3, "completion_tokens": 4}})),
        1 => Just(json!({"service_tier": "default", "usage": {"prompt_tokens": 3, "completion_tokens": 4}})),
        1 => Just(json!({"x_groq": {"usage": {"prompt_tokens": 3, "completion_tokens": 4}}})),
        1 => Just(json!({"error": "e"})),
    ];
    let finish =
        prop_oneof![8 => Just(Value::Null), 1 => Just(json!("stop")), 1 => Just(json!(""))];
    let index = prop_oneof![6 => Just(json!(0)), 1 => Just(json!(1)), 1 => Just(json!("x"))];
    (words(), other, around, finish, index, 0_usize..12).prop_map(
        |(words, mut delta, mut chunk, finish, index, kind)| {
            delta["content"] = if kind == 0 { json!([{"text": words}]) } else { json!(words) };
            let choice = json!({"delta": delta, "finish_reason": finish, "index": index});
            chunk["choices"] = match kind {
                1 => json!([choice, choice]),
                2 => json!([]),
                _ => json!([choice]),
            };
            chunk
        },
    )
}

fn messages() -> impl Strategy<Value = Value> {
    let kind = prop_oneof![
        8 => Just("content_block_delta"),
        1 => Just("content_block_start"),
        1 => Just("content_block_stop"),
        1 => Just("message_delta"),
        1 => Just("error"),
    ];
    let other = prop_oneof![
        8 => Just(json!({})),
        1 => Just(json!({"thinking": "hm"})),
        1 => Just(json!({"partial_json": "{"})),
        1 => Just(json!({"stop_reason": "end_turn"})),
    ];
    let block = json!({"type": "tool_use", "id": "1", "name": "f", "input": {}});
    (kind, other, words(), 0_u64..2).prop_map(move |(kind, mut delta, words, index)| {
        delta["text"] = json!(words);
        json!({"type": kind, "index": index, "delta": delta, "content_block": block, "error": "e"})
    })
}

/// The contents of a stream, in all and event by event.
fn read(api: Api, events: &[String]) -> (Vec<EventContent>, CallResponse, bool, Vec<u8>) {
    let mut reader = dialect(api).stream(&CallRequest::default());
    let brought = events.iter().map(|data| reader.event(&SseEvent { name: "", data })).collect();
    let (response, is_between) = (reader.response().clone(), reader.is_between_blocks());
    (brought, response, is_between, reader.end(&crate::tests::stop()))
}

/// Events before which ever more space stands are never like the one before.
fn check(api: Api, events: &[Value]) {
    let plain: Vec<String> = events.iter().map(Value::to_string).collect();
    let apart: Vec<String> =
        plain.iter().enumerate().map(|(at, data)| format!("{}{data}", " ".repeat(at))).collect();
    assert_eq!(read(api, &plain), read(api, &apart));
}

#[test]
fn only_the_words_may_differ() {
    let data = r#"{"a":1,"text":"one","b":2}"#;
    let mut around = DeltaTemplate::default();
    assert_eq!(around.words(data), None);
    around.keep(data, Raw::of(&data[14..19]));
    for (data, words) in [
        (data, Some("one")),
        (r#"{"a":1,"text":"","b":2}"#, Some("")),
        (r#"{"a":1,"text":"é","b":2}"#, Some("é")),
        (r#"{"a":2,"text":"one","b":2}"#, None),
        (r#"{"a":1,"text":"one","b":3}"#, None),
        (r#"{"a":1,"text":"o\ne","b":2}"#, None),
        (r#"{"a":1,"text":"one","text":"two","b":2}"#, None),
        (r#"{"a":1,"text":"b":2}"#, None),
        (r#"{"a":1,"text":","b":2}"#, None),
        ("{\"a\":1,\"text\":\"\u{1}\",\"b\":2}", None),
        ("", None),
    ] {
        assert_eq!(around.words(data), words, "{data}");
    }
    for other in [Raw::of("3"), Raw::of("\"elsewhere\""), Raw::of(&data[5..6]), Raw::default()] {
        around.keep(data, other);
        assert_eq!(around.words(data), None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn chat_says_the_same_however_it_is_read(events in prop::collection::vec(chat(), 0..16)) {
        check(Api::Chat, &events);
    }

    #[test]
    fn messages_say_the_same_however_they_are_read(events in prop::collection::vec(messages(), 0..16)) {
        check(Api::Messages, &events);
    }

    #[test]
    fn any_events_say_the_same_however_they_are_read(
        event in crate::garbage::json(),
        words in prop::collection::vec(words(), 1..4),
    ) {
        // The same event again and again, with other words wherever it has a word.
        let text = event.to_string();
        let events: Vec<Value> = words
            .iter()
            .filter_map(|words| {
                let words = Value::from(words.as_str()).to_string();
                serde_json::from_str(&text.replace("\"text\":\"x\"", &format!("\"text\":{words}"))).ok()
            })
            .collect();
        check(Api::Chat, &events);
        check(Api::Messages, &events);
    }
}
