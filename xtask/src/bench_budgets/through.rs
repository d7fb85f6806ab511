//! The cost of a whole call through a gateway that shares budgets, runs and keys, and the same call without a gateway.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use super::http::{Api, Call};
use super::place::{Gateway, Place, Sim};
use super::redis::RedisServer;
use super::tools::{NO_SERVER, Tools};
use super::{Found, Row, THROUGH, THROUGH_RATE, quantile};

const CALLS: usize = 1_000;
const QUICK_CALLS: usize = 100;
/// Calls before, which are not counted.
const WARM: usize = 50;
/// A run has a log, so it has as many calls as an agent may make, and then the next one begins.
const CALLS_OF_RUN: usize = 50;
const CLIENTS: [usize; 3] = [1, 8, 32];
/// The name of the key, and the beginning of the names of its runs.
const KEY: &str = "bench";
/// A unit of `/proc/PID/stat` on Linux, in milliseconds.
const TICK: u64 = 10;

pub(super) fn measure(tools: &Tools, is_quick: bool) -> Result<Found, String> {
    let calls = if is_quick { QUICK_CALLS } else { CALLS };
    let mut found = Found::default();
    for fsync in ["everysec", "always"] {
        let options = ["--appendonly", "yes", "--appendfsync", fsync];
        let start = || RedisServer::start_with(&options);
        let Some(server) = tools.has_server().then(start).flatten() else {
            return Ok(Found::skipped(THROUGH, "", NO_SERVER));
        };
        let clients = Clients::start(&tools.place, &server, fsync)?;
        found.rows.push(clients.one_by_one(&server, fsync, calls)?);
        found.rows.push(clients.at_once(fsync, calls)?);
    }
    Ok(found)
}

/// A gateway, its model, and the key with which clients call it.
struct Clients {
    sim: Sim,
    gateway: Gateway,
    /// The key of all clients, which Redis has.
    key: String,
}

impl Clients {
    fn start(place: &Place, server: &RedisServer, fsync: &str) -> Result<Self, String> {
        let home = place.home(&format!("through-{fsync}"), "")?;
        let store = format!("{}?namespace=through", server.url());
        let key = home.ask(["key", "new", KEY, "--budget-store", &store])?.trim().to_owned();
        let sim = home.sim("answer")?;
        let upstream = sim.upstream();
        let limits = ["--usd", "100", "--budget", "$1000000 per day"];
        let words = [&["--upstream", &*upstream][..], &limits, &["--keys"]].concat();
        let gateway = home.serve(&store, &words)?;
        let clients = Self { sim, gateway, key };
        clients.timed(&clients.gateway.address, "warm", WARM)?;
        Ok(clients)
    }

    /// Makes calls, one after another. Returns how long they took, the shortest first.
    fn timed(&self, address: &str, runs: &str, calls: usize) -> Result<Vec<Duration>, String> {
        let mut times = Vec::with_capacity(calls);
        for number in 0..calls {
            let run = format!("{KEY}-{runs}-{}", number / CALLS_OF_RUN);
            let (api, model, key) = (Api::Chat, "gpt-4o", &*self.key);
            let call = Call { run: &run, api, model, cap: 100, choices: 1, is_stream: false, key };
            let begun = Instant::now();
            let answer = call.make(address)?;
            times.push(begun.elapsed());
            if !answer.is_served() {
                return Err(format!("a call of {run} was not served: {}", answer.body));
            }
        }
        times.sort_unstable();
        Ok(times)
    }

    /// The time and CPU of a call if one client calls.
    fn one_by_one(&self, server: &RedisServer, fsync: &str, calls: usize) -> Result<Row, String> {
        let redis = info(server, "server", "process_id:").unwrap_or_default();
        let (gateway, redis) = (self.gateway.id(), u32::try_from(redis).unwrap_or_default());
        let requests = || info(server, "commandstats", "cmdstat_fcall:calls=");
        let before = (cpu(gateway), cpu(redis), requests());
        let times = self.timed(&self.gateway.address, "alone", calls)?;
        let after = (cpu(gateway), cpu(redis), requests());
        let straight = self.timed(&self.sim.address, "straight", calls)?;
        let each = |(before, after): (Option<Duration>, Option<Duration>)| {
            let all = after.zip(before).map(|(after, before)| after.saturating_sub(before));
            let of_call = all.map(|all| all.as_micros() / calls.max(1) as u128);
            of_call.map_or_else(|| "an unknown time".to_owned(), |micros| format!("{micros} µs"))
        };
        let requests = after.2.zip(before.2).map(|(after, before)| after.saturating_sub(before));
        Ok(Row {
            what: THROUGH,
            tried: format!(
                "through one `endstop serve --keys`, with a budget, the log of its run and the keys in Redis, \
                 `appendfsync {fsync}`; one client, a new connection for each call, a model that answers immediately"
            ),
            found: format!(
                "{}; straight to the model {}; CPU per call {} of the gateway and {} of Redis; {} requests to Redis per call",
                told(&times),
                told(&straight),
                each((before.0, after.0)),
                each((before.1, after.1)),
                requests.map_or_else(|| "unknown".to_owned(), |count| tenths(count, calls)),
            ),
        })
    }

    /// The calls per second of several clients.
    fn at_once(&self, fsync: &str, calls: usize) -> Result<Row, String> {
        let mut rates = Vec::new();
        for count in CLIENTS {
            let rate = self.rate(count, calls)?;
            rates.push(format!("{rate} by {count}"));
        }
        Ok(Row {
            what: THROUGH_RATE,
            tried: format!("the same by clients at once, each with its run, `appendfsync {fsync}`"),
            found: rates.join(", "),
        })
    }

    fn rate(&self, count: usize, calls: usize) -> Result<usize, String> {
        let each = calls / count;
        let begun = Instant::now();
        let ended: Result<(), String> = thread::scope(|scope| {
            let work = (0..count).map(move |number| {
                let runs = format!("{count}-{number}");
                scope.spawn(move || self.timed(&self.gateway.address, &runs, each).map(|_| ()))
            });
            let work: Vec<_> = work.collect();
            let mut ended = work.into_iter().map(|client| client.join());
            ended.try_for_each(|end| end.unwrap_or_else(|_| Err("a client panicked".to_owned())))
        });
        ended?;
        let millis = usize::try_from(begun.elapsed().as_millis());
        let millis = millis.map_err(|error| error.to_string())?;
        Ok(each * count * 1_000 / millis.max(1))
    }
}

fn told(times: &[Duration]) -> String {
    let at = |part| quantile(times, part).as_micros();
    format!("{} µs at the median, {} µs at 99%", at(500), at(990))
}

/// A count per call, with one digit.
fn tenths(count: u64, calls: usize) -> String {
    let calls = u64::try_from(calls).unwrap_or(u64::MAX).max(1);
    let tenths = (count * 10 + calls / 2) / calls;
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// The CPU time of a process so far. `None` on systems without `/proc`.
fn cpu(process: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    ticks(&stat)?.checked_mul(TICK).map(Duration::from_millis)
}

/// The times of a process in its own code and in the kernel, in `/proc/PID/stat`. The name before them can have spaces.
fn ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut times = rest.split_whitespace().skip(11).map_while(|field| field.parse::<u64>().ok());
    times.next()?.checked_add(times.next()?)
}

/// A number of the server's `INFO`.
fn info(server: &RedisServer, section: &str, key: &str) -> Option<u64> {
    number_after(&server.send(&[&format!("INFO {section}")]), key)
}

fn number_after(text: &str, key: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
    rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests;
