//! Output and input that is no text, and costs more than its bytes or its text tell.

use serde_json::{Value, json};

use super::bodies::{self, CHAT, MESSAGES, honest, of_user};
use super::{Client, Expected, Row, TOO_LARGE};
use crate::project::attack::assumption::Assumption;
use crate::project::attack::bill::{Arrival, Work};
use crate::project::attack::reply;
use crate::project::attack::upstream::{Sent, Serving};

const PAINTER: &str = "/v1beta/models/gemini-2.5-flash-image:generateContent";
/// Tokens of an image that Gemini makes.
const IMAGE_MADE: u64 = 1_290;
/// Tokens of the largest image for gpt-4o-mini.
const IMAGE_OF_MINI: u64 = 48_169;
/// Tokens of a page of a document for Anthropic: its image and its text.
const PAGE: u64 = 1_920;
const PAGES: u64 = 100;

/// An image of up to so many tokens.
fn image_made(arrival: &Arrival, most: u64) -> Serving {
    let (input, image) = (arrival.tokens(), IMAGE_MADE.min(most));
    let mut body = reply::gemini(input, image);
    reply::put(
        &mut body,
        &["usageMetadata", "candidatesTokensDetails"],
        json!([{ "modality": "IMAGE", "tokenCount": image }]),
    );
    let work = Work { input, image_output: image, ..Work::default() };
    Serving { work, sent: Sent::Whole(reply::ok(&body)) }
}

/// Speech up to the cap.
fn speech(arrival: &Arrival) -> Serving {
    let (input, audio) = (arrival.tokens(), arrival.cap());
    let mut body = reply::chat(input, audio);
    reply::put(
        &mut body,
        &["usage", "completion_tokens_details"],
        json!({ "audio_tokens": audio, "text_tokens": 0 }),
    );
    let work = Work { input, audio_output: audio, ..Work::default() };
    Serving { work, sent: Sent::Whole(reply::ok(&body)) }
}

fn speaking(model: &str) -> String {
    bodies::chat(json!({ "model": model, "max_completion_tokens": 1_000,
        "modalities": ["text", "audio"], "audio": { "voice": "alloy", "format": "wav" } }))
    .to_string()
}

fn painting() -> String {
    bodies::gemini(json!({ "generationConfig": { "maxOutputTokens": IMAGE_MADE } })).to_string()
}

fn image_at(address: &str) -> Value {
    json!({ "type": "image", "source": { "type": "url", "url": address } })
}

const BASE: Row = Row {
    name: "",
    what: "",
    limit: 5,
    tries: 10,
    client: Client::Reads,
    frees_errors: false,
    path: CHAT,
    request: |_| String::new(),
    serve: |arrival, _| honest(reply::chat, arrival.tokens(), 10),
    expected: Expected::Bounded,
};

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "images-made",
        what: "images side by side, which cost twelve times what text does",
        limit: 100,
        tries: 300,
        client: Client::SideBySide,
        path: PAINTER,
        request: |_| painting(),
        serve: |arrival, _| image_made(arrival, arrival.cap()),
        ..BASE
    },
    Row {
        name: "images-above-cap",
        what: "images that are larger than the output cap",
        limit: 100,
        tries: 30,
        path: PAINTER,
        request: |_| painting(),
        serve: |arrival, _| image_made(arrival, IMAGE_MADE),
        expected: Expected::RestsOn(Assumption::CapsAreKept),
        ..BASE
    },
    Row {
        name: "speech",
        what: "speech, which costs eight times what text does",
        limit: 40,
        request: |_| speaking("gpt-4o-audio-preview"),
        serve: |arrival, _| speech(arrival),
        expected: Expected::Refused(402, "--allow-unmetered=speech`"),
        ..BASE
    },
    Row {
        name: "newer-speech",
        what: "speech of a newer model",
        limit: 40,
        request: |_| speaking("gpt-audio"),
        serve: |arrival, _| speech(arrival),
        ..BASE
    },
    Row {
        name: "pages",
        what: "documents of 100 empty pages in a kilobyte",
        limit: 100,
        path: MESSAGES,
        request: |_| {
            let source = json!({ "type": "base64", "media_type": "application/pdf",
                "data": "JVBERi0xLjQK".repeat(80) });
            let parts = [json!({ "type": "document", "source": source })];
            bodies::messages(json!({ "messages": of_user(&parts) })).to_string()
        },
        serve: |arrival, _| {
            honest(reply::messages, arrival.count_of("\"document\"") * PAGES * PAGE, 10)
        },
        expected: TOO_LARGE,
        ..BASE
    },
    Row {
        name: "images-in-document",
        what: "a document whose content is 100 images elsewhere",
        limit: 20,
        path: MESSAGES,
        request: |_| {
            let content = vec![image_at("https://example.com/a.png"); 100];
            let parts = [json!({ "type": "document",
                "source": { "type": "content", "content": content } })];
            bodies::messages(json!({ "messages": of_user(&parts) })).to_string()
        },
        serve: |arrival, _| honest(reply::messages, arrival.count_of("\"image\"") * 1_600, 10),
        expected: TOO_LARGE,
        ..BASE
    },
    Row {
        name: "dear-images",
        what: "images for gpt-4o-mini, of 48,169 tokens each",
        limit: 20,
        request: |_| {
            let image = json!({ "type": "image_url",
                "image_url": { "url": "data:image/png;base64,iVBORw0KGgo=" } });
            let messages = of_user(&vec![image; 8]);
            bodies::chat(json!({ "model": "gpt-4o-mini", "max_completion_tokens": 100,
                "messages": messages }))
            .to_string()
        },
        serve: |arrival, _| {
            honest(reply::chat, arrival.count_of("data:image/png") * IMAGE_OF_MINI, 10)
        },
        ..BASE
    },
    Row {
        name: "video-frames",
        what: "a video of which 24 frames a second are read (`fps`)",
        limit: 5,
        path: bodies::GEMINI,
        request: |_| {
            let part = json!({ "inlineData": { "mimeType": "video/mp4", "data": "AAAA".repeat(100) },
                "videoMetadata": { "fps": 24 } });
            let contents = json!([{ "role": "user", "parts": [part] }]);
            bodies::gemini(json!({ "contents": contents })).to_string()
        },
        serve: |_, _| honest(reply::gemini, 190_000, 10),
        expected: TOO_LARGE,
        ..BASE
    },
];
