//! One client: a connection, and the calls on it.

use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use memchr::memmem;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::bodies::{self, Kind};
use crate::http::Wire;
use crate::options::Options;

/// How one call went.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Nanoseconds until the first byte of the body arrived.
    pub first_ns: u64,
    /// Nanoseconds until the whole of it was.
    pub whole_ns: u64,
    /// Bytes of the body.
    pub size: usize,
}

/// A connection that makes calls, one after the other.
#[derive(Debug)]
pub struct Client {
    target: SocketAddr,
    json: Vec<u8>,
    stream: Vec<u8>,
    wire: Option<Wire>,
    body: Vec<u8>,
}

impl Client {
    /// The client of this number; it connects with its first call.
    pub fn new(options: &Options, number: usize) -> Result<Self, String> {
        let target = options.target()?;
        Ok(Self {
            target,
            json: message(options, target, number, Kind::Json),
            stream: message(options, target, number, Kind::Stream),
            wire: None,
            body: Vec::new(),
        })
    }

    /// Makes a call. `arrived` gets the number of bytes of the body in each read.
    ///
    /// # Errors
    /// Returns an error if the response is not 200, or not complete. The next call connects again then.
    pub async fn call(&mut self, kind: Kind, arrived: impl FnMut(usize)) -> Result<Call, String> {
        let mut wire = match self.wire.take() {
            Some(wire) => wire,
            None => self.connect().await.map_err(|error| error.to_string())?,
        };
        let call = self.on(&mut wire, kind, arrived).await?;
        self.wire = Some(wire);
        Ok(call)
    }

    async fn connect(&self) -> io::Result<Wire> {
        Wire::new(TcpStream::connect(self.target).await?)
    }

    async fn on(
        &mut self,
        wire: &mut Wire,
        kind: Kind,
        mut arrived: impl FnMut(usize),
    ) -> Result<Call, String> {
        let words = |error: io::Error| error.to_string();
        let request = if kind == Kind::Json { &self.json } else { &self.stream };
        let begun = Instant::now();
        wire.socket.write_all(request).await.map_err(words)?;
        let head = wire.head(false).await.map_err(words)?.ok_or("closed without an answer")?;
        let mut first = None;
        let taken = wire
            .body(head.framing, &mut self.body, |bytes| {
                first.get_or_insert_with(Instant::now);
                arrived(bytes);
            })
            .await;
        let whole = begun.elapsed();
        if head.status() != 200 {
            let text = String::from_utf8_lossy(&self.body);
            return Err(format!("{}: {}", head.line, text.chars().take(300).collect::<String>()));
        }
        taken.map_err(words)?;
        if kind == Kind::Stream && memmem::rfind(&self.body, b"[DONE]").is_none() {
            return Err("the stream has no end".to_owned());
        }
        let first = first.map_or(whole, |at| at.duration_since(begun));
        Ok(Call {
            first_ns: nanoseconds(first),
            whole_ns: nanoseconds(whole),
            size: self.body.len(),
        })
    }
}

fn nanoseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A request as it is written.
fn message(options: &Options, target: SocketAddr, number: usize, kind: Kind) -> Vec<u8> {
    let body = bodies::request(kind);
    let path = options.path.replace("{connection}", &number.to_string());
    let mut text = format!(
        "POST {path} HTTP/1.1\r\nhost: {target}\r\ncontent-type: application/json\r\n\
         accept: application/json\r\nuser-agent: gateway-load\r\ncontent-length: {}\r\n",
        body.len()
    );
    for header in &options.headers {
        text.push_str(header);
        text.push_str("\r\n");
    }
    text.push_str("\r\n");
    let mut message = text.into_bytes();
    message.extend(body);
    message
}

/// Asks the upstream itself: sets a gap, or how many calls it has answered.
///
/// # Errors
/// Where it does not answer.
pub async fn control(upstream: SocketAddr, command: &str) -> Result<u64, String> {
    let ask = async {
        let mut wire = Wire::new(TcpStream::connect(upstream).await?)?;
        let request = format!("GET /control/{command} HTTP/1.1\r\nhost: {upstream}\r\n\r\n");
        wire.socket.write_all(request.as_bytes()).await?;
        let mut body = Vec::new();
        if let Some(head) = wire.head(false).await? {
            wire.body(head.framing, &mut body, |_| {}).await?;
        }
        Ok(String::from_utf8_lossy(&body).into_owned())
    };
    let text: io::Result<String> = ask.await;
    let text = text.map_err(|error| format!("the upstream: {error}"))?;
    text.parse().map_err(|_| format!("the upstream said `{text}`"))
}
