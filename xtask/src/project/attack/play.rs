//! One attack: clients against the real gateway, with the upstream behind it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use endstop_core::Program;
use endstop_core::policy::Policy;
use endstop_core::probe::Probes;
use endstop_core::units::Cost;
use endstop_gateway::{Config, Gateway, Runs, Upstreams};
use endstop_runtime::RunHandle;
use endstop_runtime::store::RunId;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::bill::Arrival;
use super::rows::{Client, Expected, Row};
use super::upstream::Upstream;

/// How long an upstream may take to answer in rows where it never does.
const ANSWER_WITHIN: Duration = Duration::from_millis(50);
/// A client gives up after this long; no row needs it.
const PATIENCE: Duration = Duration::from_secs(120);

/// The outcome of an attack.
#[derive(Clone, Copy, Debug)]
pub(super) struct Played {
    /// Requests that clients made.
    pub(super) tries: u64,
    /// Pico-dollars that the upstream would bill if each request reached it as it is.
    pub(super) unlimited: u64,
    /// Requests that got the answer of a refusal that the row demands.
    pub(super) refused: u64,
    /// Model calls that reached the upstream.
    pub(super) calls: u64,
    /// Pico-dollars that the upstream bills.
    pub(super) billed: u64,
    /// Pico-dollars of the ledger that are confirmed.
    pub(super) confirmed: u64,
    /// Pico-dollars of the ledger that are not.
    pub(super) unconfirmed: u64,
}

impl Played {
    /// All of the ledger, in pico-dollars.
    pub(super) const fn ledger(&self) -> u64 {
        self.confirmed.saturating_add(self.unconfirmed)
    }
}

/// Plays an attack.
///
/// # Errors
/// If it cannot be played: no port is free, or a call is never settled.
pub(super) async fn play(row: &Row) -> Result<Played, String> {
    let upstream = Upstream::start(row.serve).await.map_err(|error| error.to_string())?;
    let id = RunId::parse("attacked").map_err(|error| error.to_string())?;
    let gateway = Gateway::start(config(row, upstream.addr, &id)?).await;
    let gateway = gateway.map_err(|error| error.to_string())?;
    let run = gateway.open(&id).ok_or("the gateway has no run")?;
    let mut refused = 0u64;
    match row.client {
        Client::SideBySide => side_by_side(row, gateway.addr()).await,
        Client::Reads | Client::ReadsUntilTimeout | Client::Leaves => {
            for number in 0..row.tries {
                let answer = one(row, number, gateway.addr(), &upstream).await?;
                refused = refused.saturating_add(u64::from(is_refusal(row, &answer)));
                settled(&run).await?;
            }
        }
    }
    settled(&run).await?;
    let Cost::Known(cost) = run.cost() else {
        return Err("what it cost is not known".to_owned());
    };
    let unconfirmed = run.report().spend.unconfirmed_usd.picos();
    let played = Played {
        tries: row.tries,
        unlimited: unlimited(row),
        refused,
        calls: upstream.calls(),
        billed: upstream.billed(),
        confirmed: cost.picos().saturating_sub(unconfirmed),
        unconfirmed,
    };
    gateway.shut_down().await;
    Ok(played)
}

/// Pico-dollars that the upstream bills for all requests of a row without a gateway.
fn unlimited(row: &Row) -> u64 {
    let bill = |number| {
        let arrival = Arrival { path: row.path.to_owned(), body: (row.request)(number) };
        arrival.bill(&(row.serve)(&arrival, number).work)
    };
    (0..row.tries).map(bill).fold(0, u64::saturating_add)
}

/// Whether an answer is the refusal that a row demands.
fn is_refusal(row: &Row, answer: &str) -> bool {
    match row.expected {
        Expected::Refused(status, text) => {
            answer.starts_with(&format!("HTTP/1.1 {status} ")) && answer.contains(text)
        }
        Expected::Bounded | Expected::GoesOn | Expected::RestsOn(_) => false,
    }
}

fn config(row: &Row, upstream: SocketAddr, id: &RunId) -> Result<Config, String> {
    let mut text =
        format!("[stop]\nlimit = \"cost >= ${}.{:02}\"\n", row.limit / 100, row.limit % 100);
    if row.frees_errors {
        text.push_str("[accounting]\non_server_error = \"free\"\n");
    }
    let policy = Policy::from_toml(&text).map_err(|error| error.to_string())?;
    let program = Program::new(&policy, &Probes::new()).map_err(|error| error.to_string())?;
    let upstreams = Upstreams::all(&format!("http://{upstream}")).map_err(|it| it.to_string())?;
    let mut config = Config::new(upstreams, Arc::new(program), Runs::One(id.clone()));
    if row.client == Client::ReadsUntilTimeout {
        config.bounds.answer_within = ANSWER_WITHIN;
    }
    Ok(config)
}

async fn side_by_side(row: &Row, gateway: SocketAddr) {
    let mut clients = JoinSet::new();
    for number in 0..row.tries {
        let (path, body) = (row.path, (row.request)(number));
        clients.spawn(async move {
            if let Ok(stream) = send(gateway, path, &body).await {
                drop(read_to_end(stream).await);
            }
        });
    }
    while clients.join_next().await.is_some() {}
}

async fn one(
    row: &Row,
    number: u64,
    gateway: SocketAddr,
    upstream: &Upstream,
) -> Result<String, String> {
    let calls = upstream.calls();
    let sent = send(gateway, row.path, &(row.request)(number)).await;
    let stream = sent.map_err(|error| format!("the gateway takes no request: {error}"))?;
    if row.client == Client::Leaves {
        tokio::select! {
            answer = read_to_end(stream) => return Ok(answer),
            () = upstream.has_more_than(calls) => {}
        }
        // The stream is dropped, and so closed.
        upstream.client_has_left();
        return Ok(String::new());
    }
    Ok(read_to_end(stream).await)
}

pub(in crate::project) async fn send(
    to: SocketAddr,
    path: &str,
    body: &str,
) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(to).await?;
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {to}\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    // A request that is refused early may not be read completely.
    let _ = stream.write_all(body.as_bytes()).await;
    Ok(stream)
}

/// Reads an answer until its end, or until the client gives up.
pub(in crate::project) async fn read_to_end(mut stream: TcpStream) -> String {
    let mut all = Vec::new();
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut all)).await;
    String::from_utf8_lossy(&all).into_owned()
}

/// Waits until no call holds anything: then each is in the ledger.
pub(in crate::project) async fn settled(run: &RunHandle) -> Result<(), String> {
    let waits = async {
        while !run.budget().held().is_zero() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, waits).await;
    waited.map_err(|_| "a call was never settled".to_owned())
}
