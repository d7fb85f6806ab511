//! Gateways, requests and answers for the tests.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use endstop_core::Program;
use endstop_core::policy::Policy;
use endstop_core::probe::Probes;
use endstop_core::run::Status;
use endstop_gateway::{Config, Control, Gateway, Key, PauseLimit, Runs, Upstreams};
use endstop_runtime::store::RunId;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::fake::Fake;

pub(crate) const RUN: &str = "run-1";

pub(crate) fn id() -> RunId {
    RunId::parse(RUN).unwrap()
}

pub(crate) fn config(policy: &str, upstream: SocketAddr) -> Config {
    let policy = Policy::from_toml(policy).unwrap();
    let upstreams = Upstreams::all(&format!("http://{upstream}")).unwrap();
    let program = Arc::new(Program::new(&policy, &Probes::new()).unwrap());
    Config {
        pause: PauseLimit(Duration::from_secs(30)),
        default_output: 1_000,
        ..Config::new(upstreams, program, Runs::One(id()))
    }
}

/// A control API on a free port, with the token `control-1`.
pub(crate) fn controlled() -> Control {
    let listen = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    Control { listen, token: Some(Key::new("control-1")), ..Control::default() }
}

pub(crate) async fn gateway(policy: &str, upstream: &Fake) -> Gateway {
    Gateway::start(config(policy, upstream.addr)).await.unwrap()
}

/// The environment of a process that an Endstop at this address has started.
pub(crate) fn behind_endstop(addr: SocketAddr) -> impl Fn(&str) -> Option<String> {
    move |name| (name == "ENDSTOP_BASE_URL").then(|| format!("http://{addr}"))
}

/// An answer as the client got it.
#[derive(Clone, Debug)]
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) head: String,
    /// Without the chunks' marks.
    pub(crate) body: Vec<u8>,
    /// Whether it ended properly.
    pub(crate) is_whole: bool,
}

impl Got {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let prefix = format!("{name}:");
        let line = self.head.lines().find(|line| line.to_ascii_lowercase().starts_with(&prefix))?;
        Some(line[prefix.len()..].trim().to_owned())
    }

    /// The words of a chat completion.
    pub(crate) fn words(&self) -> String {
        self.json()["choices"][0]["message"]["content"].as_str().unwrap_or("").to_owned()
    }
}

/// A request, not yet read from.
pub(crate) async fn send(to: SocketAddr, path: &str, headers: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(to).await.unwrap();
    let length = body.len();
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: {to}\r\ncontent-type: application/json\r\n{headers}\
         content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// The complete answer.
pub(crate) async fn receive(mut stream: TcpStream) -> Got {
    let mut all = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(100), stream.read_to_end(&mut all)).await;
    let is_clean = read.expect("no answer in time").is_ok();
    parse(&all, is_clean)
}

pub(crate) fn parse(all: &[u8], is_clean: bool) -> Got {
    let end = all.windows(4).position(|window| window == b"\r\n\r\n").map_or(0, |at| at + 4);
    let head = String::from_utf8_lossy(&all[..end]).into_owned();
    let status = head.split(' ').nth(1).map_or(0, |status| status.parse().unwrap());
    let (mut body, mut is_whole) = (all[end..].to_vec(), is_clean);
    if head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        (body, is_whole) = unchunk(&all[end..]);
    }
    Got { status, head, body, is_whole: is_whole && end > 0 }
}

fn unchunk(mut left: &[u8]) -> (Vec<u8>, bool) {
    let mut out = Vec::new();
    loop {
        let Some(at) = left.windows(2).position(|window| window == b"\r\n") else {
            return (out, false);
        };
        let size = usize::from_str_radix(std::str::from_utf8(&left[..at]).unwrap(), 16).unwrap();
        left = &left[at + 2..];
        if size == 0 {
            return (out, true);
        }
        if left.len() < size + 2 {
            out.extend_from_slice(left);
            return (out, false);
        }
        out.extend_from_slice(&left[..size]);
        left = &left[size + 2..];
    }
}

pub(crate) async fn post(gateway: &Gateway, path: &str, body: &Value) -> Got {
    receive(send(gateway.addr(), path, "", &body.to_string()).await).await
}

pub(crate) async fn chat(gateway: &Gateway, body: &Value) -> Got {
    post(gateway, "/v1/chat/completions", body).await
}

/// Usage of 100 tokens in and 10 out.
pub(crate) fn usage() -> Value {
    json!({ "prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110 })
}

pub(crate) fn reply_text(text: &str) -> String {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 7, "model": "gpt-4o-mini",
        "choices": [{ "index": 0, "finish_reason": "stop",
            "message": { "role": "assistant", "content": text } }],
        "usage": usage(),
    })
    .to_string()
}

pub(crate) fn reply_call(id: &str, tool: &str, arguments: &str) -> String {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 7, "model": "gpt-4o-mini",
        "choices": [{ "index": 0, "finish_reason": "tool_calls",
            "message": { "role": "assistant", "content": null, "tool_calls": [
                { "id": id, "type": "function",
                  "function": { "name": tool, "arguments": arguments } }] } }],
        "usage": usage(),
    })
    .to_string()
}

/// A conversation of an agent that calls a tool again and again.
pub(crate) struct Agent {
    pub(crate) messages: Vec<Value>,
    pub(crate) is_stream: bool,
    pub(crate) extra: Value,
}

impl Agent {
    pub(crate) fn new(task: &str) -> Self {
        let messages = vec![
            json!({ "role": "system", "content": "You are an agent." }),
            json!({ "role": "user", "content": task }),
        ];
        Self { messages, is_stream: false, extra: json!({}) }
    }

    pub(crate) fn request(&self) -> Value {
        let mut request = json!({
            "model": "gpt-4o-mini",
            "messages": self.messages,
            "tools": [{ "type": "function", "function": { "name": "look",
                "parameters": { "type": "object", "properties": {} } } }],
        });
        if self.is_stream {
            request["stream"] = json!(true);
        }
        for (key, value) in self.extra.as_object().unwrap() {
            request[key] = value.clone();
        }
        request
    }

    /// Receives a response, and answers its tool calls; returns whether it had any.
    pub(crate) fn take(&mut self, got: &Got, result: &str) -> bool {
        let message = got.json()["choices"][0]["message"].clone();
        let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
        self.messages.push(message);
        for call in &calls {
            self.messages
                .push(json!({ "role": "tool", "tool_call_id": call["id"], "content": result }));
        }
        !calls.is_empty()
    }

    /// Runs until it ends on its own; returns the answers.
    pub(crate) async fn run(&mut self, gateway: &Gateway, path: &str) -> Vec<Got> {
        self.run_with(gateway, path, |turn| format!("result {turn}")).await
    }

    /// Like [`Self::run`], with the same result for every tool.
    pub(crate) async fn run_same(&mut self, gateway: &Gateway, path: &str) -> Vec<Got> {
        self.run_with(gateway, path, |_| "the same".to_owned()).await
    }

    async fn run_with(
        &mut self,
        gateway: &Gateway,
        path: &str,
        result: impl Fn(usize) -> String,
    ) -> Vec<Got> {
        let mut all = Vec::new();
        for turn in 0..100 {
            let got = post(gateway, path, &self.request()).await;
            all.push(got.clone());
            if got.status != 200 || !self.take(&got, &result(turn)) {
                return all;
            }
        }
        panic!("it never ended: {} answers", all.len());
    }
}

pub(crate) fn reading(gateway: &Gateway, gauge: &str) -> u64 {
    gateway.run(&id()).unwrap().look(|run| run.gauge(gauge)).unwrap_or(0)
}

pub(crate) fn status(gateway: &Gateway) -> Status {
    gateway.run(&id()).unwrap().status()
}

/// Waits until everything that was sent has arrived and was processed. In a test everything runs in one thread, and each
/// turn of its loop takes what is on its way one station further, however long the machine lets it wait.
pub(crate) async fn all_that_is_on_its_way() {
    const TURNS: usize = 50;
    for _ in 0..TURNS {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..20_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("not so: {what}");
}
