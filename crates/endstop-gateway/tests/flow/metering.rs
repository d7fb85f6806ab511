//! The tables that say how requests are metered, row by row at the gateway (`docs/metering.md`).

use endstop_llm::{
    Api, CONTENT_KINDS, ContentHold, ContentKind, ContentMark, FieldRule, OUTPUT_KINDS,
    PRICE_FIELDS, PriceField,
};
use serde_json::{Value, json};

use crate::fake::{Fake, json as answer};
use crate::kit::*;

const DOLLARS: &str = "[stop]\nlimit = \"cost >= $50\"\n";
const CENTS: &str = "[stop]\nlimit = \"cost >= $0.05\"\n";
const TOKENS: &str = "[stop]\nlimit = \"tokens >= 5_000_000\"\n";
const FAR: &str = "https://example.com/a";

/// A model of an API whose price and context window are known.
const fn priced(api: Api) -> &'static str {
    match api {
        Api::Chat | Api::Responses => "gpt-4o",
        Api::Messages => "claude-sonnet-4-5",
        Api::Gemini => "gemini-2.5-pro",
    }
}

fn path(api: Api, model: &str) -> String {
    match api {
        Api::Chat => "/v1/chat/completions".to_owned(),
        Api::Responses => "/v1/responses".to_owned(),
        Api::Messages => "/v1/messages".to_owned(),
        Api::Gemini => format!("/v1beta/models/{model}:generateContent"),
    }
}

/// A small request to a model that says this in place of a word.
fn request(api: Api, model: &str, said: Option<Value>) -> Value {
    let text = match api {
        Api::Responses => json!({ "role": "user", "content": "Go." }),
        Api::Gemini => json!({ "text": "Go." }),
        Api::Chat | Api::Messages => json!({ "type": "text", "text": "Go." }),
    };
    let said = said.unwrap_or(text);
    let is_message = said.get("role").is_some();
    match api {
        Api::Chat if is_message => {
            json!({ "model": model, "max_tokens": 50, "messages": [said] })
        }
        Api::Chat | Api::Messages => json!({ "model": model, "max_tokens": 50,
            "messages": [{ "role": "user", "content": [said] }] }),
        Api::Responses => json!({ "model": model, "max_output_tokens": 50, "input": [said] }),
        Api::Gemini => json!({ "generationConfig": { "maxOutputTokens": 50 },
            "contents": [{ "role": "user", "parts": [said] }] }),
    }
}

/// How a call ended: how often the upstream was called, and the response.
async fn sent(policy: &str, api: Api, model: &str, body: &Value) -> (usize, Got) {
    let upstream = Fake::start(|_, _| answer("200 OK", &reply_text("Done."))).await;
    let gateway = gateway(policy, &upstream).await;
    let got = post(&gateway, &path(api, model), body).await;
    (upstream.calls(), got)
}

fn allowing(policy: &str, name: &str) -> String {
    format!("{policy}[accounting]\nallow_unmetered = ['{name}']\n")
}

/// Puts a value where a path leads.
fn put(body: &mut Value, path: &str, value: Value) {
    let (key, rest) = path.split_once('.').unwrap_or((path, ""));
    let (key, is_list) = key.strip_suffix("[]").map_or((key, false), |key| (key, true));
    if rest.is_empty() {
        body[key] = value;
    } else if is_list {
        body[key] = json!([{}]);
        put(&mut body[key][0], rest, value);
    } else {
        put(&mut body[key], rest, value);
    }
}

/// A value that a field is refused for.
fn refused_value(field: &PriceField) -> Option<Value> {
    match field.rule {
        FieldRule::Modalities => Some(json!(["text", "smell"])),
        FieldRule::Tier(_) => Some(json!("ultrafast")),
        FieldRule::Speed(_) => Some(json!("warp")),
        FieldRule::Fallbacks(_) => Some(json!("default")),
        FieldRule::CacheLife(_) => Some(json!("24h")),
        FieldRule::Changes { .. } => Some(json!("rewrite")),
        FieldRule::StoredResponse | FieldRule::StoredInput => Some(json!("kept_1")),
        FieldRule::StoredThread => Some(json!({ "type": "continue" })),
        FieldRule::Only { .. } => Some(json!("elsewhere")),
        FieldRule::Refused(_) => Some(json!([{ "id": "a" }])),
        FieldRule::Background => Some(json!(true)),
        FieldRule::OutputCap | FieldRule::Choices | FieldRule::Summary | FieldRule::Free => None,
    }
}

/// The values that a field is admitted with.
fn admitted_values(field: &PriceField) -> Vec<Value> {
    let words = |words: &[&str]| words.iter().map(|word| json!(word)).collect();
    match field.rule {
        FieldRule::OutputCap => vec![json!(40)],
        FieldRule::Choices => vec![json!(2)],
        FieldRule::Modalities => vec![json!(["text"])],
        FieldRule::Tier(known) | FieldRule::Speed(known) => words(known),
        FieldRule::Fallbacks(_) => vec![json!([priced(field.api)])],
        FieldRule::CacheLife(_) => words(&["5m", "1h"]),
        FieldRule::Changes { summary, free } => words(&[&[summary], free].concat()),
        FieldRule::Only { values, .. } => words(values),
        FieldRule::Summary => vec![json!({})],
        FieldRule::Free => vec![json!(true), json!("anything")],
        FieldRule::StoredResponse | FieldRule::StoredInput | FieldRule::StoredThread => vec![],
        FieldRule::Refused(_) | FieldRule::Background => vec![json!(null)],
    }
}

#[tokio::test]
async fn a_field_is_refused_by_the_name_of_its_row_and_passes_where_that_is_allowed() {
    for field in PRICE_FIELDS {
        let (api, model) = (field.api, priced(field.api));
        let mut body = request(api, model, None);
        for value in admitted_values(field) {
            put(&mut body, field.path, value);
            let (calls, got) = sent(DOLLARS, api, model, &body).await;
            assert_eq!(calls, 1, "{field:?} {body} {got:?}");
        }
        assert_eq!(refused_value(field).is_some(), field.refusal().is_some(), "{field:?}");
        let Some((name, value)) = field.refusal().zip(refused_value(field)) else { continue };
        put(&mut body, field.path, value);
        let (calls, got) = sent(DOLLARS, api, model, &body).await;
        // Threads are refused in the way that their clients know.
        let is_thread = field.rule == FieldRule::StoredThread;
        let status = if is_thread { 400 } else { 402 };
        assert_eq!((calls, got.status), (0, status), "{field:?} {got:?}");
        let hint = format!("--allow-unmetered={name}");
        assert!(is_thread || got.text().contains(&hint), "{field:?} {got:?}");
        assert_eq!(sent(&allowing(DOLLARS, name), api, model, &body).await.0, 1, "{field:?}");
        assert_eq!(sent("[stop]\nsteps = \"steps >= 9\"\n", api, model, &body).await.0, 1);
    }
}

#[tokio::test]
async fn an_output_is_refused_by_the_name_of_its_row_for_a_model_without_a_rate() {
    for kind in OUTPUT_KINDS {
        let Some((name, word)) = kind.refusal.zip(kind.word) else { continue };
        for api in kind.apis {
            let model = if *api == Api::Gemini { "gemini-2.5-flash-image" } else { priced(*api) };
            let mut body = request(*api, model, None);
            let list = if *api == Api::Gemini {
                "generationConfig.responseModalities"
            } else {
                "modalities"
            };
            put(&mut body, list, json!(["text", word]));
            let (calls, got) = sent(DOLLARS, *api, model, &body).await;
            assert_eq!((calls, got.status), (0, 402), "{kind:?} {api:?} {got:?}");
            assert!(got.text().contains(&format!("--allow-unmetered={name}")), "{got:?}");
            assert_eq!(sent(&allowing(DOLLARS, name), *api, model, &body).await.0, 1, "{kind:?}");
        }
    }
}

/// Content of a kind whose size is not known.
fn of_unknown_size(kind: &ContentKind) -> Value {
    match (kind.mark, kind.hold) {
        (ContentMark::Type(own), ContentHold::Image(_)) => {
            json!({ "type": own, "image_url": "data:application/pdf;base64,AAAA" })
        }
        (ContentMark::Type(own), ContentHold::KeptOutput | ContentHold::KeptItem) => {
            json!({ "type": own, "id": "rs_1" })
        }
        (ContentMark::Type(own), _) => {
            let own = own.replace('*', "other");
            json!({ "type": own, own: { "url": FAR } })
        }
        (ContentMark::Source(own, source), _) => {
            json!({ "type": own, "source": { "type": source.replace('*', "url"), "url": FAR } })
        }
        (ContentMark::Inline(media), _) => {
            json!({ "inlineData": { "mimeType": media.replace('*', "video/mp4"), "data": "AAAA" } })
        }
        (ContentMark::Object(key), _) => json!({ key: { "fileUri": FAR } }),
        (ContentMark::IdIn(key), _) => json!({ "role": "assistant", key: { "id": "audio_1" } }),
        (ContentMark::Key(key), _) => json!({ key: {} }),
    }
}

#[tokio::test]
async fn content_of_unknown_size_holds_a_context_window_or_is_refused_by_its_name() {
    for kind in CONTENT_KINDS.iter().filter(|kind| kind.hold.may_be_unknown()) {
        for api in kind.apis {
            let said = of_unknown_size(kind);
            let model = priced(*api);
            let body = request(*api, model, Some(said.clone()));
            if kind.hold == ContentHold::KeptItem {
                let (calls, got) = sent(DOLLARS, *api, model, &body).await;
                assert_eq!((calls, got.status), (0, 402), "{kind:?} {got:?}");
                assert!(got.text().contains("--allow-unmetered=stored_conversation"), "{got:?}");
                let allowed = allowing(DOLLARS, "stored_conversation");
                assert_eq!(sent(&allowed, *api, model, &body).await.0, 1, "{kind:?}");
                continue;
            }
            let (calls, got) = sent(CENTS, *api, model, &body).await;
            let reason = got.header("x-endstop-reason");
            assert_eq!((calls, reason.as_deref()), (0, Some("cost_limit")), "{kind:?} {got:?}");
            assert_eq!(sent(DOLLARS, *api, model, &body).await.0, 1, "{kind:?}");
            let model = "unknown-model";
            let body = request(*api, model, Some(said));
            let (calls, got) = sent(TOKENS, *api, model, &body).await;
            assert_eq!((calls, got.status), (0, 402), "{kind:?} {got:?}");
            assert!(got.text().contains("--allow-unmetered=unknown_file"), "{got:?}");
            let allowed = allowing(TOKENS, "unknown_file");
            assert_eq!(sent(&allowed, *api, model, &body).await.0, 1, "{kind:?}");
        }
    }
}

#[tokio::test]
async fn content_of_an_unknown_kind_is_refused_by_its_name_where_tokens_count() {
    for api in [Api::Chat, Api::Responses, Api::Messages, Api::Gemini] {
        let said = match api {
            Api::Gemini => json!({ "hologram": { "depth": 3 } }),
            _ => json!({ "type": "hologram", "depth": 3 }),
        };
        let model = priced(api);
        let body = request(api, model, Some(said));
        let (calls, got) = sent(DOLLARS, api, model, &body).await;
        assert_eq!((calls, got.status), (0, 402), "{api:?} {got:?}");
        assert!(got.text().contains("--allow-unmetered=hologram"), "{got:?}");
        assert_eq!(sent(&allowing(DOLLARS, "hologram"), api, model, &body).await.0, 1);
        assert_eq!(sent("[stop]\nsteps = \"steps >= 9\"\n", api, model, &body).await.0, 1);
    }
}

#[tokio::test]
async fn an_unknown_field_passes_and_is_reported_once_a_run() {
    for api in [Api::Chat, Api::Responses, Api::Messages, Api::Gemini] {
        let model = priced(api);
        let mut body = request(api, model, None);
        body["warp_factor"] = json!(9);
        for (policy, is_metered) in [(DOLLARS, true), ("[stop]\nsteps = \"steps >= 9\"\n", false)] {
            let upstream = Fake::start(|_, _| answer("200 OK", &reply_text("Done."))).await;
            let gateway = gateway(policy, &upstream).await;
            let mut warned = Vec::new();
            for _ in 0..2 {
                let got = post(&gateway, &path(api, model), &body).await;
                let warning = got.header("x-endstop-warning").unwrap_or_default();
                warned.push(warning.contains("unknown fields passed: `warp_factor`"));
            }
            assert_eq!((upstream.calls(), warned), (2, vec![is_metered, false]), "{api:?}");
            let run = gateway.runs()[0].info().id.clone();
            let known = gateway.unknown_fields(&run);
            assert_eq!(known.len(), usize::from(is_metered), "{api:?} {known:?}");
        }
    }
}

#[tokio::test]
async fn tools_that_an_item_adds_are_held_as_those_of_the_request() {
    let tools = json!([{ "type": "web_search" }]);
    let item = json!({ "type": "additional_tools", "role": "developer", "tools": tools });
    let body = request(Api::Responses, "gpt-4o", Some(item));
    let (calls, got) = sent(CENTS, Api::Responses, "gpt-4o", &body).await;
    assert_eq!((calls, got.status), (0, 402), "{got:?}");
    assert!(got.text().contains("`web_search` runs at the provider"), "{got:?}");
    assert!(got.text().contains("Not even one run fits"), "{got:?}");
    assert_eq!(sent(DOLLARS, Api::Responses, "gpt-4o", &body).await.0, 1);
}
