//! Calls of clients, as few bytes of HTTP as they need.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use super::place::TOKEN;

/// No answer takes longer: a call that waits for holds of a gateway that was killed takes a minute.
const LONGEST: Duration = Duration::from_secs(120);

/// An API of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Api {
    Chat,
    Messages,
    Responses,
}

/// A call of a run.
#[derive(Clone, Debug)]
pub(super) struct Call<'c> {
    pub(super) run: &'c str,
    pub(super) api: Api,
    pub(super) model: &'c str,
    pub(super) cap: u64,
    /// How many answers it wants at once. Only chat completions can have several.
    pub(super) choices: u64,
    pub(super) is_stream: bool,
    /// The key of the client.
    pub(super) key: &'c str,
}

impl Call<'_> {
    fn path(&self) -> String {
        let api = match self.api {
            Api::Chat => "chat/completions",
            Api::Messages => "messages",
            Api::Responses => "responses",
        };
        if self.run.is_empty() { format!("/v1/{api}") } else { format!("/r/{}/v1/{api}", self.run) }
    }

    fn body(&self) -> Value {
        let (model, cap, is_stream) = (self.model, self.cap, self.is_stream);
        if self.api == Api::Responses {
            return json!({ "model": model, "max_output_tokens": cap, "stream": is_stream, "input": "Go on." });
        }
        let messages = [json!({ "role": "user", "content": "Go on." })];
        let mut body =
            json!({ "model": model, "max_tokens": cap, "stream": is_stream, "messages": messages });
        if let (Some(object), true) = (body.as_object_mut(), self.choices > 1) {
            object.insert("n".to_owned(), self.choices.into());
        }
        body
    }

    /// Sends it. [`read`] reads the answer.
    pub(super) fn begin(&self, address: &str) -> Result<TcpStream, String> {
        send(address, "POST", &self.path(), self.key, &self.body().to_string())
    }

    /// Sends it, and reads the answer.
    pub(super) fn make(&self, address: &str) -> Result<Answer, String> {
        Ok(read(self.begin(address)?))
    }
}

/// An answer, or the part of it that was received.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    /// 0 if there was none.
    pub(super) status: u16,
    head: String,
    pub(super) body: String,
    /// Whether nothing of it is missing.
    pub(super) is_whole: bool,
}

impl Answer {
    /// Why the gateway stopped the run, if it did.
    pub(super) fn reason(&self) -> Option<&str> {
        self.header("x-endstop-reason")
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    /// Whether a model has answered.
    pub(super) fn is_served(&self) -> bool {
        self.status == 200 && self.is_whole && self.reason().is_none()
    }
}

/// Reads something that needs the word of the control API, or none.
pub(super) fn get(address: &str, path: &str) -> Result<Answer, String> {
    Ok(read(send(address, "GET", path, TOKEN, "")?))
}

fn send(
    address: &str,
    method: &str,
    path: &str,
    key: &str,
    body: &str,
) -> Result<TcpStream, String> {
    let failed = |error: std::io::Error| format!("{address}: {error}");
    let mut stream = TcpStream::connect(address).map_err(failed)?;
    stream.set_read_timeout(Some(LONGEST)).map_err(failed)?;
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).map_err(failed)?;
    Ok(stream)
}

/// Reads until the connection ends, in whichever way.
pub(super) fn read(mut stream: TcpStream) -> Answer {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return Answer::default() };
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let mut answer =
        Answer { status, head: head.to_owned(), body: body.to_owned(), is_whole: false };
    answer.is_whole =
        match answer.header("content-length").and_then(|text| text.parse::<usize>().ok()) {
            Some(length) => body.len() == length,
            None => body.ends_with("\r\n0\r\n\r\n"),
        };
    answer
}
