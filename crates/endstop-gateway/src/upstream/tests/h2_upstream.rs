//! An upstream for tests that speaks HTTP/2 frame by frame, over TLS, and does what a test says with each call.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use http::Uri;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::tls_upstream::certified;

const PREFACE: usize = 24;
const HEAD: usize = 9;

/// An act on a complete call.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    Answer,
    /// Answers when the test says so.
    Hold,
    /// Ends its stream with this code.
    Reset(u32),
    /// Takes no more calls after this stream; continues with the present ones.
    Away(u32),
    /// The same, and closes.
    AwayAndClose(u32),
    Close,
    /// Neither reads nor writes anything from here on.
    Deaf,
    /// The same, after the head of an answer.
    BeginAndDeaf,
}

/// A call that came whole: the connection, counted from 0, and the stream.
pub(super) type Call = (usize, u32);

type Script = dyn Fn(Call, usize) -> Act + Send + Sync;

#[derive(Default)]
struct Seen {
    calls: Mutex<Vec<Call>>,
    connections: AtomicUsize,
    pings: AtomicUsize,
}

pub(super) struct Frames {
    addr: SocketAddr,
    pub(super) authority: String,
    seen: Arc<Seen>,
    go: watch::Sender<bool>,
}

impl Frames {
    /// One that takes `max` calls at once on a connection; `script` gets each and how many came before it.
    pub(super) async fn start(
        max: u32,
        script: impl Fn(Call, usize) -> Act + Send + Sync + 'static,
    ) -> Self {
        let (config, authority) = certified("h2");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (go, gone) = watch::channel(false);
        let (seen, script): (Arc<Seen>, Arc<Script>) = (Arc::default(), Arc::new(script));
        let noted = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, script) = (acceptor.clone(), Arc::clone(&script));
                let (seen, go) = (Arc::clone(&noted), gone.clone());
                tokio::spawn(
                    async move { serve(stream, acceptor, max, &*script, &seen, go).await },
                );
            }
        });
        Self { addr, authority, seen, go }
    }

    pub(super) fn base(&self) -> Uri {
        format!("https://localhost:{}/v1", self.addr.port()).parse().unwrap()
    }

    pub(super) fn calls(&self) -> Vec<Call> {
        self.seen.calls.lock().unwrap().clone()
    }

    pub(super) fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::SeqCst)
    }

    pub(super) fn pings(&self) -> usize {
        self.seen.pings.load(Ordering::SeqCst)
    }

    /// Answers the held calls, and from now on everything.
    pub(super) fn go_on(&self) {
        self.go.send_replace(true);
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

fn away(last: u32) -> Vec<u8> {
    frame(7, 0, 0, &[last.to_be_bytes(), [0; 4]].concat())
}

/// `:status: 200`, and a body of two bytes.
fn answer(stream: u32) -> Vec<u8> {
    [frame(1, 4, stream, &[0x88]), frame(0, 1, stream, b"ok")].concat()
}

/// The next state of the connection after the answer to a call.
enum Then {
    GoOn,
    Hold,
    Close,
    Deaf,
}

fn reply(act: Act, id: u32) -> (Vec<u8>, Then) {
    match act {
        Act::Answer => (answer(id), Then::GoOn),
        Act::Hold => (Vec::new(), Then::Hold),
        Act::Reset(code) => (frame(3, 0, id, &code.to_be_bytes()), Then::GoOn),
        Act::Away(last) => (away(last), Then::GoOn),
        Act::AwayAndClose(last) => (away(last), Then::Close),
        Act::Close => (Vec::new(), Then::Close),
        Act::Deaf => (Vec::new(), Then::Deaf),
        Act::BeginAndDeaf => (frame(1, 4, id, &[0x88]), Then::Deaf),
    }
}

/// Takes the first frame off, if it is complete.
fn first_frame(buffer: &mut Vec<u8>) -> Option<Vec<u8>> {
    let length = [0, *buffer.first()?, *buffer.get(1)?, *buffer.get(2)?];
    let end = HEAD + usize::try_from(u32::from_be_bytes(length)).unwrap();
    (buffer.len() >= end).then(|| buffer.drain(..end).collect())
}

async fn serve(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    max: u32,
    script: &Script,
    seen: &Seen,
    mut go: watch::Receiver<bool>,
) {
    let Ok(mut stream) = acceptor.accept(stream).await else { return };
    let number = seen.connections.fetch_add(1, Ordering::SeqCst);
    let settings = [&3_u16.to_be_bytes()[..], &max.to_be_bytes()[..]].concat();
    let mut out = frame(4, 0, 0, &settings);
    let (mut buffer, mut held) = (Vec::new(), Vec::new());
    let mut is_begun = false;
    loop {
        // A client that has gone is what some tests are about.
        if stream.write_all(&out).await.is_err() || stream.flush().await.is_err() {
            return;
        }
        out = Vec::new();
        tokio::select! {
            read = stream.read_buf(&mut buffer) => {
                if !matches!(read, Ok(read) if read > 0) {
                    return;
                }
            }
            Ok(_) = go.wait_for(|go| *go), if !held.is_empty() => {
                out.extend(held.drain(..).flat_map(answer));
            }
        }
        if !is_begun && buffer.len() >= PREFACE {
            buffer.drain(..PREFACE);
            is_begun = true;
        }
        while let Some(frame_now) = is_begun.then(|| first_frame(&mut buffer)).flatten() {
            let (kind, flags) = (frame_now[3], frame_now[4]);
            let id = u32::from_be_bytes(frame_now[5..HEAD].try_into().unwrap());
            match kind {
                0 | 1 if flags & 1 == 1 => {
                    let before = {
                        let mut calls = seen.calls.lock().unwrap();
                        calls.push((number, id));
                        calls.len() - 1
                    };
                    let (bytes, then) = reply(script((number, id), before), id);
                    out.extend(bytes);
                    match then {
                        Then::GoOn => {}
                        Then::Hold => held.push(id),
                        Then::Close | Then::Deaf => {
                            let _ = stream.write_all(&out).await;
                            let _ = stream.flush().await;
                            if matches!(then, Then::Deaf) {
                                std::future::pending::<()>().await;
                            }
                            let _ = stream.shutdown().await;
                            return;
                        }
                    }
                }
                4 if flags & 1 == 0 => out.extend(frame(4, 1, 0, &[])),
                6 if flags & 1 == 0 => {
                    seen.pings.fetch_add(1, Ordering::SeqCst);
                    out.extend(frame(6, 1, 0, &frame_now[HEAD..]));
                }
                _ => {}
            }
        }
    }
}
