//! A provider that answers Anthropic messages from a script, and a client that plays the agent.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::case::{Case, Turn, result_of};

pub(crate) const MODEL: &str = "claude-sonnet-4-5";
pub(crate) const TOOLS: [&str; 3] = ["search", "read", "submit"];

/// The provider; dropping it closes the port.
pub(crate) struct Provider {
    pub(crate) addr: SocketAddr,
    _connections: JoinSet<()>,
}

impl Provider {
    /// Answers the n-th request with the n-th answer of the case.
    pub(crate) async fn start(case: &Case) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let answers = Arc::new(Mutex::new(case.answers().into_iter().enumerate()));
        let mut connections = JoinSet::new();
        connections.spawn(async move {
            let mut served = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let answers = Arc::clone(&answers);
                let service = service_fn(move |request: Request<Incoming>| {
                    let answers = Arc::clone(&answers);
                    async move {
                        let body = request.into_body().collect().await.unwrap().to_bytes();
                        let body: Value = serde_json::from_slice(&body).unwrap();
                        let next = answers.lock().unwrap().next();
                        Ok::<_, Infallible>(response(next, body["stream"] == true))
                    }
                });
                served.spawn(async move {
                    drop(
                        http1::Builder::new().serve_connection(TokioIo::new(stream), service).await,
                    );
                });
            }
        });
        Self { addr, _connections: connections }
    }
}

fn response(next: Option<(usize, Option<Turn>)>, is_stream: bool) -> Response<Full<Bytes>> {
    let (status, body) = match next {
        Some((request, Some(turn))) if is_stream => {
            let body = Full::new(Bytes::from(events(&message(&turn, request))));
            return Response::builder().header("content-type", STREAM).body(body).unwrap();
        }
        Some((request, Some(turn))) => (200, message(&turn, request)),
        Some((_, None)) => (429, error("rate_limit_error", "slow down")),
        None => (400, error("invalid_request_error", "the script is over")),
    };
    let body = Full::new(Bytes::from(body.to_string()));
    let response = Response::builder().status(status).header("content-type", "application/json");
    response.body(body).unwrap()
}

fn error(kind: &str, message: &str) -> Value {
    json!({ "type": "error", "error": { "type": kind, "message": message } })
}

fn message(turn: &Turn, request: usize) -> Value {
    let mut content = Vec::new();
    if !turn.text.is_empty() {
        content.push(json!({ "type": "text", "text": turn.text }));
    }
    for (place, call) in turn.calls.iter().enumerate() {
        content.push(json!({
            "type": "tool_use", "id": format!("call_{request}_{place}"), "name": call.tool,
            "input": call.arguments(),
        }));
    }
    json!({
        "id": format!("msg_{request}"), "type": "message", "role": "assistant", "model": MODEL,
        "content": content, "stop_reason": turn.finish, "stop_sequence": null,
        "usage": {
            "input_tokens": turn.input - turn.cached, "cache_read_input_tokens": turn.cached,
            "cache_creation_input_tokens": 0, "output_tokens": turn.output,
        },
    })
}

const STREAM: &str = "text/event-stream";

/// The events of a message. Each block arrives in two pieces.
fn events(message: &Value) -> String {
    let mut text = String::new();
    let mut push = |event: Value| {
        let kind = event["type"].as_str().unwrap();
        write!(text, "event: {kind}\ndata: {event}\n\n").unwrap();
    };
    let mut start = message.clone();
    start["content"] = json!([]);
    start["stop_reason"] = Value::Null;
    start["usage"]["output_tokens"] = json!(1);
    push(json!({ "type": "message_start", "message": start }));
    for (index, block) in message["content"].as_array().unwrap().iter().enumerate() {
        let (mut empty, kind, key, whole) = match block["text"].as_str() {
            Some(text) => (block.clone(), "text_delta", "text", text.to_owned()),
            None => (block.clone(), "input_json_delta", "partial_json", block["input"].to_string()),
        };
        match block["type"] == "text" {
            true => empty["text"] = json!(""),
            false => empty["input"] = json!({}),
        }
        push(json!({ "type": "content_block_start", "index": index, "content_block": empty }));
        let (first, second) = whole.split_at(whole.len() / 2);
        for piece in [first, second] {
            let delta = json!({ "type": kind, key: piece });
            push(json!({ "type": "content_block_delta", "index": index, "delta": delta }));
        }
        push(json!({ "type": "content_block_stop", "index": index }));
    }
    let delta = json!({ "stop_reason": message["stop_reason"], "stop_sequence": null });
    push(json!({ "type": "message_delta", "delta": delta,
        "usage": { "output_tokens": message["usage"]["output_tokens"] } }));
    push(json!({ "type": "message_stop" }));
    text
}

/// The message of events.
fn message_of(events: &str) -> Value {
    let mut content: Vec<Value> = Vec::new();
    let mut pieces: Vec<String> = Vec::new();
    for data in events.lines().filter_map(|line| line.strip_prefix("data: ")) {
        let event: Value = serde_json::from_str(data).unwrap();
        match event["type"].as_str().unwrap() {
            "content_block_start" => {
                content.push(event["content_block"].clone());
                pieces.push(String::new());
            }
            "content_block_delta" => {
                let delta = &event["delta"];
                let piece = delta["text"].as_str().or(delta["partial_json"].as_str()).unwrap();
                pieces.last_mut().unwrap().push_str(piece);
            }
            "content_block_stop" => {
                let (block, piece) = (content.last_mut().unwrap(), pieces.last().unwrap());
                match block["type"] == "text" {
                    true => block["text"] = json!(piece),
                    false => block["input"] = serde_json::from_str(piece).unwrap(),
                }
            }
            _ => {}
        }
    }
    json!({ "content": content })
}

/// An agent that does not know of the gateway: it asks, runs the tools that the answer names, and asks again.
pub(crate) struct Client {
    to: SocketAddr,
    connection: SendRequest<Full<Bytes>>,
    messages: Vec<Value>,
    is_streaming: bool,
    _driver: JoinSet<()>,
}

impl Client {
    pub(crate) async fn connect(to: SocketAddr, is_streaming: bool) -> Self {
        let stream = TcpStream::connect(to).await.unwrap();
        let (connection, driver) = handshake(TokioIo::new(stream)).await.unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { drop(driver.await) });
        let messages = vec![json!({ "role": "user", "content": "Look into it." })];
        Self { to, connection, messages, is_streaming, _driver: tasks }
    }

    /// Asks until an answer has no tool calls.
    pub(crate) async fn run(&mut self) {
        loop {
            match self.ask().await {
                (200, answer) => {
                    if !self.take(&answer) {
                        return;
                    }
                }
                (429, _) => {}
                (status, answer) => panic!("status {status}: {answer}"),
            }
        }
    }

    async fn ask(&mut self) -> (u16, Value) {
        let tool = |name: &&str| {
            json!({ "name": name, "description": "Does what the script says.",
                "input_schema": { "type": "object" } })
        };
        let body = json!({
            "model": MODEL, "max_tokens": 1_000, "messages": self.messages, "stream": self.is_streaming,
            "tools": TOOLS.iter().map(tool).collect::<Vec<_>>(),
        });
        let request = Request::post("/v1/messages")
            .header("host", self.to.to_string())
            .header("content-type", "application/json")
            .header("x-api-key", "test")
            .body(Full::new(Bytes::from(body.to_string())))
            .unwrap();
        self.connection.ready().await.unwrap();
        let response = self.connection.send_request(request).await.unwrap();
        let status = response.status().as_u16();
        let is_stream = response.headers()["content-type"].to_str().unwrap().starts_with(STREAM);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        if is_stream {
            return (status, message_of(str::from_utf8(&body).unwrap()));
        }
        (status, serde_json::from_slice(&body).unwrap())
    }

    /// Reads an answer and gives the results of its tool calls; whether there were some.
    fn take(&mut self, answer: &Value) -> bool {
        let content = answer["content"].as_array().unwrap();
        let calls = content.iter().filter(|block| block["type"] == "tool_use");
        let results: Vec<Value> = calls
            .map(|call| {
                let (result, failed) = result_of(call["input"].as_object().unwrap());
                json!({ "type": "tool_result", "tool_use_id": call["id"], "content": result,
                    "is_error": failed })
            })
            .collect();
        self.messages.push(json!({ "role": "assistant", "content": content }));
        let has_results = !results.is_empty();
        if has_results {
            self.messages.push(json!({ "role": "user", "content": results }));
        }
        has_results
    }
}
