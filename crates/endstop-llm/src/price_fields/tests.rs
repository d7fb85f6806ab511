//! A test for each field that changes the price.

use serde_json::{Value, json};

use super::{Attempts, FieldRule, PRICE_FIELDS, PriceField, with_underscores};
use crate::ambiguous_keys::DecidingKey;
use crate::{Api, CallRequest, ReadError, TOOL_KINDS, Thread, chat, gemini, messages, responses};

const PATH: &str = "/v1beta/models/m:generateContent";

fn read(api: Api, body: &Value) -> Result<CallRequest, ReadError> {
    api.dialect().read(PATH, body.to_string().as_bytes())
}

/// A request with a value where a path leads.
fn with(path: &str, value: &Value) -> Value {
    path.rsplit('.').fold(value.clone(), |inner, key| match key.strip_suffix("[]") {
        Some(key) => json!({ key: [inner] }),
        None => json!({ key: inner }),
    })
}

/// A request of a row's API with this value in its field.
fn request(field: &PriceField, value: &Value) -> CallRequest {
    read(field.api, &with(field.path, value)).unwrap()
}

/// A request of the API that says nothing.
fn plain(api: Api) -> CallRequest {
    read(api, &json!({})).unwrap()
}

/// Values that change the price by a row, each with the request that they make of one that says nothing.
fn changes(field: &PriceField) -> Vec<(Value, CallRequest)> {
    let plain = || plain(field.api);
    let name = field.refusal().unwrap_or_default();
    let refused = |value: Value, name: &str| {
        (value, CallRequest { unbounded: vec![name.to_owned()], ..plain() })
    };
    let continues = |value: Value, id: Option<&str>| {
        let continues = id.map(str::to_owned);
        (value, CallRequest { thread: Thread::Continues, continues, ..plain() })
    };
    match field.rule {
        FieldRule::OutputCap => {
            vec![(json!(900), CallRequest { output_cap: Some(900), ..plain() })]
        }
        FieldRule::Choices => vec![(json!(8), CallRequest { choices: 8, ..plain() })],
        FieldRule::Modalities => {
            let mut asked = plain();
            (asked.outputs.audio, asked.outputs.image) = (true, false);
            let mut unknown = plain();
            (unknown.outputs.image, unknown.unbounded) = (false, vec![format!("{name}: video")]);
            vec![(json!(["text", "AUDIO"]), asked), (json!(["text", "video"]), unknown)]
        }
        FieldRule::Tier(known) => changes_by_word(field, known, "ultrafast"),
        FieldRule::Speed(known) => changes_by_word(field, known, "warp"),
        FieldRule::Fallbacks(billed) => changes_by_fallbacks(field, billed),
        FieldRule::CacheLife(_) => vec![
            (json!("1h"), CallRequest { may_write_1h: true, ..plain() }),
            refused(json!("24h"), &format!("{name}: 24h")),
        ],
        FieldRule::Changes { summary, .. } => {
            let asked = CallRequest { more_reads: 1, choices: 2, ..plain() };
            let unknown = refused(json!("rewrite_20270101"), &format!("{name}: rewrite_20270101"));
            vec![(json!(format!("{summary}_20260112")), asked), unknown]
        }
        FieldRule::Summary => {
            let asked = CallRequest { more_reads: 1, choices: 2, ..plain() };
            vec![(json!({ "type": "request" }), asked)]
        }
        FieldRule::StoredResponse => vec![continues(json!("resp_1"), Some("resp_1"))],
        FieldRule::StoredInput => vec![continues(json!("kept_1"), None)],
        FieldRule::StoredThread => {
            let asked = CallRequest { thread: Thread::CanResend, ..plain() };
            let by_id = json!({ "previous_message_id": "msg_1" });
            vec![(json!({ "type": "continue" }), asked.clone()), (by_id, asked)]
        }
        FieldRule::Background => {
            let asked = CallRequest { is_background: true, ..plain() };
            vec![(json!(true), asked.clone()), (json!("yes"), asked)]
        }
        FieldRule::Only { name, .. } => vec![
            refused(json!("elsewhere"), &format!("{name}: elsewhere")),
            refused(json!(5), &format!("{name}: 5")),
        ],
        FieldRule::Refused(name) => vec![refused(json!([{ "id": "a" }]), name)],
        FieldRule::Free => Vec::new(),
    }
}

/// The same, for each known word of a row and for an unknown one.
fn changes_by_word(field: &PriceField, known: &[&str], unknown: &str) -> Vec<(Value, CallRequest)> {
    let name = field.refusal().unwrap_or_default();
    let asked = |word: Option<&str>, unbounded: &[&str]| {
        let mut asked = plain(field.api);
        asked.unbounded = unbounded.iter().map(|what| format!("{name}: {what}")).collect();
        match field.rule {
            FieldRule::Speed(_) => asked.context.speed = word.map(str::to_owned),
            _ => asked.context.service_tier = word.map(str::to_owned),
        }
        asked
    };
    let known = known.iter().map(|word| (json!(word.to_ascii_uppercase()), asked(Some(word), &[])));
    let others =
        [(json!(unknown), asked(Some(unknown), &[unknown])), (json!(3), asked(None, &["3"]))];
    known.chain(others).collect()
}

/// The same, for models to fall back on.
fn changes_by_fallbacks(field: &PriceField, billed: Attempts) -> Vec<(Value, CallRequest)> {
    let name = field.refusal().unwrap_or_default();
    let asked = |fallbacks: &[&str], refused: Option<&str>| {
        let fallbacks: Vec<_> = fallbacks.iter().map(|&model| model.to_owned()).collect();
        let more = u64::try_from(fallbacks.len()).unwrap();
        let more_reads = if billed == Attempts::All { more } else { 0 };
        let unbounded = refused.map(|what| format!("{name}: {what}")).into_iter().collect();
        CallRequest {
            fallbacks,
            more_reads,
            choices: 1 + more_reads,
            unbounded,
            ..plain(field.api)
        }
    };
    vec![
        (json!(["a", { "model": "b" }, 3]), asked(&["a", "b", ""], None)),
        (json!([{ "model": "a", "max_tokens": 90_000 }]), asked(&["a"], Some("max_tokens"))),
        (json!("default"), asked(&[], Some("default"))),
    ]
}

/// Values that change nothing by a row.
fn harmless(rule: FieldRule) -> Vec<Value> {
    match rule {
        FieldRule::Free => vec![json!(true), json!(false), json!("a")],
        FieldRule::Only { values, .. } => values.iter().map(|value| json!(value)).collect(),
        FieldRule::Refused(_) => vec![json!([]), Value::Null],
        FieldRule::Background => vec![json!(false), Value::Null],
        FieldRule::StoredResponse | FieldRule::StoredInput => vec![Value::Null],
        FieldRule::StoredThread => vec![json!({ "type": "new" }), Value::Null],
        FieldRule::Changes { free, .. } => {
            free.iter().map(|begin| json!(format!("{begin}20250919"))).collect()
        }
        FieldRule::CacheLife(_) => vec![json!("5m"), Value::Null],
        FieldRule::Choices => vec![json!(1), Value::Null],
        FieldRule::Modalities => vec![json!([]), Value::Null],
        FieldRule::OutputCap | FieldRule::Tier(_) | FieldRule::Speed(_) => vec![Value::Null],
        FieldRule::Fallbacks(_) | FieldRule::Summary => vec![Value::Null],
    }
}

/// Checks that two requests are the same except for their texts.
fn assert_same(mut read: CallRequest, mut expected: CallRequest, what: &str) {
    for it in [&mut read, &mut expected] {
        it.fixed.clear();
        it.root = None;
        it.provider_tools = crate::ProviderTools::default();
    }
    assert_eq!(read, expected, "{what}");
}

#[test]
fn each_field_means_what_its_row_says() {
    for field in PRICE_FIELDS {
        let changes = changes(field);
        assert_eq!(changes.is_empty(), field.rule == FieldRule::Free, "{field:?}");
        for (value, expected) in changes {
            let what = format!("{field:?} {value}");
            assert_same(request(field, &value), expected.clone(), &what);
            if field.api == Api::Gemini {
                let body = with(&with_underscores(field.path), &value);
                assert_same(read(Api::Gemini, &body).unwrap(), expected, &what);
            }
        }
        for value in harmless(field.rule) {
            assert_same(request(field, &value), plain(field.api), &format!("{field:?} {value}"));
        }
    }
}

#[test]
fn a_field_that_stands_twice_is_refused() {
    for field in PRICE_FIELDS {
        if matches!(field.rule, FieldRule::Free | FieldRule::CacheLife(_)) {
            continue;
        }
        let (top, rest) = field.path.split_once('.').unwrap_or((field.path, ""));
        let value = if rest.is_empty() { json!(null) } else { with(rest, &json!(null)) };
        let key = top.trim_end_matches("[]");
        let value = if key == top { value.to_string() } else { format!("[{value}]") };
        let twice = format!(r#"{{"{key}":{value},"{key}":{value}}}"#);
        let found = field.api.dialect().read(PATH, twice.as_bytes());
        assert_eq!(found, Err(ReadError::Duplicate(key.to_owned())), "{field:?}");
        let other = key.to_ascii_uppercase();
        let folded = format!(r#"{{"{other}":{value}}}"#);
        let found = field.api.dialect().read(PATH, folded.as_bytes());
        let is_plain = other == key;
        assert_eq!(matches!(found, Err(ReadError::Misspelled { .. })), !is_plain, "{field:?}");
        if !rest.is_empty() && !rest.contains(['.', '[']) {
            let inner = format!(r#"{{"{rest}":null,"{rest}":null}}"#);
            let inner = if key == top { inner } else { format!("[{inner}]") };
            let twice = format!(r#"{{"{key}":{inner}}}"#);
            let found = field.api.dialect().read(PATH, twice.as_bytes());
            assert_eq!(found, Err(ReadError::Duplicate(rest.to_owned())), "{field:?}");
        }
    }
}

/// Keys that decide something other than the price of a token: the model, the form of the response, the conversation.
const OTHERS: [&str; 15] = [
    "model",
    "stream",
    "stream_options",
    "messages",
    "input",
    "contents",
    "system",
    "instructions",
    "systemInstruction",
    "tools",
    "functions",
    "max_tool_calls",
    "container",
    "context_management",
    "generationConfig",
];

#[test]
fn every_key_that_decides_has_a_row() {
    let apis: [(Api, &[DecidingKey]); 4] = [
        (Api::Chat, chat::KEYS),
        (Api::Responses, responses::KEYS),
        (Api::Messages, messages::KEYS),
        (Api::Gemini, gemini::KEYS),
    ];
    for (api, keys) in apis {
        for key in keys.iter().filter_map(|key| key.spellings().first()) {
            let is_field = |field: &PriceField| {
                field.api == api && field.path.split(['.', '[']).next() == Some(*key)
            };
            let is_known = OTHERS.contains(key)
                || PRICE_FIELDS.iter().any(is_field)
                || TOOL_KINDS.iter().any(|kind| kind.api == api && kind.pattern == *key);
            assert!(is_known, "{api:?} {key}");
        }
    }
}

#[test]
fn the_largest_of_several_caps_and_counts_of_responses_counts() {
    let body = json!({ "max_tokens": 5, "max_completion_tokens": 9, "n": 3, "best_of": 2 });
    let request = read(Api::Chat, &body).unwrap();
    assert_eq!((request.output_cap, request.choices), (Some(9), 3));
}

#[test]
fn an_element_without_the_key_is_refused_where_only_some_values_are_admitted() {
    for plugin in [json!({}), json!({ "id": null }), json!("web"), json!(3)] {
        let request = read(Api::Chat, &json!({ "plugins": [{ "id": "web" }, plugin] })).unwrap();
        assert_eq!(request.unbounded, ["plugins: ?"], "{plugin}");
    }
}

#[test]
fn a_cache_of_unknown_life_is_refused_wherever_it_stands() {
    let with = |mark: &str| {
        let body = format!(
            r#"{{"messages":[{{"role":"user","content":[{{"type":"text","text":"\"cache_control\":{{\"ttl\":\"9h\"}}",{mark}}}]}}]}}"#
        );
        Api::Messages.dialect().read(PATH, body.as_bytes()).unwrap().unbounded
    };
    assert_eq!(
        with(r#""cache_control" : {"type":"ephemeral", "ttl":"24h"}"#),
        ["cache_control.ttl: 24h"]
    );
    assert_eq!(with(r#""cache_control":{"ttl":90}"#), ["cache_control.ttl: "]);
    for known in [
        r#""cache_control":{"type":"ephemeral"}"#,
        r#""cache_control":null"#,
        r#""a":{"ttl":"9h"}"#,
    ] {
        assert!(with(known).is_empty(), "{known}");
    }
}

#[test]
fn a_summary_that_an_item_asks_for_reads_the_input_once_more() {
    let user = json!({ "role": "user", "content": "hi" });
    let body = json!({ "max_output_tokens": 9, "input": [user, { "type": "compaction_trigger" }] });
    let request = read(Api::Responses, &body).unwrap();
    assert_eq!((request.added_by_more_reads(100), request.choices), (100, 2));
    assert!(request.has_user_message);
}

#[test]
fn input_that_the_upstream_keeps_is_not_sized_by_the_response_before() {
    let body = json!({ "previous_response_id": "resp_1", "prompt": { "id": "pmpt_1" } });
    let request = read(Api::Responses, &body).unwrap();
    assert_eq!((request.thread, request.continues), (Thread::Continues, None));
}

#[test]
fn a_field_among_more_members_than_are_read_is_refused() {
    let members: Vec<String> =
        (0..=crate::limits::MAX_ITEMS).map(|at| format!(r#""{at}":1"#)).collect();
    let wide = |inner: &str| format!("{{{},{inner}}}", members.join(","));
    for (api, body) in [
        (Api::Messages, format!(r#"{{"thread":{}}}"#, wide(r#""type":"continue""#))),
        (Api::Messages, format!(r#"{{"container":{}}}"#, wide(r#""skills":[{"id":"a"}]"#))),
        (Api::Messages, format!(r#"{{"context_management":{}}}"#, wide(r#""edits":[]"#))),
        (Api::Messages, format!(r#"{{"models":[{}]}}"#, wide(r#""model":"gpt-4""#))),
        (Api::Gemini, format!(r#"{{"generationConfig":{}}}"#, wide(r#""candidateCount":8"#))),
        (Api::Messages, wide(r#""inference_geo":"us""#)),
        (Api::Chat, format!(r#"{{"plugins":[{}]}}"#, wide(r#""id":"file-parser""#))),
        (Api::Chat, format!(r#"{{"tools":[{}]}}"#, wide(r#""type":"web_search""#))),
        (Api::Messages, format!(r#"{{"tools":[{}]}}"#, wide(r#""type":"web_search""#))),
    ] {
        assert!(api.dialect().read(PATH, body.as_bytes()).is_err(), "{api:?}");
    }
    let many = vec!["1"; crate::limits::MAX_ITEMS + 1].join(",");
    for body in [format!(r#"{{"models":[{many}]}}"#), format!(r#"{{"modalities":[{many}]}}"#)] {
        assert!(Api::Chat.dialect().read(PATH, body.as_bytes()).is_err());
    }
}
