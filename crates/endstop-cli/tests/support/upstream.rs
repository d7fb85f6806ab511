//! A scripted upstream on loopback.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::Value;

/// The answer to a request: lines of headers, each with its end, and a body.
type Answer = dyn Fn(usize) -> (String, Value) + Send + Sync;

/// The running upstream.
pub(crate) struct Upstream {
    /// Its address, without a path.
    pub(crate) address: String,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Upstream {
    /// Starts one that answers the n-th request, from 0, with status 200.
    pub(crate) fn start(answer: impl Fn(usize) -> (String, Value) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let heads: Arc<Mutex<Vec<String>>> = Arc::default();
        let answer: Arc<Answer> = Arc::new(answer);
        let into = Arc::clone(&heads);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (into, answer) = (Arc::clone(&into), Arc::clone(&answer));
                std::thread::spawn(move || serve(stream.unwrap(), &into, &*answer));
            }
        });
        Self { address, heads }
    }

    /// The heads of the requests so far.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

fn serve(mut stream: TcpStream, heads: &Mutex<Vec<String>>, answer: &Answer) {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).unwrap_or_default() == 0 {
            // A connection that was opened in advance.
            return;
        }
        head.extend_from_slice(&byte);
    }
    let head = String::from_utf8(head).unwrap();
    let lower = head.to_ascii_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.trim().parse().unwrap())];
    stream.read_exact(&mut body).unwrap();
    let number = {
        let mut heads = heads.lock().unwrap();
        heads.push(head);
        heads.len() - 1
    };
    let (headers, body) = answer(number);
    let body = body.to_string();
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{headers}connection: close\r\n\r\n{body}"
    )
    .unwrap();
}
