//! Honest requests of each API, which must reach the upstream.

use serde_json::json;

use super::bodies::{self, CHAT, GEMINI, MESSAGES, RESPONSES, honest};
use super::{Client, Expected, Row};
use crate::project::attack::reply;

const BASE: Row = Row {
    name: "",
    what: "",
    limit: 100,
    tries: 20,
    client: Client::Reads,
    frees_errors: false,
    path: CHAT,
    request: |_| bodies::chat(json!({})).to_string(),
    serve: |arrival, _| honest(reply::chat, arrival.tokens(), 100),
    expected: Expected::GoesOn,
};

pub(super) const ROWS: &[Row] = &[
    Row { name: "honest-chat", what: "no attack: honest chat completions", ..BASE },
    Row {
        name: "honest-responses",
        what: "no attack: honest requests of OpenAI's responses",
        path: RESPONSES,
        request: |_| bodies::responses(json!({})).to_string(),
        serve: |arrival, _| honest(reply::responses, arrival.tokens(), 100),
        ..BASE
    },
    Row {
        name: "honest-messages",
        what: "no attack: honest requests of Anthropic's messages",
        path: MESSAGES,
        request: |_| bodies::messages(json!({})).to_string(),
        serve: |arrival, _| honest(reply::messages, arrival.tokens(), 100),
        ..BASE
    },
    Row {
        name: "honest-gemini",
        what: "no attack: honest requests of Gemini",
        path: GEMINI,
        request: |_| bodies::gemini(json!({})).to_string(),
        serve: |arrival, _| honest(reply::gemini, arrival.tokens(), 100),
        ..BASE
    },
];
