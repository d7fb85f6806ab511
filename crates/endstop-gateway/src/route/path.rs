//! The path of a request: its run and children, the rest, and what that says.

use std::borrow::Cow;

use endstop_llm::Api;
use http::{HeaderMap, Method};
use thiserror::Error;

use super::{ApiFamily, CloudPlatform, Endpoint};
use crate::tunnel::InterceptedHost;

/// Segments that begin the path of an upstream. A child cannot have such a name.
const ROOTS: &[&str] = &[
    "api",
    "audio",
    "batches",
    "chat",
    "complete",
    "completions",
    "embeddings",
    "engines",
    "files",
    "fine_tuning",
    "images",
    "messages",
    "models",
    "moderations",
    "openai",
    "realtime",
    "responses",
    "uploads",
    "v1",
    "v1alpha",
    "v1beta",
    "v1beta1",
    "v2",
    "v3",
    "vector_stores",
];

/// Why a path is not taken: what an upstream might read as another path than is read here could pass a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum PathError {
    /// Not `/…`.
    #[error("the path does not begin with a slash")]
    NoSlash,
    /// `//`, `.` or `..`.
    #[error("the path has empty or dot segments")]
    Segments,
    /// A percent sign before what needs none, or before a slash or nothing.
    #[error("the path has escapes that stand for a slash, a plain character, or nothing")]
    Escapes,
}

/// Refuses paths that can be read in two ways.
pub(super) fn check(path: &str) -> Result<(), PathError> {
    let Some(inner) = path.strip_prefix('/') else { return Err(PathError::NoSlash) };
    let mut segments = inner.as_bytes().split(|byte| *byte == b'/').peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        if matches!(segment, b"." | b"..") || (segment.is_empty() && !is_last) {
            return Err(PathError::Segments);
        }
    }
    if inner.contains('\\') {
        return Err(PathError::Segments);
    }
    for (at, _) in inner.match_indices('%') {
        let code = inner.get(at.saturating_add(1)..at.saturating_add(3));
        let byte = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        let is_needed = byte.is_some_and(|byte| {
            !byte.is_ascii_alphanumeric() && !b"-._~/\\".contains(&byte) && byte != 0
        });
        if !is_needed {
            return Err(PathError::Escapes);
        }
    }
    Ok(())
}

/// A path taken apart.
#[derive(Debug)]
pub(super) struct Parts<'p> {
    pub(super) run: Option<&'p str>,
    pub(super) children: Vec<&'p str>,
    /// Begins with a slash.
    pub(super) rest: &'p str,
}

/// A path that names no run.
pub(super) const fn plain(path: &str) -> Parts<'_> {
    Parts { run: None, children: Vec::new(), rest: path }
}

/// `/r/{run}/{children…}/{rest…}`: the children end where a segment begins the path of an upstream. Without such a
/// segment, there are no children.
pub(super) fn split(path: &str) -> Parts<'_> {
    let Some(after) = path.strip_prefix("/r/") else { return plain(path) };
    let end = after.find('/').unwrap_or(after.len());
    let (run, rest) = after.split_at(end);
    let rest = if rest.is_empty() { "/" } else { rest };
    let mut children = Vec::new();
    let mut left = rest;
    while let Some(inner) = left.strip_prefix('/') {
        let end = inner.find('/').unwrap_or(inner.len());
        let (segment, after) = inner.split_at(end);
        if ROOTS.contains(&segment) {
            return Parts { run: Some(run), children, rest: left };
        }
        children.push(segment);
        left = after;
    }
    Parts { run: Some(run), children: Vec::new(), rest }
}

/// Returns the API family of a path, and what it is for.
pub(super) fn family_and_endpoint(
    method: &Method,
    rest: &str,
    headers: &HeaderMap,
) -> (ApiFamily, Endpoint) {
    let path = rest.strip_suffix('/').filter(|path| !path.is_empty()).unwrap_or(rest);
    let bare = path.strip_prefix("/v1").filter(|bare| bare.starts_with('/')).unwrap_or(path);
    let is_post = method == Method::POST;
    let of_post = |endpoint| if is_post { endpoint } else { Endpoint::Other };
    match bare {
        "/messages" => return (ApiFamily::Anthropic, of_post(Endpoint::ModelCall(Api::Messages))),
        "/messages/count_tokens" => return (ApiFamily::Anthropic, of_post(Endpoint::CountTokens)),
        "/complete" => return (ApiFamily::Anthropic, Endpoint::Other),
        _ if bare.starts_with("/messages/") => return (ApiFamily::Anthropic, Endpoint::Other),
        _ => {}
    }
    let is_gemini_path = ["/v1beta/", "/v1alpha/", "/v1beta1/"].iter().any(|v| path.starts_with(v));
    if let Some(endpoint) = gemini_method(path) {
        return (ApiFamily::Gemini, of_post(endpoint));
    }
    let family = if is_gemini_path { ApiFamily::Gemini } else { ApiFamily::OpenAi };
    if path.ends_with("/chat/completions") {
        return (family, of_post(Endpoint::ModelCall(Api::Chat)));
    }
    if bare == "/models" || bare.starts_with("/models/") {
        let by_header = if headers.contains_key("anthropic-version") {
            ApiFamily::Anthropic
        } else if headers.contains_key("x-goog-api-key") {
            ApiFamily::Gemini
        } else {
            ApiFamily::OpenAi
        };
        let family = if is_gemini_path { ApiFamily::Gemini } else { by_header };
        let is_list = method == Method::GET || method == Method::HEAD;
        return (family, if is_list { Endpoint::Models } else { Endpoint::Other });
    }
    if is_gemini_path && path.contains("/models") && method == Method::GET {
        return (family, Endpoint::Models);
    }
    if path.ends_with("/responses") {
        return (family, of_post(Endpoint::ModelCall(Api::Responses)));
    }
    if path.ends_with("/responses/input_tokens") {
        return (family, of_post(Endpoint::CountTokens));
    }
    if is_bedrock(path) {
        let family = match headers.contains_key("anthropic-version") {
            true => ApiFamily::Anthropic,
            false => family,
        };
        return (family, of_post(Endpoint::Cloud(CloudPlatform::Bedrock)));
    }
    if headers.contains_key("anthropic-version") && family == ApiFamily::OpenAi {
        return (ApiFamily::Anthropic, Endpoint::Other);
    }
    (family, Endpoint::Other)
}

/// Returns the API family of a path of an intercepted host, and its purpose. Hosts serve APIs of other providers
/// under special paths, such as `/api/anthropic/v1/messages`.
pub(super) fn of_host(
    method: &Method,
    path: &str,
    headers: &HeaderMap,
    host: &InterceptedHost,
) -> (ApiFamily, Endpoint) {
    let messages = path.rfind("/v1/messages").and_then(|at| path.get(at..));
    let (family, endpoint) = family_and_endpoint(method, messages.unwrap_or(path), headers);
    let is_free = endpoint == Endpoint::Other && host.has_free(method, path);
    (family, if is_free { Endpoint::Free } else { endpoint })
}

/// Returns the part of an intercepted host's path that the provider's own API has too.
pub(super) fn from_call(family: ApiFamily, path: &str) -> &str {
    let begins: &[&str] = match family {
        ApiFamily::OpenAi => &["/chat/completions", "/responses", "/models"],
        ApiFamily::Anthropic => &["/v1/messages"],
        ApiFamily::Gemini => &["/models/"],
    };
    let begin = begins.iter().find_map(|begin| path.rfind(begin));
    begin.and_then(|at| path.get(at..)).unwrap_or(path)
}

/// `…/model/{model}/{method}`.
fn is_bedrock(path: &str) -> bool {
    let method = path.rsplit('/').next().unwrap_or_default();
    let is_call =
        ["invoke", "invoke-with-response-stream", "converse", "converse-stream"].contains(&method);
    is_call && path.contains("/model/")
}

/// `…/models/{model}:{method}`.
fn gemini_method(path: &str) -> Option<Endpoint> {
    let (before, method) = match path.rsplit_once(':') {
        Some(parts) => parts,
        None => path.rsplit_once("%3A").or_else(|| path.rsplit_once("%3a"))?,
    };
    if !before.contains("/models/") && !before.contains("/tunedModels/") {
        return None;
    }
    Some(match method {
        "generateContent" | "streamGenerateContent" => Endpoint::ModelCall(Api::Gemini),
        "countTokens" => Endpoint::CountTokens,
        "rawPredict" | "streamRawPredict" | "predict" | "serverStreamingPredict" => {
            Endpoint::Cloud(CloudPlatform::Vertex)
        }
        _ => Endpoint::Other,
    })
}

/// The path below the upstream's base: that of OpenAI has its version, the others have none.
pub(super) fn below_base(family: ApiFamily, rest: &str) -> Cow<'_, str> {
    let has_version =
        rest.starts_with("/v1/") || rest.starts_with("/v1beta") || rest.starts_with("/v1alpha");
    match family {
        ApiFamily::OpenAi => {
            let bare = rest.strip_prefix("/v1").filter(|b| b.is_empty() || b.starts_with('/'));
            Cow::Borrowed(bare.unwrap_or(rest))
        }
        ApiFamily::Anthropic if !has_version => Cow::Owned(format!("/v1{rest}")),
        ApiFamily::Gemini if !has_version => Cow::Owned(format!("/v1beta{rest}")),
        ApiFamily::Anthropic | ApiFamily::Gemini => Cow::Borrowed(rest),
    }
}
