//! Many gateways on one Redis, while gateways and Redis are killed and come back.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::http::{Answer, Api, Call};
use super::place::{Gateway, Home, PATIENCE, Place, Prices, Sim, dollars, failed, picos};
use super::redis::RedisServer;
use super::{Found, Row};

const GATEWAYS: usize = 8;
const NAMESPACE: &str = "gateways";
/// A gateway that was killed keeps its runs for five seconds, and settlements that were spooled are sent within one second.
const SETTLING: Duration = Duration::from_secs(7);
const CLIENTS: usize = 24;
const MODEL: &str = "gpt-4o";
/// Output of a call: with its input a tenth of a cent and a bit.
const CAP: u64 = 100;
/// Fewer than a run has calls, so that runs stop by their policy too.
const STEPS: &str = "16";
/// The reason of a run that a shared budget stopped.
const BUDGET_STOP: &str = "cost_limit";
/// The budget in cents for a hundred calls: less than they cost.
const CENTS_PER_HUNDRED: u64 = 8;

/// How much is done.
#[derive(Clone, Copy, Debug)]
struct Size {
    calls: usize,
    runs: usize,
    kills: usize,
    restarts: usize,
}

const LONG: Size = Size { calls: 10_000, runs: 500, kills: 40, restarts: 5 };
const QUICK: Size = Size { calls: 1_000, runs: 50, kills: 6, restarts: 1 };

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Served,
    /// The gateway stopped the run, for this reason.
    Refused(String),
    /// The gateway died in the middle of it.
    Cut,
    /// Something else, by its status.
    Other(u16),
}

/// The state that the clients share with the thread that kills.
struct SharedState {
    size: Size,
    addresses: RwLock<Vec<String>>,
    next: AtomicUsize,
    done: AtomicUsize,
    ends: Mutex<BTreeMap<End, usize>>,
}

impl SharedState {
    fn new(size: Size, gateways: &[Option<Gateway>]) -> Self {
        let addresses = gateways.iter().flatten().map(|gateway| gateway.address.clone()).collect();
        Self {
            size,
            addresses: RwLock::new(addresses),
            next: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            ends: Mutex::default(),
        }
    }

    /// A client: makes calls until all are made.
    fn call_on(&self) {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.size.calls {
                return;
            }
            let end = self.call(number);
            let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
            *ends.entry(end).or_default() += 1;
            drop(ends);
            self.done.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn call(&self, number: usize) -> End {
        let at = scattered(number) % self.size.runs;
        let run = run_of(at);
        let (api, is_stream) = (Api::Chat, number.is_multiple_of(2));
        let call = Call { run: &run, api, model: MODEL, cap: CAP, choices: 1, is_stream, key: "x" };
        let begun = Instant::now();
        loop {
            // A gateway that is down comes back.
            let answer = call.make(&self.address_for(number));
            if answer.is_err() && begun.elapsed() < PATIENCE {
                thread::sleep(Duration::from_millis(10));
                continue;
            }
            return end_of(&answer.unwrap_or_default());
        }
    }

    /// The gateway of a call, whichever had the calls of its run before.
    fn address_for(&self, number: usize) -> String {
        let addresses = self.addresses.read().unwrap_or_else(PoisonError::into_inner);
        let at = scattered(number.wrapping_add(self.size.calls)) % addresses.len().max(1);
        addresses.get(at).cloned().unwrap_or_default()
    }
}

fn run_of(number: usize) -> String {
    format!("run-{number}")
}

/// A number that follows from another one, and looks as if by chance.
const fn scattered(number: usize) -> usize {
    let mut bits = number as u64 ^ 0x9e37_79b9_7f4a_7c15;
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (bits >> 33) as usize
}

fn end_of(answer: &Answer) -> End {
    match answer.reason() {
        Some(reason) => End::Refused(reason.to_owned()),
        None if answer.is_served() => End::Served,
        None if answer.status == 200 || answer.status == 0 => End::Cut,
        None => End::Other(answer.status),
    }
}

/// The processes of this row.
struct Bench {
    homes: Vec<Home>,
    sim: Sim,
    store: String,
    words: Vec<String>,
    gateways: Vec<Option<Gateway>>,
}

impl Bench {
    fn start(place: &Place, server: &RedisServer, cents: u64) -> Result<Self, String> {
        let limit = format!("[budget.me]\nlimit = \"${}.{:02}\"\n", cents / 100, cents % 100);
        let homes: Result<Vec<Home>, String> =
            (0..GATEWAYS).map(|number| place.home(&format!("gw-{number}"), &limit)).collect();
        let homes = homes?;
        let sim = homes.first().ok_or("no home")?.sim("long")?;
        let upstream = sim.upstream();
        let words =
            ["--upstream", &upstream, "--usd", "100", "--steps", STEPS, "--stop-with", "error"];
        let mut bench = Self {
            sim,
            store: format!("{}?namespace={NAMESPACE}", server.url()),
            words: words.map(str::to_owned).to_vec(),
            gateways: Vec::new(),
            homes,
        };
        for number in 0..GATEWAYS {
            let gateway = bench.serve(number)?;
            bench.gateways.push(Some(gateway));
        }
        Ok(bench)
    }

    fn serve(&self, number: usize) -> Result<Gateway, String> {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        self.homes.get(number).ok_or("no such home")?.serve(&self.store, &words)
    }

    /// Kills a gateway as `kill -9` does, and starts it again.
    fn kill(&mut self, number: usize, shared: &SharedState) -> Result<(), String> {
        // It ends when it is dropped.
        if let Some(place) = self.gateways.get_mut(number) {
            *place = None;
        }
        let begun = Instant::now();
        let gateway = loop {
            match self.serve(number) {
                Ok(gateway) => break gateway,
                // Redis may be starting itself.
                Err(why) if begun.elapsed() > PATIENCE => return Err(why),
                Err(_) => thread::sleep(Duration::from_millis(50)),
            }
        };
        let mut addresses = shared.addresses.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(address) = addresses.get_mut(number) {
            address.clone_from(&gateway.address);
        }
        drop(addresses);
        if let Some(place) = self.gateways.get_mut(number) {
            *place = Some(gateway);
        }
        Ok(())
    }

    /// Runs whose numbers differ between the gateway that is asked and the replay of their log, and the number of all runs.
    fn compare(
        &mut self,
        runs: &[String],
        server: &RedisServer,
    ) -> Result<(Vec<String>, usize), String> {
        let mut live = BTreeMap::new();
        for (number, run) in runs.iter().enumerate() {
            let gateway = self.gateways.get(scattered(number) % GATEWAYS).and_then(Option::as_ref);
            let told = gateway.ok_or("a gateway is missing")?.run(run)?;
            live.insert(run.clone(), told);
        }
        for gateway in self.gateways.iter_mut().filter_map(Option::take) {
            gateway.end();
        }
        let home = self.homes.first().ok_or("no home")?;
        let logs = home.path.join("logs");
        fs::create_dir_all(&logs).map_err(|error| failed(&logs, &error))?;
        for run in runs {
            let answer = server.send(&[&format!("LRANGE {{endstop:{NAMESPACE}}}:log:{run} 0 -1")]);
            let lines = answer.lines().filter(|line| line.starts_with('{'));
            let text: String = lines.map(|line| format!("{line}\n")).collect();
            if text.is_empty() {
                continue;
            }
            let file = logs.join(format!("{run}.jsonl"));
            fs::write(&file, text).map_err(|error| failed(&file, &error))?;
        }
        let (directory, stop) = (logs.display().to_string(), format!("steps >= {STEPS}"));
        let text = home.ask(["explain", &directory, "--json", "--stop", &stop])?;
        let (mut differ, mut all) = (Vec::new(), 0);
        for line in text.lines() {
            let replayed: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
            let id = replayed.pointer("/run/id").and_then(Value::as_str).unwrap_or_default();
            let Some(told) = live.get(id) else { continue };
            all += 1;
            if let Some(why) = difference(told, &replayed) {
                differ.push(format!("{id}: {why}"));
            }
        }
        if all < live.values().filter(|told| told.get("report").is_some()).count() {
            differ.push("a run has no log".to_owned());
        }
        Ok((differ, all))
    }
}

/// The difference between a run as its gateway shows it and its replay under the same step limit, if there is one: in steps,
/// tokens, cost and end.
fn difference(told: &Value, replayed: &Value) -> Option<String> {
    let report = told.get("report")?;
    let steps = (report.pointer("/totals/steps"), replayed.pointer("/run/steps"));
    let tokens = (report.pointer("/totals/tokens"), replayed.pointer("/run/tokens"));
    let usd = |value: Option<&Value>| value.and_then(picos);
    let cost = (usd(report.pointer("/spend/usd")), usd(replayed.pointer("/run/cost_usd")));
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let end = (text(report.get("reason")), text(report.get("status")));
    let replayed_end = (
        text(replayed.pointer("/verdict/primary/reason")),
        text(replayed.pointer("/verdict/status")),
    );
    let is_same = steps.0 == steps.1
        && tokens.0 == tokens.1
        && cost.0 == cost.1
        && is_same_end(&end, &replayed_end);
    (!is_same).then(|| format!("{steps:?} {tokens:?} {cost:?} {end:?} {replayed_end:?}"))
}

/// Whether a run ended as in its replay, by reason and status. A replay does not know budgets that runs share, so it does not
/// stop a run that such a budget stopped. Without a reason the gateway's run continues, and the replay is at the end of its log.
fn is_same_end(
    live: &(Option<String>, Option<String>),
    replayed: &(Option<String>, Option<String>),
) -> bool {
    match (live.0.as_deref(), replayed.0.as_deref()) {
        (None, None) | (Some(BUDGET_STOP), None | Some(BUDGET_STOP)) => true,
        _ => live == replayed,
    }
}

/// Kills while clients call, evenly over their calls.
fn disturb(
    bench: &mut Bench,
    shared: &SharedState,
    server: &mut RedisServer,
) -> Result<(), String> {
    let size = shared.size;
    let (mut kills, mut restarts) = (0, 0);
    let mut said = Instant::now();
    loop {
        let done = shared.done.load(Ordering::Relaxed);
        let is_over = done >= size.calls;
        if said.elapsed() > Duration::from_secs(5) {
            said = Instant::now();
            println!("  {done} of {} calls, {kills} kills, {restarts} restarts", size.calls);
        }
        if kills < size.kills && (is_over || done > (kills + 1) * size.calls / (size.kills + 2)) {
            bench.kill(scattered(kills) % GATEWAYS, shared)?;
            kills += 1;
        } else if restarts < size.restarts
            && (is_over || done > (restarts + 1) * size.calls / (size.restarts + 2))
        {
            server.kill();
            thread::sleep(Duration::from_millis(200));
            server.restart();
            restarts += 1;
        } else if is_over {
            return Ok(());
        } else {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

pub(super) fn measure(
    place: &Place,
    server: &mut RedisServer,
    is_quick: bool,
) -> Result<Found, String> {
    let size = if is_quick { QUICK } else { LONG };
    let cents = size.calls as u64 / 100 * CENTS_PER_HUNDRED;
    let mut bench = Bench::start(place, server, cents)?;
    let shared = SharedState::new(size, &bench.gateways);
    let begun = Instant::now();
    // Processes belong to this thread, so it is the one that starts them again.
    let disturbed = thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| shared.call_on());
        }
        let disturbed = disturb(&mut bench, &shared, server);
        if disturbed.is_err() {
            shared.next.store(usize::MAX / 2, Ordering::Relaxed);
        }
        disturbed
    });
    disturbed?;
    let took = begun.elapsed();
    thread::sleep(SETTLING);
    report(&mut bench, &shared, server, cents, took)
}

fn report(
    bench: &mut Bench,
    shared: &SharedState,
    server: &RedisServer,
    cents: u64,
    took: Duration,
) -> Result<Found, String> {
    let size = shared.size;
    let home = bench.homes.first().ok_or("no home")?;
    let limit = cents * 10_000_000_000;
    let budget = home.budget(Some(&bench.store), &[])?;
    let served = bench.sim.served()?;
    let billed = served.cost(Prices::of(home, MODEL)?);
    let ends = shared.ends.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let runs: Vec<String> = (0..size.runs).map(run_of).collect();
    let (differ, compared) = bench.compare(&runs, server)?;
    let over = billed.saturating_sub(limit);
    let mut found = Found::row(Row {
        what: super::GATEWAYS,
        tried: format!(
            "{GATEWAYS} `endstop serve` on one Redis that writes each change to the disk first; {} calls of {} runs by \
             {CLIENTS} clients, each to a gateway by chance, half of them streams; a budget of {}; {} × `kill -9` of a gateway, {} × `kill -9` of Redis",
            size.calls,
            size.runs,
            dollars(limit),
            size.kills,
            size.restarts
        ),
        found: format!(
            "{} in {} s; the model served {} calls for {}; settled {} + held by killed gateways {} ≤ {}; overshoot {}; \
             {compared} runs compared with the replay of their log, by steps, tokens, cost, and by reason and status except of runs \
             that the shared budget stopped, which a replay does not know: {}",
            told(&ends),
            took.as_secs(),
            served.calls,
            dollars(billed),
            dollars(budget.spent),
            dollars(budget.held),
            dollars(limit),
            dollars(over),
            if differ.is_empty() {
                "all equal".to_owned()
            } else {
                format!("{} DIFFER", differ.len())
            },
        ),
    });
    found.must(budget.spent + budget.held <= limit, "settled and held amounts pass the limit");
    found.must(billed <= budget.spent + budget.held, "the budget counts less than was served");
    found.must(over == 0, "many gateways passed their budget");
    let is_ended = ends.contains_key(&End::Refused("error".to_owned()));
    found.must(!is_ended, "a run ended because Redis was away");
    for why in differ.iter().take(5) {
        found.must(false, &format!("a run differs from its replay: {why}"));
    }
    Ok(found)
}

fn told(ends: &BTreeMap<End, usize>) -> String {
    let one = |(end, count): (&End, &usize)| match end {
        End::Served => format!("{count} served"),
        End::Refused(reason) => format!("{count} refused (`{reason}`)"),
        End::Cut => format!("{count} cut by a kill"),
        End::Other(503) => format!("{count} refused until Redis or the run was there again (503)"),
        End::Other(status) => format!("{count} with status {status}"),
    };
    ends.iter().map(one).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
