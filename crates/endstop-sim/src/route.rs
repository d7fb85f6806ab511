//! Which API a request is for, and what an error looks like in it.

use http::{HeaderMap, Method};
use serde_json::{Value, json};

use crate::request::unescaped;

/// The purpose of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Chat,
    Responses,
    ResponsesCount,
    Messages,
    CountTokens,
    Gemini {
        model: String,
        is_stream: bool,
        is_sse: bool,
    },
    GeminiCount {
        model: String,
    },
    Models(Family),
    /// `/sim/stats`.
    Stats,
    /// The root, which clients probe to see whether the server is up.
    Root,
    Unknown(Family),
}

/// Whose errors and lists are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    OpenAi,
    Anthropic,
    Gemini,
}

impl Route {
    /// By method and path; version paths before the rest may be there or not.
    pub(crate) fn of(method: &Method, path: &str, query: &str, headers: &HeaderMap) -> Self {
        let path = path.trim_end_matches('/');
        let family = family(path, headers);
        let is_get = matches!(*method, Method::GET | Method::HEAD);
        if is_get {
            return match path {
                "" => Self::Root,
                "/sim/stats" => Self::Stats,
                _ if path.ends_with("/models") => Self::Models(family),
                _ => Self::Unknown(family),
            };
        }
        if *method != Method::POST {
            return Self::Unknown(family);
        }
        if path.ends_with("/chat/completions") {
            Self::Chat
        } else if path.ends_with("/responses/input_tokens") {
            Self::ResponsesCount
        } else if path.ends_with("/responses") {
            Self::Responses
        } else if path.ends_with("/messages/count_tokens") {
            Self::CountTokens
        } else if path.ends_with("/messages") {
            Self::Messages
        } else {
            gemini(path, query).unwrap_or(Self::Unknown(family))
        }
    }

    pub(crate) fn family(&self) -> Family {
        match self {
            Self::Chat | Self::Responses | Self::ResponsesCount | Self::Stats | Self::Root => {
                Family::OpenAi
            }
            Self::Messages | Self::CountTokens => Family::Anthropic,
            Self::Gemini { .. } | Self::GeminiCount { .. } => Family::Gemini,
            Self::Models(family) | Self::Unknown(family) => *family,
        }
    }
}

fn family(path: &str, headers: &HeaderMap) -> Family {
    if path.starts_with("/v1beta") || headers.contains_key("x-goog-api-key") {
        Family::Gemini
    } else if headers.contains_key("anthropic-version") {
        Family::Anthropic
    } else {
        Family::OpenAi
    }
}

/// `…/models/<model>:<method>`, where the model may have slashes and colons.
fn gemini(path: &str, query: &str) -> Option<Route> {
    let (_, rest) = path.split_once("/models/")?;
    let rest = unescaped(rest);
    let (model, method) = rest.rsplit_once(':')?;
    let model = model.to_owned();
    let is_sse = query.split('&').any(|pair| pair == "alt=sse");
    match method {
        "generateContent" => Some(Route::Gemini { model, is_stream: false, is_sse }),
        "streamGenerateContent" => Some(Route::Gemini { model, is_stream: true, is_sse }),
        "countTokens" => Some(Route::GeminiCount { model }),
        _ => None,
    }
}

/// An error as the provider would write it.
pub(crate) fn error(family: Family, status: u16, message: &str) -> Value {
    match family {
        Family::OpenAi => json!({
            "error": {
                "message": message,
                "type": match status {
                    429 => "requests",
                    500.. => "server_error",
                    _ => "invalid_request_error",
                },
                "param": null,
                "code": (status == 429).then_some("rate_limit_exceeded"),
            },
        }),
        Family::Anthropic => json!({
            "type": "error",
            "error": {
                "type": match status {
                    404 => "not_found_error",
                    413 => "request_too_large",
                    429 => "rate_limit_error",
                    529 => "overloaded_error",
                    500.. => "api_error",
                    _ => "invalid_request_error",
                },
                "message": message,
            },
        }),
        Family::Gemini => json!({
            "error": {
                "code": status,
                "message": message,
                "status": match status {
                    404 => "NOT_FOUND",
                    429 => "RESOURCE_EXHAUSTED",
                    500 => "INTERNAL",
                    501.. => "UNAVAILABLE",
                    _ => "INVALID_ARGUMENT",
                },
            },
        }),
    }
}

/// The answer to a message that continues an evicted one: the client sends everything again.
pub(crate) fn thread_not_found() -> Value {
    let mut error = error(Family::Anthropic, 404, "The thread is not known here.");
    if let Some(members) = error.pointer_mut("/error").and_then(Value::as_object_mut) {
        members.insert("details".to_owned(), json!({ "error_code": "thread_not_found" }));
    }
    error
}

/// The models that there are: one of each script that takes no number.
pub(crate) fn models(family: Family) -> Value {
    const NAMES: [&str; 9] = [
        "sim/loop",
        "sim/loop:3",
        "sim/answer",
        "sim/delegate",
        "sim/slow",
        "sim/fail",
        "sim/cut",
        "sim/repeat",
        "sim/long",
    ];
    let all = |one: fn(&str) -> Value| NAMES.iter().map(|name| one(name)).collect::<Vec<_>>();
    match family {
        Family::OpenAi => json!({
            "object": "list",
            "data": all(|name| json!({
                "id": name, "object": "model", "created": crate::wire::CREATED, "owned_by": "sim",
            })),
        }),
        Family::Anthropic => json!({
            "data": all(|name| json!({
                "id": name,
                "type": "model",
                "display_name": name,
                "created_at": "2030-01-01T00:00:00Z",
            })),
            "has_more": false,
            "first_id": NAMES.first(),
            "last_id": NAMES.last(),
        }),
        Family::Gemini => json!({
            "models": all(|name| json!({
                "name": format!("models/{name}"),
                "displayName": name,
                "supportedGenerationMethods": ["generateContent", "countTokens"],
            })),
        }),
    }
}
