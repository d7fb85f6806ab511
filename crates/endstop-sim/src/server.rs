//! The scripted model as a server: connections, calls, answers as they are sent.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::unfold;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use xxhash_rust::xxh3::xxh3_64;

use crate::limits::{
    BEFORE_CUT, HEAD_TIMEOUT, MAX_CONNECTIONS, MAX_LOGGED_CALLS, MAX_REQUEST, SLOW_WORD,
};
use crate::plan::{self, PlannedResponse};
use crate::request::SimRequest;
use crate::route::{self, Family, Route};
use crate::script::Script;
use crate::threads::Threads;
use crate::wire::{Answer, Piece};
use crate::{Api, SimCall};
use crate::{chat, gemini, messages, responses};

type Body = UnsyncBoxBody<Bytes, io::Error>;

/// The shared state of all connections.
#[derive(Debug)]
pub(crate) struct Shared {
    script: Script,
    calls: AtomicU64,
    abandoned: AtomicU64,
    /// Of all answers, whether or not their client took them.
    input_tokens: AtomicU64,
    output_tokens: AtomicU64,
    log: Mutex<VecDeque<SimCall>>,
    kept: Mutex<Threads>,
}

impl Shared {
    pub(crate) fn new(script: Script) -> Self {
        Self {
            script,
            calls: AtomicU64::new(0),
            abandoned: AtomicU64::new(0),
            input_tokens: AtomicU64::new(0),
            output_tokens: AtomicU64::new(0),
            log: Mutex::default(),
            kept: Mutex::default(),
        }
    }

    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    pub(crate) fn abandoned(&self) -> u64 {
        self.abandoned.load(Ordering::SeqCst)
    }

    pub(crate) fn log(&self) -> Vec<SimCall> {
        lock(&self.log).iter().cloned().collect()
    }

    /// The counts as JSON.
    fn stats(&self) -> Value {
        json!({
            "calls": self.calls(),
            "abandoned": self.abandoned(),
            "input_tokens": self.input_tokens.load(Ordering::SeqCst),
            "output_tokens": self.output_tokens.load(Ordering::SeqCst),
        })
    }

    /// Counts the usage that an answer reports.
    fn bill(&self, reply: &PlannedResponse) {
        self.input_tokens.fetch_add(reply.input_tokens, Ordering::SeqCst);
        self.output_tokens.fetch_add(reply.output_tokens, Ordering::SeqCst);
    }

    /// Records a call; returns its number, from 1.
    fn remember(&self, call: SimCall) -> u64 {
        let mut log = lock(&self.log);
        log.push_back(call);
        if log.len() > MAX_LOGGED_CALLS {
            log.pop_front();
        }
        self.calls.fetch_add(1, Ordering::SeqCst).saturating_add(1)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Accepts connections until it is dropped, and its connections with it.
pub(crate) async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    while let Ok(place) = Arc::clone(&room).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let shared = Arc::clone(&shared);
                connections.spawn(async move {
                    serve(stream, shared).await;
                    drop(place);
                });
            }
            // Out of descriptors, or a client that is gone already: the next may do.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    // Words that wait for more words would come late.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(respond(request, &shared).await) }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    // A client that disconnects is not an error of the server.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

async fn respond(request: Request<Incoming>, shared: &Arc<Shared>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let query = head.uri.query().unwrap_or_default();
    let route = Route::of(&head.method, head.uri.path(), query, &head.headers);
    match &route {
        Route::Root => return json_response(200, &json!({ "sim": shared.script.to_string() })),
        Route::Stats => return json_response(200, &shared.stats()),
        Route::Models(family) => return json_response(200, &route::models(*family)),
        Route::Unknown(family) => return failed(*family, 404, "There is nothing at this path."),
        _ => {}
    }
    let bytes = match Limited::new(body, MAX_REQUEST).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            return failed(route.family(), 413, "The request is too large.");
        }
        Err(_) => return failed(route.family(), 400, "The request is incomplete."),
    };
    match read(&route, &bytes) {
        Ok(request) => answer(&route, request, &bytes, shared).await,
        Err(why) => failed(route.family(), 400, &why.to_string()),
    }
}

/// Why a request is not answered.
#[derive(Debug, Error)]
enum BadRequest {
    #[error("The body is not JSON: {0}.")]
    NotJson(#[from] serde_json::Error),
    #[error("{0}")]
    Invalid(&'static str),
}

fn read(route: &Route, bytes: &[u8]) -> Result<SimRequest, BadRequest> {
    let body: Value = serde_json::from_slice(bytes)?;
    let mut request = match route {
        Route::Responses | Route::ResponsesCount => responses::read(&body),
        Route::Messages => messages::read(&body),
        Route::CountTokens => messages::read_to_count(&body),
        Route::Gemini { model, is_stream, is_sse } => {
            gemini::read(&body, model, *is_stream, *is_sse)
        }
        Route::GeminiCount { model } => {
            // Either the contents alone, or a whole request.
            let whole = body.get("generateContentRequest").unwrap_or(&body);
            gemini::read(whole, model, false, false)
        }
        _ => chat::read(&body),
    }
    .map_err(BadRequest::Invalid)?;
    request.input_tokens = plan::tokens(bytes.len());
    Ok(request)
}

async fn answer(
    route: &Route,
    mut request: SimRequest,
    bytes: &[u8],
    shared: &Arc<Shared>,
) -> Response<Body> {
    match route {
        Route::CountTokens => return json_response(200, &messages::tokens_counted(&request)),
        Route::GeminiCount { .. } => return json_response(200, &gemini::tokens_counted(&request)),
        Route::ResponsesCount => return json_response(200, &responses::tokens_counted(&request)),
        _ => {}
    }
    let call = shared.remember(SimCall::of(&request, bytes.len()));
    if !lock(&shared.kept).complete(&mut request) {
        return match request.api {
            Api::Messages => json_response(404, &route::thread_not_found()),
            _ => failed(route.family(), 400, "The previous response is not known here."),
        };
    }
    let script = Script::of_model(&request.model).unwrap_or(shared.script);
    if script == Script::Fail && call.is_multiple_of(2) {
        let status = match call % 6 {
            2 => 500,
            4 => 529,
            _ => 429,
        };
        return failed(route.family(), status, "The scripted model fails here.");
    }
    let reply = PlannedResponse::of(script, &request, format!("{:016x}", xxh3_64(bytes)));
    shared.bill(&reply);
    let answer = match request.api {
        Api::Responses => responses::answer(&request, &reply),
        Api::Messages => messages::answer(&request, &reply),
        Api::Gemini => gemini::answer(&request, &reply),
        _ => chat::answer(&request, &reply),
    };
    lock(&shared.kept).keep(&request, &reply);
    send(script, answer, &reply, AbandonGuard::new(shared)).await
}

/// Sends an answer as the script has it: at once, slowly, or in part.
async fn send(
    script: Script,
    answer: Answer,
    reply: &PlannedResponse,
    watched: AbandonGuard,
) -> Response<Body> {
    match answer {
        Answer::Whole(value) => {
            if script == Script::Slow {
                let words = u32::try_from(reply.words()).unwrap_or(u32::MAX);
                tokio::time::sleep(SLOW_WORD.saturating_mul(words)).await;
            }
            if script != Script::Cut {
                watched.done();
                return json_response(200, &value);
            }
            let text = Bytes::from(value.to_string());
            let half = text.slice(..text.len() / 2);
            let acts =
                VecDeque::from([SendStep::Send(half), SendStep::Wait(BEFORE_CUT), SendStep::Cut]);
            let mut response = response(200, "application/json", played(acts, watched));
            response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(text.len()));
            response
        }
        Answer::Stream { content_type, pieces } => {
            response(200, content_type, played(acts(script, pieces), watched))
        }
    }
}

/// The next act of sending a stream.
#[derive(Debug)]
enum SendStep {
    Wait(Duration),
    Send(Bytes),
    /// Ends the connection without the end of the answer.
    Cut,
}

fn acts(script: Script, mut pieces: Vec<Piece>) -> VecDeque<SendStep> {
    let is_cut = script == Script::Cut;
    if is_cut {
        pieces.truncate(pieces.len().div_ceil(2));
    }
    let mut acts = VecDeque::new();
    for piece in pieces {
        if script == Script::Slow && piece.is_word {
            acts.push_back(SendStep::Wait(SLOW_WORD));
        }
        acts.push_back(SendStep::Send(piece.bytes));
    }
    if is_cut {
        acts.extend([SendStep::Wait(BEFORE_CUT), SendStep::Cut]);
    }
    acts
}

fn played(acts: VecDeque<SendStep>, watched: AbandonGuard) -> Body {
    let stream = unfold((acts, watched), |(mut acts, watched)| async move {
        loop {
            match acts.pop_front() {
                Some(SendStep::Wait(time)) => tokio::time::sleep(time).await,
                Some(SendStep::Send(bytes)) => {
                    return Some((Ok(Frame::data(bytes)), (acts, watched)));
                }
                Some(SendStep::Cut) => {
                    watched.done();
                    let cut = io::Error::other("the script cuts here");
                    return Some((Err(cut), (VecDeque::new(), AbandonGuard(None))));
                }
                None => {
                    watched.done();
                    return None;
                }
            }
        }
    });
    StreamBody::new(stream).boxed_unsync()
}

/// Counts an answer as abandoned if it is dropped before it is complete.
struct AbandonGuard(Option<Arc<Shared>>);

impl AbandonGuard {
    fn new(shared: &Arc<Shared>) -> Self {
        Self(Some(Arc::clone(shared)))
    }

    fn done(mut self) {
        self.0 = None;
    }
}

impl Drop for AbandonGuard {
    fn drop(&mut self) {
        if let Some(shared) = &self.0 {
            shared.abandoned.fetch_add(1, Ordering::SeqCst);
        }
    }
}

fn failed(family: Family, status: u16, message: &str) -> Response<Body> {
    json_response(status, &route::error(family, status, message))
}

fn json_response(status: u16, value: &Value) -> Response<Body> {
    let body = Full::new(Bytes::from(value.to_string()));
    response(status, "application/json", body.map_err(|never| match never {}).boxed_unsync())
}

fn response(status: u16, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests;
