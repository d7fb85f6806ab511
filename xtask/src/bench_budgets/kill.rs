//! Kills with calls of every kind in flight on many gateways: nothing is admitted once a kill is acknowledged, and how long it
//! takes until everything is cut.

use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::http::{self, Api, Call};
use super::place::{Gateway, Home, PATIENCE, Place, Sim};
use super::redis::RedisServer;
use super::{Found, KILL, Row, quantile};

const GATEWAYS: usize = 8;
const TRIES: usize = 1_000;
const QUICK_TRIES: usize = 40;
/// How often all runs are killed: the gateways are started again after each.
const EACH_ALL: usize = 20;
/// How often a single run is killed.
const EACH_RUN: usize = 3;
/// A second call of this model waits until the month ends.
const WAITING: &str = "sim/long";
const CONFIGURATION: &str =
    "[budget.full]\nlimit = \"1 steps per month\"\non_full = \"pause\"\nmodels = [\"sim/long\"]\n";
/// How long calls are tried after the acknowledgement.
const AFTER: Duration = Duration::from_millis(20);
/// How long a kill may take to abort calls in flight.
const CUT_WITHIN: Duration = Duration::from_secs(1);
/// Between two tries of one client.
const BETWEEN: Duration = Duration::from_millis(4);

/// A call in flight: its API, whether it is a stream, and whether it waits on a budget.
const KINDS: [(Api, bool, bool); 8] = [
    (Api::Chat, true, false),
    (Api::Messages, true, false),
    (Api::Responses, true, false),
    (Api::Chat, false, false),
    (Api::Messages, false, false),
    (Api::Responses, false, false),
    (Api::Chat, false, true),
    (Api::Messages, true, true),
];

/// The target of a kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Key,
    Budget,
    Run,
    All,
}

impl Target {
    /// The target of a try. Runs come last, because their gateways store runs in another way.
    const fn of(number: usize, tries: usize) -> Self {
        match number {
            _ if number >= tries - tries / EACH_RUN => Self::Run,
            _ if number % EACH_ALL == EACH_ALL - 1 => Self::All,
            // This key has its own budget.
            _ if number % 4 == 1 => Self::Budget,
            _ => Self::Key,
        }
    }
}

/// Where gateways store their runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunPlace {
    /// All of them in Redis: one gateway has a run at a time.
    Shared,
    /// Each in its own directory: each can have a call of the same run in flight.
    Own,
}

/// How gateways end before they are started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GatewayEnd {
    /// As by SIGTERM: they say that they are gone.
    Asked,
    /// As by `kill -9`: they stay listed, and later kills wait for their word in vain.
    Killed,
}

/// The calls of a try, as they are counted at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CallCounts {
    /// Requests of the model that the runs had begun.
    begun: u64,
    /// Those that the gateways had sent, or were about to send.
    sent: u64,
    /// Those that the model has had.
    received: u64,
}

impl CallCounts {
    /// Calls that were admitted after this moment, by later counts. The model may still receive calls that were on their way.
    fn admitted_until(self, later: Self) -> u64 {
        later.begun.saturating_sub(self.begun).max(later.received.saturating_sub(self.sent))
    }
}

/// One kill.
#[derive(Clone, Copy, Debug)]
struct Killed {
    /// From the start of the command until the last call had ended.
    cut: Duration,
    /// From the start of the command until it had ended.
    acknowledged: Duration,
    admitted: u64,
}

struct KillBench {
    homes: Vec<Home>,
    sim: Sim,
    store: String,
    words: Vec<String>,
    gateways: Vec<Gateway>,
    /// A key for each try.
    keys: Vec<String>,
}

impl KillBench {
    fn start(place: &Place, server: &RedisServer, tries: usize) -> Result<Self, String> {
        let homes: Result<Vec<Home>, String> = (0..GATEWAYS)
            .map(|number| place.home(&format!("kill-{number}"), CONFIGURATION))
            .collect();
        let homes = homes?;
        let first = homes.first().ok_or("no home")?;
        let file = first.path.join("keys.jsonl").display().to_string();
        let keys: Result<Vec<String>, String> =
            (0..=tries).map(|number| key(first, &file, number)).collect();
        let (keys, sim) = (keys?, first.sim("slow")?);
        let upstream = sim.upstream();
        let words =
            ["--upstream", &upstream, "--steps", "1000", "--keys", &file, "--stop-with", "error"];
        let words = words.map(str::to_owned).to_vec();
        let store = format!("{}?namespace=kill", server.url());
        let mut bench = Self { sim, store, words, gateways: Vec::new(), keys, homes };
        bench.serve(RunPlace::Shared, GatewayEnd::Asked)?;
        // The budget is full from here on.
        let (first, last) = (bench.gateways.first().ok_or("no gateway")?, bench.keys.last());
        let run = format!("k{tries}-fill");
        let call =
            bench.call(&run, last.map_or("", String::as_str), (Api::Chat, false, false), WAITING);
        call.make(&first.address)?;
        Ok(bench)
    }

    /// Ends the gateways, and starts them again.
    fn serve(&mut self, runs: RunPlace, end: GatewayEnd) -> Result<(), String> {
        let before = std::mem::take(&mut self.gateways);
        match end {
            GatewayEnd::Asked => Gateway::end_all(before),
            GatewayEnd::Killed => drop(before),
        }
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        for home in &self.homes {
            let keep = home.path.join("runs").display().to_string();
            let keep: &[&str] = if runs == RunPlace::Own { &["--keep", &keep] } else { &[] };
            self.gateways.push(home.serve(&self.store, &[words.as_slice(), keep].concat())?);
        }
        Ok(())
    }

    fn call<'c>(
        &self,
        run: &'c str,
        key: &'c str,
        (api, is_stream, _): (Api, bool, bool),
        model: &'c str,
    ) -> Call<'c> {
        Call { run, api, model, cap: 100, choices: 1, is_stream, key }
    }

    /// Kills with a call in flight on each gateway.
    fn kill(&mut self, number: usize, target: Target, end: GatewayEnd) -> Result<Killed, String> {
        let key = self.keys.get(number).cloned().unwrap_or_default();
        let names: Vec<String> = (0..GATEWAYS)
            .map(|at| format!("k{number}-{}", if target == Target::Run { 0 } else { at }))
            .collect();
        let before = self.sim.served()?.calls;
        let streams = self.begin(number, &key, &names)?;
        let killed = self.kill_now(number, target, &key, &names, streams, before)?;
        if target == Target::All {
            self.serve(RunPlace::Shared, end)?;
        }
        Ok(killed)
    }

    /// The calls of a try so far. `before` is the number of those that the model had had before it.
    fn counts(&self, names: &[String], before: u64) -> Result<CallCounts, String> {
        // First, so that it has nothing that the gateways send later.
        let received = self.sim.served()?.calls - before;
        let mut counts = CallCounts { begun: 0, sent: 0, received };
        for (gateway, run) in self.gateways.iter().zip(names) {
            let shown = gateway.run(run)?;
            let begun = shown.pointer("/report/totals/attempts").and_then(Value::as_u64);
            let sent = shown.get("upstream_calls").and_then(Value::as_u64);
            let (begun, sent) =
                begun.zip(sent).ok_or_else(|| format!("run {run} is not shown: {shown}"))?;
            counts.begun += begun;
            counts.sent += sent;
        }
        Ok(counts)
    }

    /// Begins a call on each gateway, and waits until all are in flight.
    fn begin(&self, number: usize, key: &str, names: &[String]) -> Result<Vec<TcpStream>, String> {
        let mut streams = Vec::new();
        let with_kinds =
            self.gateways.iter().zip(names).zip(KINDS.iter().cycle().skip(number % KINDS.len()));
        for ((gateway, run), kind) in with_kinds {
            let model = if kind.2 { WAITING } else { "sim/slow" };
            streams.push(self.call(run, key, *kind, model).begin(&gateway.address)?);
        }
        let last = Instant::now() + PATIENCE;
        for (gateway, run) in self.gateways.iter().zip(names) {
            loop {
                let shown = gateway.run(run)?;
                if shown.get("calls_in_flight").is_some_and(|count| *count == 1) {
                    break;
                }
                if Instant::now() > last {
                    return Err(format!("a call of {run} is not in flight: {shown}"));
                }
                thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(streams)
    }

    fn kill_now(
        &self,
        number: usize,
        target: Target,
        key: &str,
        names: &[String],
        streams: Vec<TcpStream>,
        before: u64,
    ) -> Result<Killed, String> {
        let (key_name, budget) = (format!("k{number}"), format!("key-k{number}"));
        let run = format!("k{number}-0");
        let words: &[&str] = match target {
            Target::Key => &["--key", &key_name],
            Target::Budget => &["--budget", &budget],
            Target::Run => &[&run],
            Target::All => &["--all"],
        };
        let home = self.homes.first().ok_or("no home")?;
        let is_over = AtomicBool::new(false);
        let (killed, ended, later, counts) = thread::scope(|scope| {
            let readers: Vec<_> = streams
                .into_iter()
                .map(|stream| {
                    scope.spawn(move || {
                        http::read(stream);
                        Instant::now()
                    })
                })
                .collect();
            let clients: Vec<_> = self
                .gateways
                .iter()
                .zip(names)
                .map(|(gateway, run)| scope.spawn(|| self.try_on(gateway, run, key, &is_over)))
                .collect();
            let begun = Instant::now();
            let all = ["kill", "--why", "bench", "--budget-store", &self.store];
            let asked = home.ask(all.iter().chain(words).copied());
            let acknowledged = Instant::now();
            let counts = self.counts(names, before);
            thread::sleep(AFTER);
            is_over.store(true, Ordering::SeqCst);
            let served = clients.into_iter().flat_map(|client| client.join().unwrap_or_default());
            let later = served.filter(|begun| *begun > acknowledged).count();
            let ended = readers.into_iter().filter_map(|reader| reader.join().ok()).max();
            (asked.map(|_| (begun, acknowledged)), ended, later, counts)
        });
        let (begun, acknowledged) = killed?;
        let later = u64::try_from(later).unwrap_or(u64::MAX);
        let answered = self.probe(number, key, names)?;
        let admitted = counts?.admitted_until(self.counts(names, before)?);
        Ok(Killed {
            cut: ended.unwrap_or(acknowledged).saturating_duration_since(begun),
            acknowledged: acknowledged - begun,
            admitted: admitted.max(later + answered),
        })
    }

    /// A client that calls again and again. Returns when the calls began that a model answered.
    fn try_on(
        &self,
        gateway: &Gateway,
        run: &str,
        key: &str,
        is_over: &AtomicBool,
    ) -> Vec<Instant> {
        let mut served = Vec::new();
        while !is_over.load(Ordering::SeqCst) {
            let begun = Instant::now();
            let call = self.call(run, key, (Api::Chat, false, false), "sim/answer");
            if call.make(&gateway.address).is_ok_and(|answer| answer.is_served()) {
                served.push(begun);
            }
            thread::sleep(BETWEEN);
        }
        served
    }

    /// Calls of every kind once more. Returns how many of them a model answered.
    fn probe(&self, number: usize, key: &str, names: &[String]) -> Result<u64, String> {
        let mut served = 0;
        let kinds = KINDS.iter().cycle().skip(number % KINDS.len() + 3);
        for ((gateway, run), kind) in self.gateways.iter().zip(names).zip(kinds) {
            let answer = self.call(run, key, *kind, "sim/answer").make(&gateway.address)?;
            served += u64::from(answer.status == 200 && answer.reason().is_none());
        }
        Ok(served)
    }
}

/// Issues the key of a try. Every second one has its own budget.
fn key(home: &Home, file: &str, number: usize) -> Result<String, String> {
    if number > 0 && number.is_multiple_of(200) {
        println!("  {number} keys");
    }
    let name = format!("k{number}");
    let budget: &[&str] = if number % 2 == 1 { &["--budget", "1000 steps"] } else { &[] };
    let words = ["key", "new", &name, "--keys", file];
    Ok(home.ask(words.iter().chain(budget).copied())?.trim().to_owned())
}

pub(super) fn measure(
    place: &Place,
    server: &RedisServer,
    is_quick: bool,
) -> Result<Found, String> {
    let tries = if is_quick { QUICK_TRIES } else { TRIES };
    let mut bench = KillBench::start(place, server, tries)?;
    let (mut all, mut said, mut runs) = (Vec::new(), Instant::now(), RunPlace::Shared);
    for number in 0..tries {
        let target = Target::of(number, tries);
        if target == Target::Run && runs == RunPlace::Shared {
            runs = RunPlace::Own;
            bench.serve(runs, GatewayEnd::Asked)?;
        }
        // Once only: the kills of the next 20 seconds wait for a lease each.
        let is_hard = number + 1 == EACH_ALL;
        let end = if is_hard { GatewayEnd::Killed } else { GatewayEnd::Asked };
        all.push(bench.kill(number, target, end)?);
        if said.elapsed() > Duration::from_secs(10) {
            said = Instant::now();
            println!("  {} of {tries} kills", number + 1);
        }
    }
    let admitted: u64 = all.iter().map(|killed| killed.admitted).sum();
    let times = |of: fn(&Killed) -> Duration| {
        let mut times: Vec<Duration> = all.iter().map(of).collect();
        times.sort_unstable();
        let at = |part| format!("{} ms", quantile(&times, part).as_millis());
        format!("{} at the median, {} at 99%, {} at worst", at(500), at(990), at(1_000))
    };
    let mut found = Found::row(Row {
        what: KILL,
        tried: format!(
            "{tries} kills of a key, a budget, a run or all on {GATEWAYS} gateways and one Redis, with a call in flight on each: \
             plain and stream, chat completions, messages and responses, and waiting on a full budget; clients call on \
             all the time. The log of each run is in Redis; for the {} kills of a run the gateways store runs themselves \
             (`--keep`), so that each has a call of the run that is killed. After one kill of all the gateways end by `kill -9`",
            (0..tries).filter(|number| Target::of(*number, tries) == Target::Run).count(),
        ),
        found: format!(
            "{admitted} calls admitted after the acknowledgement, by the counts of runs, model and clients; everything cut after {}; the command took {}; both from \
             the start of `endstop kill`",
            times(|killed| killed.cut),
            times(|killed| killed.acknowledged),
        ),
    });
    found.must(admitted == 0, "a call was admitted after a kill was acknowledged");
    // The short form runs where other tests keep the machine busy.
    let worst = all.iter().map(|killed| killed.cut).max().unwrap_or_default();
    let late = "a kill took longer than a second to abort calls in flight";
    found.must(is_quick || worst <= CUT_WITHIN, late);
    Ok(found)
}

#[cfg(test)]
mod tests;
