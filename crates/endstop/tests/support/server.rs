//! A small HTTP server for tests of models: it answers as a script says, on a free port of this machine.
//!
//! It counts requests and keeps their bodies, and it reports when a client disconnected in the middle of an
//! answer. A test file includes it with `#[path = "support/server.rs"] mod server;`.
#![expect(clippy::expect_used, reason = "helpers of tests fail as tests do")]

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// The longest that a test waits for something that has to happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The answer to a request.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    steps: Vec<Step>,
    ending: Ending,
}

/// The next part of an answer.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Nothing is sent for this time.
    Wait(Duration),
    /// The status line and the headers are sent, if they are not yet.
    Head,
    /// A piece of the body.
    Send(Vec<u8>),
}

/// How an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// As HTTP says. The connection can be used again.
    Whole,
    /// The connection is reset.
    Reset,
    /// The connection stays open and silent until the client closes it.
    Silence,
}

impl Answer {
    /// One JSON document.
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self {
            status,
            headers: vec![("content-type".into(), "application/json".into())],
            steps: vec![Step::Send(body.to_string().into_bytes())],
            ending: Ending::Whole,
        }
    }

    /// Server-sent events, each in a separate chunk.
    pub(crate) fn events<S: AsRef<str>>(frames: impl IntoIterator<Item = S>) -> Self {
        let sent = |frame: S| Step::Send(format!("{}\n\n", frame.as_ref()).into_bytes());
        Self {
            status: 200,
            headers: vec![("content-type".into(), "text/event-stream".into())],
            steps: frames.into_iter().map(sent).collect(),
            ending: Ending::Whole,
        }
    }

    /// Adds a header.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Waits before every piece.
    pub(crate) fn slowly(mut self, wait: Duration) -> Self {
        self.steps = self.steps.into_iter().flat_map(|step| [Step::Wait(wait), step]).collect();
        self
    }

    /// Sends the headers, then waits before the first piece.
    pub(crate) fn hesitating(mut self, wait: Duration) -> Self {
        self.steps.splice(0..0, [Step::Head, Step::Wait(wait)]);
        self
    }

    /// Waits before anything is sent.
    pub(crate) fn late(mut self, wait: Duration) -> Self {
        self.steps.insert(0, Step::Wait(wait));
        self
    }

    /// Ends lines with two bytes.
    pub(crate) fn crlf(mut self) -> Self {
        for step in &mut self.steps {
            if let Step::Send(bytes) = step {
                let text = String::from_utf8_lossy(bytes).replace('\n', "\r\n");
                *bytes = text.into_bytes();
            }
        }
        self
    }

    /// Sends the body byte by byte, each in a separate chunk.
    pub(crate) fn byte_by_byte(mut self) -> Self {
        let cut = |step| match step {
            Step::Send(bytes) => bytes.into_iter().map(|byte| Step::Send(vec![byte])).collect(),
            other => vec![other],
        };
        self.steps = self.steps.into_iter().flat_map(cut).collect();
        self
    }

    /// Resets the connection instead of ending the answer.
    pub(crate) fn reset(mut self) -> Self {
        self.ending = Ending::Reset;
        self
    }

    /// Sends nothing more instead of ending the answer.
    pub(crate) fn silent(mut self) -> Self {
        self.ending = Ending::Silence;
        self
    }
}

/// A request that came in.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// The path with the query.
    pub(crate) path: String,
    /// The headers, names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    /// The body; `Null` if it is not JSON.
    pub(crate) body: Value,
}

impl Seen {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

type Script = dyn Fn(&Seen, usize) -> Answer + Send + Sync;

struct State {
    script: Box<Script>,
    log: Mutex<Log>,
    closed: Notify,
}

#[derive(Default)]
struct Log {
    seen: Vec<Seen>,
    /// Of each answer that a client left in its middle, how many pieces had been sent.
    left: Vec<usize>,
}

/// The server. It is gone when this is dropped.
pub(crate) struct Server {
    address: String,
    state: Arc<State>,
    listening: AbortHandle,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl Server {
    /// Answers the first request with the first answer and so on, and further ones with the last.
    pub(crate) async fn start(answers: Vec<Answer>) -> Self {
        Self::start_with(move |_, index| {
            answers.get(index).or(answers.last()).cloned().expect("an answer")
        })
        .await
    }

    /// Answers each request with what a function makes of it and of the number of requests before it.
    pub(crate) async fn start_with(
        script: impl Fn(&Seen, usize) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address").to_string();
        let script = Box::new(script);
        let state = Arc::new(State { script, log: Mutex::default(), closed: Notify::new() });
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        Self { address, state, listening: task.abort_handle() }
    }

    /// A URL of this server.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The requests so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.state.log().seen.clone()
    }

    /// The body of the last request.
    pub(crate) fn last_body(&self) -> Value {
        self.seen().pop().expect("a request").body
    }

    /// Waits until this many clients have left in the middle of an answer, and returns how many pieces of
    /// each had been sent.
    pub(crate) async fn left(&self, count: usize) -> Vec<usize> {
        let all = async {
            loop {
                let left = self.state.log().left.clone();
                if left.len() >= count {
                    return left;
                }
                self.state.closed.notified().await;
            }
        };
        tokio::time::timeout(PATIENCE, all).await.expect("the client left")
    }

    /// How many clients have left in the middle of an answer so far.
    pub(crate) fn left_so_far(&self) -> usize {
        self.state.log().left.len()
    }
}

/// Waits until everything that was sent has arrived and was processed. In a test everything runs in one thread, and each
/// turn of its loop takes what is on its way one station further, however long the machine lets it wait.
pub(crate) async fn all_that_is_on_its_way() {
    const TURNS: usize = 25;
    for _ in 0..TURNS {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

impl State {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_left(&self, pieces: usize) {
        self.log().left.push(pieces);
        self.closed.notify_one();
    }
}

async fn serve(stream: TcpStream, state: Arc<State>) {
    // Pieces that are sent one by one are to arrive one by one.
    stream.set_nodelay(true).expect("a socket");
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    while let Ok(Some(seen)) = read_request(&mut reader).await {
        let answer = {
            let mut log = state.log();
            log.seen.push(seen.clone());
            let index = log.seen.len() - 1;
            drop(log);
            (state.script)(&seen, index)
        };
        let mut sent = 0;
        tokio::select! {
            done = send(&answer, &mut writer, &mut sent) => match done {
                Ok(()) if answer.ending == Ending::Whole => continue,
                Ok(()) => {
                    writer.as_ref().set_zero_linger().expect("a socket");
                    return;
                }
                Err(_) => {}
            },
            // A client sends nothing before it has its answer; the end of its bytes is its leaving.
            _ = reader.fill_buf() => {}
        }
        state.note_left(sent);
        return;
    }
}

async fn send(answer: &Answer, writer: &mut OwnedWriteHalf, sent: &mut usize) -> io::Result<()> {
    let mut head = format!("HTTP/1.1 {} Answer\r\ntransfer-encoding: chunked\r\n", answer.status);
    for (name, value) in &answer.headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += "\r\n";
    let mut head = Some(head);
    for step in answer.steps.iter().chain([&Step::Head]) {
        if let Step::Wait(wait) = step {
            tokio::time::sleep(*wait).await;
            continue;
        }
        if let Some(head) = head.take() {
            writer.write_all(head.as_bytes()).await?;
        }
        if let Step::Send(bytes) = step {
            let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
            chunk.extend_from_slice(bytes);
            chunk.extend_from_slice(b"\r\n");
            writer.write_all(&chunk).await?;
            *sent += 1;
        }
    }
    match answer.ending {
        Ending::Whole => writer.write_all(b"0\r\n\r\n").await,
        // The sent bytes have to arrive before the reset, which overtakes them.
        Ending::Reset => {
            all_that_is_on_its_way().await;
            Ok(())
        }
        Ending::Silence => std::future::pending().await,
    }
}

/// One request, or none where the client has closed.
async fn read_request(reader: &mut BufReader<OwnedReadHalf>) -> io::Result<Option<Seen>> {
    let mut line = String::new();
    if reader.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).await?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut seen = Seen { path, headers, body: Value::Null };
    let length = seen.header("content-length").and_then(|length| length.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).await?;
    seen.body = serde_json::from_slice(&body).unwrap_or_default();
    Ok(Some(seen))
}
