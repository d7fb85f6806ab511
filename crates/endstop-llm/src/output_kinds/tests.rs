//! A test for each kind of output.

use endstop_price::Unit;
use serde_json::{Value, json};

use super::{OUTPUT_KINDS, OutputClass, OutputKind, OutputKinds};
use crate::{Api, CallRequest};

fn read(api: Api, modalities: Option<Value>) -> CallRequest {
    let body = match (api, modalities) {
        (_, None) => json!({ "model": "m" }),
        (Api::Gemini, Some(words)) => {
            json!({ "generationConfig": { "responseModalities": words } })
        }
        (_, Some(words)) => json!({ "model": "m", "modalities": words }),
    };
    let path = "/v1beta/models/m:generateContent";
    api.dialect().read(path, body.to_string().as_bytes()).unwrap()
}

const fn has(outputs: OutputKinds, class: OutputClass) -> bool {
    match class {
        OutputClass::Text => outputs.text,
        OutputClass::Speech => outputs.audio,
        OutputClass::Image => outputs.image,
    }
}

/// A response with 40 tokens of output of a kind, and 70 of output in all.
fn response(api: Api, kind: &OutputKind) -> Value {
    match (api, kind.name) {
        (Api::Chat, name) => {
            let detail = match name {
                "speech" => "audio_tokens",
                "images" => "image_tokens",
                "reasoning" => "reasoning_tokens",
                "rejected predictions" => "rejected_prediction_tokens",
                _ => "other_tokens",
            };
            let details = json!({ detail: 40 });
            json!({ "choices": [{ "message": { "role": "assistant", "content": "a" } }],
                "usage": { "prompt_tokens": 5, "completion_tokens": 70,
                    "completion_tokens_details": details } })
        }
        (Api::Responses, _) => json!({ "object": "response", "output": [],
            "usage": { "input_tokens": 5, "output_tokens": 70,
                "output_tokens_details": { "reasoning_tokens": 40 } } }),
        (Api::Messages, _) => json!({ "type": "message", "content": [],
            "usage": { "input_tokens": 5, "output_tokens": 70 } }),
        (Api::Gemini, name) => {
            let (thoughts, modality) = match name {
                "reasoning" => (40, "TEXT"),
                "speech" => (0, "AUDIO"),
                "images" => (0, "IMAGE"),
                _ => (0, "TEXT"),
            };
            json!({ "candidates": [{ "content": { "parts": [{ "text": "a" }] } }],
                "usageMetadata": { "promptTokenCount": 5, "thoughtsTokenCount": thoughts,
                    "candidatesTokenCount": 70 - thoughts, "totalTokenCount": 75,
                    "candidatesTokensDetails": [{ "modality": modality, "tokenCount": 40 }] } })
        }
    }
}

#[test]
fn each_kind_of_output_is_asked_for_as_its_row_says() {
    let all = [OutputClass::Text, OutputClass::Speech, OutputClass::Image];
    for kind in OUTPUT_KINDS {
        for api in kind.apis {
            let is_unasked = has(read(*api, None).outputs, kind.class);
            assert_eq!(is_unasked, kind.unasked.contains(api), "{kind:?} {api:?}");
            let has_modalities = matches!(api, Api::Chat | Api::Gemini);
            let Some(word) = kind.word.filter(|_| has_modalities) else { continue };
            for word in [word.to_owned(), word.to_ascii_uppercase()] {
                let asked = read(*api, Some(json!([word]))).outputs;
                for class in all {
                    assert_eq!(has(asked, class), class == kind.class, "{kind:?} {class:?}");
                }
            }
        }
    }
}

#[test]
fn an_api_without_modalities_answers_with_text() {
    for api in [Api::Responses, Api::Messages] {
        let asked = read(api, Some(json!(["audio", "image"]))).outputs;
        assert_eq!(asked, OutputKinds { audio: false, image: false, text: true }, "{api:?}");
    }
}

#[test]
fn each_kind_of_output_is_settled_in_the_unit_of_its_row() {
    for kind in OUTPUT_KINDS {
        for api in kind.apis {
            let body = response(*api, kind).to_string();
            let read = api.dialect().answer(body.as_bytes()).unwrap();
            let counts = read.usage.expect("a report of usage").counts;
            let of = |unit: &str| Unit::named(unit).and_then(|unit| counts.get(unit));
            let settled = if kind.settled == "output_tokens" { 70 } else { 40 };
            assert_eq!(of(kind.settled), Some(settled), "{kind:?} {api:?}");
            assert_eq!(of("output_tokens"), Some(70), "{kind:?} {api:?}");
            assert!(Unit::named(kind.held).is_some(), "{kind:?}");
        }
    }
}
