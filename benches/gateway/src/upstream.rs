//! The model provider: answers every call at once, and says how many it answered.
//!
//! `GET /control/gap/N` sets the microseconds between the events of a stream, 0 for all in one write;
//! `GET /control/served` is how many calls were answered.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use memchr::memmem;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use crate::bodies;
use crate::http::Wire;

const STREAM_HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
    cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n";
const END: &[u8] = b"0\r\n\r\n";

/// The state that all connections share.
#[derive(Debug)]
struct Provider {
    json: Vec<u8>,
    /// Head, chunks and end of a stream.
    whole_stream: Vec<u8>,
    /// The same in pieces, one an event.
    pieces: Vec<Vec<u8>>,
    gap: Cell<Duration>,
    served: Cell<u64>,
}

impl Provider {
    fn new() -> Self {
        let body = bodies::answer();
        let mut json = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        json.extend(body);
        let mut pieces: Vec<Vec<u8>> = bodies::events()
            .into_iter()
            .map(|event| {
                let mut chunk = format!("{:x}\r\n", event.len()).into_bytes();
                chunk.extend(event);
                chunk.extend(b"\r\n");
                chunk
            })
            .collect();
        if let Some(first) = pieces.first_mut() {
            first.splice(0..0, STREAM_HEAD.iter().copied());
        }
        if let Some(last) = pieces.last_mut() {
            last.extend(END);
        }
        let whole_stream = pieces.concat();
        Self { json, whole_stream, pieces, gap: Cell::default(), served: Cell::default() }
    }
}

/// Serves until the process is ended.
///
/// # Errors
/// Where the address cannot be listened on.
pub async fn serve(listen: SocketAddr) -> Result<String, String> {
    let listener = TcpListener::bind(listen).await.map_err(|error| format!("{listen}: {error}"))?;
    let provider = Rc::new(Provider::new());
    loop {
        // A connection that could not be taken is the client's to notice.
        let Ok((socket, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let provider = Rc::clone(&provider);
        tokio::task::spawn_local(async move {
            // A client that disconnects ends its connection, and nothing else.
            let _ = connection(socket, &provider).await;
        });
    }
}

async fn connection(socket: TcpStream, provider: &Provider) -> io::Result<()> {
    let mut wire = Wire::new(socket)?;
    let mut body = Vec::new();
    while let Some(head) = wire.head(true).await? {
        wire.body(head.framing, &mut body, |_| {}).await?;
        let path = head.line.split(' ').nth(1).unwrap_or_default();
        if let Some(command) = path.strip_prefix("/control/") {
            let text = control(command, provider);
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len());
            wire.socket.write_all(answer.as_bytes()).await?;
        } else if is_stream(&body) {
            stream(&mut wire, provider).await?;
            provider.served.set(provider.served.get() + 1);
        } else {
            provider.served.set(provider.served.get() + 1);
            wire.socket.write_all(&provider.json).await?;
        }
    }
    Ok(())
}

fn control(command: &str, provider: &Provider) -> String {
    if let Some(gap) = command.strip_prefix("gap/") {
        provider.gap.set(Duration::from_micros(gap.parse().unwrap_or(0)));
    }
    provider.served.get().to_string()
}

fn is_stream(body: &[u8]) -> bool {
    memmem::find(body, b"\"stream\":true").is_some()
        || memmem::find(body, b"\"stream\": true").is_some()
}

async fn stream(wire: &mut Wire, provider: &Provider) -> io::Result<()> {
    let gap = provider.gap.get();
    if gap.is_zero() {
        return wire.socket.write_all(&provider.whole_stream).await;
    }
    for (index, piece) in provider.pieces.iter().enumerate() {
        if index > 0 {
            tokio::time::sleep(gap).await;
        }
        wire.socket.write_all(piece).await?;
    }
    Ok(())
}
