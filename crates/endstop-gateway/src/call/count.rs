//! Counting the input of a call before it is refused: most bytes are a quarter of a token, so the bound by bytes is too
//! high for small budgets. If it does not fit, the upstream counts the tokens, which costs nothing. The request would go
//! to that upstream anyway, with the same credentials. Chat completions have no such endpoint: for OpenAI's own models a
//! tokenizer counts here.

mod local;

use std::pin::pin;

use bytes::Bytes;
use endstop_runtime::{CancelOn, Waited};
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING};
use http::{HeaderValue, Method, Request, StatusCode};

use super::context::CallContext;
use super::parse::ParsedCall;
use super::uncounted::NoCounting;
use super::upstream_response::{WholeBody, plain, read_whole};
use crate::limits::{COUNT_MARGIN, COUNT_TIMEOUT, LOCAL_COUNT_MARGIN, MAX_COUNT_RESPONSE};
use crate::route::ApiFamily;
use crate::run::RunEntry;

/// The most input tokens of a call by the count of its upstream or of its tokenizer. `None` if neither counts.
///
/// # Cancel safety
/// Dropped when the client disconnects; the connection is closed.
pub(super) async fn input_tokens(
    context: &CallContext,
    run: &RunEntry,
    parsed: &ParsedCall,
) -> Option<u64> {
    if let Some(messages) = parsed.dialect().countable_messages(parsed.body()) {
        let is_countable = context.has_openai_tokens(parsed.route())
            && parsed.route().family == ApiFamily::OpenAi
            && !parsed.request().has_media();
        if !is_countable {
            return None;
        }
        let counting = local::count(&parsed.request().model, messages);
        let tokens = match run.handle().wait(&mut pin!(counting), CancelOn::Any).await {
            Waited::Done(tokens) => tokens?,
            _ => return None,
        };
        let counted = with_margin(tokens, LOCAL_COUNT_MARGIN);
        return Some(counted.saturating_add(parsed.request().fixed_bound()));
    }
    let key = NoCounting::key(parsed.api(), &parsed.request().model);
    if context.no_counting().has(key) {
        return None;
    }
    let request = request(context, parsed)?;
    let counting = tokio::time::timeout(COUNT_TIMEOUT, count(context, parsed, request));
    match run.handle().wait(&mut pin!(counting), CancelOn::Any).await {
        Waited::Done(Ok(Count::Tokens(tokens))) => Some(with_margin(tokens, COUNT_MARGIN)),
        Waited::Done(Ok(Count::NoEndpoint)) => {
            context.no_counting().add(key);
            None
        }
        _ => None,
    }
}

fn with_margin(tokens: u64, (percent, more): (u64, u64)) -> u64 {
    let part = tokens.saturating_mul(percent).div_ceil(100);
    tokens.saturating_add(part).saturating_add(more)
}

fn request(context: &CallContext, parsed: &ParsedCall) -> Option<Request<Bytes>> {
    let route = parsed.route();
    let counted = parsed.dialect().count_request(&route.rest, parsed.body())?;
    let mut headers = context.forwarded(route, &parsed.head().headers);
    headers.remove(CONTENT_ENCODING);
    // It is the key of the call itself.
    headers.remove("idempotency-key");
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    let mut request = Request::new(Bytes::from(counted.body));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = counted.path.parse().ok()?;
    *request.headers_mut() = headers;
    Some(request)
}

/// The outcome of a count request.
enum Count {
    Tokens(u64),
    NoEndpoint,
    /// The request was refused, or the answer cannot be read.
    Unknown,
}

async fn count(context: &CallContext, parsed: &ParsedCall, request: Request<Bytes>) -> Count {
    let Ok(response) = context.send(parsed.route(), request).await else {
        return Count::Unknown;
    };
    let (parts, mut body) = response.into_parts();
    match parts.status {
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => {
            return Count::NoEndpoint;
        }
        status if !status.is_success() => return Count::Unknown,
        _ => {}
    }
    let read = read_whole(&mut body, MAX_COUNT_RESPONSE, &mut 0).await;
    let Ok(WholeBody::Complete(bytes)) = read else { return Count::Unknown };
    let text = plain(&parts.headers, &bytes, MAX_COUNT_RESPONSE);
    let tokens = text.and_then(|text| parsed.dialect().counted_tokens(&text));
    tokens.map_or(Count::Unknown, Count::Tokens)
}
