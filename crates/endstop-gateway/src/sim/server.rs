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
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use xxhash_rust::xxh3::xxh3_64;

use super::ask::Ask;
use super::kept::Kept;
use super::plan::{self, Reply};
use super::route::{self, Family, Route};
use super::script::Script;
use super::wire::{Answer, Piece, SLOW};
use super::{chat, gemini, messages, responses};
use crate::api::Api;

/// Bytes of a request's body that are read.
const MAX_REQUEST: usize = 32 << 20;
/// Connections at the same time; more wait.
const MAX_CONNECTIONS: usize = 4_096;
/// A client has this long to send a request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Between the half of an answer and the cut, so that the half is sent.
const BEFORE_CUT: Duration = Duration::from_millis(20);

type Body = UnsyncBoxBody<Bytes, io::Error>;

/// A model call that reached the scripted model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimCall {
    /// The interface.
    pub api: Api,
    /// The model.
    pub model: String,
    /// Whether a stream was asked for.
    pub is_stream: bool,
    /// Whether usage was asked for in the stream; always true where it comes anyway.
    pub wants_usage: bool,
    /// Messages or items in the request.
    pub messages: usize,
    /// Results of tools in the request.
    pub results: usize,
    /// Tools that may be called: none where `tool_choice` forbids it.
    pub tools: usize,
    /// The output cap, in tokens.
    pub output_cap: Option<u64>,
    /// Bytes of the body.
    pub bytes: usize,
}

impl SimCall {
    /// How many are kept; the oldest is forgotten first.
    pub const MAX_KEPT: usize = 1_000;

    fn of(ask: &Ask, bytes: usize) -> Self {
        let may_call = ask.choice != super::ask::Choice::None;
        Self {
            api: ask.api,
            model: ask.model.chars().take(200).collect(),
            is_stream: ask.is_stream,
            wants_usage: ask.wants_usage,
            messages: ask.messages,
            results: ask.results,
            tools: if may_call { ask.tools.len() } else { 0 },
            output_cap: ask.cap,
            bytes,
        }
    }
}

/// What all connections share.
#[derive(Debug)]
pub(super) struct Shared {
    script: Script,
    calls: AtomicU64,
    abandoned: AtomicU64,
    log: Mutex<VecDeque<SimCall>>,
    kept: Mutex<Kept>,
}

impl Shared {
    pub(super) fn new(script: Script) -> Self {
        Self {
            script,
            calls: AtomicU64::new(0),
            abandoned: AtomicU64::new(0),
            log: Mutex::default(),
            kept: Mutex::default(),
        }
    }

    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    pub(super) fn abandoned(&self) -> u64 {
        self.abandoned.load(Ordering::SeqCst)
    }

    pub(super) fn log(&self) -> Vec<SimCall> {
        lock(&self.log).iter().cloned().collect()
    }

    /// Remembers a call; tells its number, from 1.
    fn remember(&self, call: SimCall) -> u64 {
        let mut log = lock(&self.log);
        log.push_back(call);
        if log.len() > SimCall::MAX_KEPT {
            log.pop_front();
        }
        self.calls.fetch_add(1, Ordering::SeqCst).saturating_add(1)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Accepts connections until it is dropped, and its connections with it.
pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>) {
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
    // A client that goes away is no fault of the server.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

async fn respond(request: Request<Incoming>, shared: &Arc<Shared>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let query = head.uri.query().unwrap_or_default();
    let route = Route::of(&head.method, head.uri.path(), query, &head.headers);
    match &route {
        Route::Root => return json_response(200, &json!({ "sim": shared.script.to_string() })),
        Route::Stats => {
            let stats = json!({ "calls": shared.calls(), "abandoned": shared.abandoned() });
            return json_response(200, &stats);
        }
        Route::Models(family) => return json_response(200, &route::models(*family)),
        Route::Unknown(family) => return failed(*family, 404, "There is nothing at this path."),
        _ => {}
    }
    let bytes = match Limited::new(body, MAX_REQUEST).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            return failed(route.family(), 413, "The request is too large.");
        }
        Err(_) => return failed(route.family(), 400, "The request did not come to its end."),
    };
    match read(&route, &bytes) {
        Ok(ask) => answer(&route, ask, &bytes, shared).await,
        Err(why) => failed(route.family(), 400, &why),
    }
}

fn read(route: &Route, bytes: &[u8]) -> Result<Ask, String> {
    let body: Value =
        serde_json::from_slice(bytes).map_err(|error| format!("The body is no JSON: {error}."))?;
    let mut ask = match route {
        Route::Responses => responses::read(&body),
        Route::Messages => messages::read(&body),
        Route::CountTokens => messages::read_to_count(&body),
        Route::Gemini { model, is_stream, is_sse } => {
            gemini::read(&body, model, *is_stream, *is_sse)
        }
        Route::GeminiCount { model } => gemini::read(&body, model, false, false),
        _ => chat::read(&body),
    }?;
    ask.input_tokens = plan::tokens(bytes.len());
    Ok(ask)
}

async fn answer(route: &Route, mut ask: Ask, bytes: &[u8], shared: &Arc<Shared>) -> Response<Body> {
    match route {
        Route::CountTokens => return json_response(200, &messages::tokens_counted(&ask)),
        Route::GeminiCount { .. } => return json_response(200, &gemini::tokens_counted(&ask)),
        _ => {}
    }
    let call = shared.remember(SimCall::of(&ask, bytes.len()));
    if !lock(&shared.kept).complete(&mut ask) {
        return match ask.api {
            Api::Messages => json_response(404, &route::thread_not_found()),
            _ => failed(route.family(), 400, "The previous response is not known here."),
        };
    }
    let script = Script::of_model(&ask.model).unwrap_or(shared.script);
    if script == Script::Fail && call.is_multiple_of(2) {
        let status = match call % 6 {
            2 => 500,
            4 => 529,
            _ => 429,
        };
        return failed(route.family(), status, "The scripted model fails here.");
    }
    let reply = Reply::of(script, &ask, format!("{:016x}", xxh3_64(bytes)));
    let answer = match ask.api {
        Api::Responses => responses::answer(&ask, &reply),
        Api::Messages => messages::answer(&ask, &reply),
        Api::Gemini => gemini::answer(&ask, &reply),
        _ => chat::answer(&ask, &reply),
    };
    lock(&shared.kept).keep(&ask, &reply);
    send(script, answer, &reply, Watched::new(shared)).await
}

/// Sends an answer as the script has it: at once, slowly, or in part.
async fn send(script: Script, answer: Answer, reply: &Reply, watched: Watched) -> Response<Body> {
    match answer {
        Answer::Whole(value) => {
            if script == Script::Slow {
                let words = u32::try_from(reply.words()).unwrap_or(u32::MAX);
                tokio::time::sleep(SLOW.saturating_mul(words)).await;
            }
            if script != Script::Cut {
                watched.done();
                return json_response(200, &value);
            }
            let text = Bytes::from(value.to_string());
            let half = text.slice(..text.len() / 2);
            let acts = VecDeque::from([Act::Send(half), Act::Wait(BEFORE_CUT), Act::Cut]);
            let mut response = response(200, "application/json", played(acts, watched));
            response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(text.len()));
            response
        }
        Answer::Stream { content_type, pieces } => {
            response(200, content_type, played(acts(script, pieces), watched))
        }
    }
}

/// What is done to send a stream.
#[derive(Debug)]
enum Act {
    Wait(Duration),
    Send(Bytes),
    /// Ends the connection without the end of the answer.
    Cut,
}

fn acts(script: Script, mut pieces: Vec<Piece>) -> VecDeque<Act> {
    let is_cut = script == Script::Cut;
    if is_cut {
        pieces.truncate(pieces.len().div_ceil(2));
    }
    let mut acts = VecDeque::new();
    for piece in pieces {
        if script == Script::Slow && piece.is_word {
            acts.push_back(Act::Wait(SLOW));
        }
        acts.push_back(Act::Send(piece.bytes));
    }
    if is_cut {
        acts.extend([Act::Wait(BEFORE_CUT), Act::Cut]);
    }
    acts
}

fn played(acts: VecDeque<Act>, watched: Watched) -> Body {
    let stream = unfold((acts, watched), |(mut acts, watched)| async move {
        loop {
            match acts.pop_front() {
                Some(Act::Wait(time)) => tokio::time::sleep(time).await,
                Some(Act::Send(bytes)) => {
                    return Some((Ok(Frame::data(bytes)), (acts, watched)));
                }
                Some(Act::Cut) => {
                    watched.done();
                    let cut = io::Error::other("the script cuts here");
                    return Some((Err(cut), (VecDeque::new(), Watched(None))));
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

/// Counts an answer as abandoned if it is dropped before it is whole.
struct Watched(Option<Arc<Shared>>);

impl Watched {
    fn new(shared: &Arc<Shared>) -> Self {
        Self(Some(Arc::clone(shared)))
    }

    fn done(mut self) {
        self.0 = None;
    }
}

impl Drop for Watched {
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
