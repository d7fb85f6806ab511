//! A relay to a server of Redis on loopback. It loses answers, and delivers requests late.
#![allow(dead_code, reason = "each test has its part of these")]

use std::io::{self, BufRead, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// A fault of a request: its connection is closed without an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// The server gets it.
    Lose,
    /// The server gets it after this number of further requests: 1 is the repetition of the same one.
    Late(usize),
}

/// Whether the next call of a function of the library has a fault.
type Choose = Box<dyn FnMut(&str) -> Option<Fault> + Send>;

/// A relay that ends with the test.
pub(crate) struct FaultyRelay {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    server: u16,
    choose: Mutex<Choose>,
    late: Mutex<Vec<LateRequest>>,
    faults: AtomicUsize,
    is_over: AtomicBool,
}

struct LateRequest {
    /// The requests that come before it.
    before: usize,
    text: Vec<u8>,
}

impl FaultyRelay {
    /// A relay to the server on a port of loopback. `choose` sees calls of functions on connections that have had an answer,
    /// because a client repeats only these.
    pub(crate) fn start(
        server: u16,
        choose: impl FnMut(&str) -> Option<Fault> + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            server,
            choose: Mutex::new(Box::new(choose)),
            late: Mutex::default(),
            faults: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
        });
        let relay = Self { port, shared: Arc::clone(&shared) };
        thread::spawn(move || {
            for client in listener.incoming() {
                if shared.is_over.load(Ordering::SeqCst) {
                    return;
                }
                let (Ok(client), shared) = (client, Arc::clone(&shared)) else { continue };
                // It ends with an error when one of both sides closes the connection.
                thread::spawn(move || drop(shared.relay(client)));
            }
        });
        relay
    }

    /// The address of a namespace.
    pub(crate) fn url(&self, namespace: &str) -> String {
        format!("redis://127.0.0.1:{}?namespace={namespace}", self.port)
    }

    /// How many faults there were.
    pub(crate) fn faults(&self) -> usize {
        self.shared.faults.load(Ordering::SeqCst)
    }

    /// Delivers what is late still.
    pub(crate) fn deliver(&self) {
        let late = std::mem::take(&mut *self.shared.late.lock().unwrap());
        late.iter().for_each(|request| self.shared.send(&request.text).unwrap());
    }
}

impl Drop for FaultyRelay {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        // Wakes the thread that waits for clients.
        drop(TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)));
    }
}

impl Shared {
    /// Relays one connection.
    fn relay(&self, mut client: TcpStream) -> io::Result<()> {
        let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, self.server))?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let mut requests = BufReader::new(client.try_clone()?);
        let mut answers = BufReader::new(server.try_clone()?);
        let mut is_used = false;
        loop {
            let request = frame(&mut requests)?;
            let function = function_of(&request);
            let fault = function.as_deref().filter(|_| is_used).and_then(|name| self.fault(name));
            if let Some(Fault::Late(before)) = fault {
                self.late.lock().unwrap().push(LateRequest { before, text: request });
                return Ok(());
            }
            server.write_all(&request)?;
            let answer = frame(&mut answers)?;
            if fault.is_some() {
                return Ok(());
            }
            is_used = true;
            // The thread of a store calls this one at any time.
            if function.is_some_and(|name| name != "hello") {
                self.deliver_next()?;
            }
            client.write_all(&answer)?;
        }
    }

    fn fault(&self, function: &str) -> Option<Fault> {
        let mut choose = self.choose.lock().unwrap();
        let fault = (*choose)(function);
        drop(choose);
        self.faults.fetch_add(usize::from(fault.is_some()), Ordering::SeqCst);
        fault
    }

    /// Delivers what is late, after one more request.
    fn deliver_next(&self) -> io::Result<()> {
        let mut late = self.late.lock().unwrap();
        late.iter_mut().for_each(|request| request.before = request.before.saturating_sub(1));
        let (now, later) = late.drain(..).partition(|request| request.before == 0);
        *late = later;
        drop(late);
        let now: Vec<LateRequest> = now;
        now.iter().try_for_each(|request| self.send(&request.text))
    }

    /// Sends a request whose answer no client reads.
    fn send(&self, request: &[u8]) -> io::Result<()> {
        let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, self.server))?;
        server.write_all(request)?;
        frame(&mut BufReader::new(server)).map(drop)
    }
}

/// The next request or answer.
fn frame(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    read_frame(from, &mut text)?;
    Ok(text)
}

fn read_frame(from: &mut impl BufRead, text: &mut Vec<u8>) -> io::Result<()> {
    let begun = text.len();
    if from.read_until(b'\n', text)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let kind = text[begun];
    let count = std::str::from_utf8(&text[begun + 1..]).ok();
    let count = count.and_then(|count| count.trim_end().parse::<usize>().ok());
    match (kind, count) {
        (b'*', Some(parts)) => (0..parts).try_for_each(|_| read_frame(from, text)),
        (b'$', Some(length)) => {
            let begun = text.len();
            text.resize(begun + length + 2, 0);
            from.read_exact(&mut text[begun..])
        }
        _ => Ok(()),
    }
}

/// The function of the library that a request calls, without the name of the library.
fn function_of(request: &[u8]) -> Option<String> {
    // The number of words; then each word after its length.
    let mut lines = request.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
    if lines.nth(2)? != b"FCALL" {
        return None;
    }
    // `endstop_FORMAT_HASH_NAME`.
    let name = std::str::from_utf8(lines.nth(1)?).ok()?;
    name.splitn(4, '_').nth(3).map(str::to_owned)
}
