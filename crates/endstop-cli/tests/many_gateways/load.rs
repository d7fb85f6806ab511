//! Gateways and Redis that are killed while clients call: no limit is exceeded, each call that the model served is counted, and
//! each run equals the replay of its log.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::runs::{lines, signal};
use super::*;

const GATEWAYS: usize = 3;
const CLIENTS: usize = 8;
/// Calls where a change is pushed; the variable says how many each night.
const CALLS: usize = 200;
/// Fewer than a run has calls.
const STEPS: u64 = 16;
const CALLS_OF_RUN: usize = 20;
/// One kill of a gateway or of Redis, which costs the seconds of a lease.
const CALLS_PER_KILL: usize = 100;
/// A call that waits for a run of a gateway that was killed takes seconds, and one that waits for its holds a minute.
const LONGEST: Duration = Duration::from_secs(300);

fn calls() -> usize {
    let calls = std::env::var("ENDSTOP_GATEWAY_CALLS").ok().and_then(|calls| calls.parse().ok());
    calls.unwrap_or(CALLS)
}

/// A number that follows from another one, and looks as if by chance.
fn scattered(number: usize) -> usize {
    let bits = (number as u64 ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    usize::try_from((bits ^ bits >> 29) >> 33).unwrap()
}

/// The state that the clients share with the thread that kills.
struct Load {
    calls: usize,
    addresses: Mutex<Vec<String>>,
    next: AtomicUsize,
    done: AtomicUsize,
}

impl Load {
    fn runs(&self) -> Vec<String> {
        (0..self.calls / CALLS_OF_RUN).map(|run| format!("run-{run}")).collect()
    }

    /// A client: makes calls until all are made.
    fn call_on(&self) {
        let runs = self.runs();
        loop {
            let number = self.next.fetch_add(1, Ordering::SeqCst);
            if number >= self.calls {
                return;
            }
            self.call(number, &runs[scattered(number) % runs.len()]);
            self.done.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Makes a call, over whichever gateway. A kill can cut it.
    fn call(&self, number: usize, run: &str) {
        let body = json!({
            "model": "gpt-4o", "max_tokens": 100, "stream": number.is_multiple_of(2),
            "messages": [{ "role": "user", "content": "hi" }],
        });
        let body = body.to_string();
        let begun = Instant::now();
        let mut stream = loop {
            // A gateway that is down comes back, at another address.
            let at = scattered(number + self.calls) % GATEWAYS;
            let address = self.addresses.lock().unwrap()[at].clone();
            match TcpStream::connect(&address) {
                Ok(stream) => break stream,
                Err(error) => assert!(begun.elapsed() < LONGEST, "{address}: {error}"),
            }
            thread::sleep(Duration::from_millis(10));
        };
        let head = format!(
            "POST /r/{run}/v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
             authorization: Bearer x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.set_read_timeout(Some(LONGEST)).unwrap();
        let _ = stream.write_all((head + &body).as_bytes());
        drop(rest(stream));
    }
}

/// Kills evenly over the calls: gateways, which are started again, and in between the server.
fn disturb(
    load: &Load,
    server: &mut RedisServer,
    gateways: &mut [Option<Gateway>],
    serve: impl Fn(usize) -> Gateway,
) {
    let kills = load.calls / CALLS_PER_KILL;
    for kill in 1..=kills {
        let begun = Instant::now();
        while load.done.load(Ordering::SeqCst) < kill * load.calls / (kills + 1) {
            assert!(begun.elapsed() < LONGEST, "no call ends");
            thread::sleep(Duration::from_millis(1));
        }
        if kill % 3 == 2 {
            server.kill();
            server.restart();
            continue;
        }
        let number = kill % GATEWAYS;
        // It ends when it is dropped.
        gateways[number] = None;
        let gateway = serve(number);
        load.addresses.lock().unwrap()[number].clone_from(&gateway.address);
        gateways[number] = Some(gateway);
    }
}

/// A separate scripted model, which outlives the gateways.
fn model(machine: &Machine) -> Gateway {
    let mut command = machine.command(&["sim", "--script", "long"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    // It prints more.
    thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
    let address = line.split_once("http://").unwrap().1.split(',').next().unwrap().trim();
    Gateway { child, address: address.to_owned(), control: String::new() }
}

/// The cost of what the model has answered, in pico-dollars.
fn billed(model: &Gateway, machine: &Machine) -> u64 {
    let stats = rest(model.send(&model.address, "GET", "/sim/stats", ""));
    let stats: Value = serde_json::from_str(stats.split_once("\r\n\r\n").unwrap().1).unwrap();
    let words = ["price", "gpt-4o", "--json", "--input", "1000", "--output", "1000"];
    let output = machine.command(&words).output().unwrap();
    let prices: Value = serde_json::from_slice(&output.stdout).unwrap();
    let of =
        |count: &str, price: &str| stats[count].as_u64().unwrap() * picos(&prices[price]) / 1_000;
    of("input_tokens", "input_usd") + of("output_tokens", "output_usd")
}

/// The numbers of a run that the replay of its log has too: steps, tokens, cost, and whether the step limit stopped it.
type Numbers = (u64, u64, u64, bool);

/// The replay of each run's log under the step limit.
fn replayed(machine: &Machine, server: &RedisServer, runs: &[String]) -> BTreeMap<String, Numbers> {
    let logs = machine.0.join("logs");
    std::fs::create_dir_all(&logs).unwrap();
    for run in runs {
        let text = lines(server, run).join("\n") + "\n";
        std::fs::write(logs.join(format!("{run}.jsonl")), text).unwrap();
    }
    let stop = format!("steps >= {STEPS}");
    let words = ["explain", logs.to_str().unwrap(), "--json", "--stop", &stop];
    let output = machine.command(&words).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let told = String::from_utf8(output.stdout).unwrap();
    let of = |line: &str| {
        let value: Value = serde_json::from_str(line).unwrap();
        let run = &value["run"];
        let is_stop = value["verdict"]["primary"]["reason"] == "steps_limit";
        let (steps, tokens) = (run["steps"].as_u64().unwrap(), run["tokens"].as_u64().unwrap());
        let numbers = (steps, tokens, picos(&run["cost_usd"]), is_stop);
        (run["id"].as_str().unwrap().to_owned(), numbers)
    };
    told.lines().map(of).collect()
}

#[test]
fn gateways_and_a_server_that_are_killed_under_load_exceed_nothing_and_forget_nothing() {
    let Some(mut server) = RedisServer::start() else { return };
    let machines: Vec<_> = (0..=GATEWAYS).map(|number| Machine::new("crashes", number)).collect();
    let (model, calls) = (model(&machines[GATEWAYS]), calls());
    // Each night the budget has less than the calls cost; then some of them wait a minute for holds of a gateway that died.
    let cents_per_hundred = if calls > CALLS { 7 } else { 20 };
    let cents = calls * cents_per_hundred / 100;
    let budget = format!("${}.{:02} per month", cents / 100, cents % 100);
    let (url, upstream) = (server.url(), format!("http://{}", model.address));
    let steps = STEPS.to_string();
    let limits = [
        "--upstream",
        &upstream,
        "--budget",
        &budget,
        "--usd",
        "100",
        "--steps",
        &steps,
        "--stop-with",
        "error",
    ];
    let serve = |number: usize| machines[number].serve(&url, &limits);
    let mut gateways: Vec<_> = (0..GATEWAYS).map(|number| Some(serve(number))).collect();
    let addresses = gateways.iter().flatten().map(|gateway| gateway.address.clone()).collect();
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let load = Load { calls, addresses: Mutex::new(addresses), next, done };
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| load.call_on());
        }
        disturb(&load, &mut server, &mut gateways, serve);
    });

    // A gateway that asks for a run waits until the lease of one that died is over.
    let gateways: Vec<Gateway> = gateways.into_iter().flatten().collect();
    let mut shown = BTreeMap::new();
    for (number, run) in load.runs().into_iter().enumerate() {
        let mut report = Value::Null;
        until("it is shown", || {
            report = gateways[number % GATEWAYS].run(&run)["report"].clone();
            !report.is_null()
        });
        let (steps, tokens) = (&report["totals"]["steps"], &report["totals"]["tokens"]);
        let is_stop = report["reason"] == "steps_limit";
        let cost = picos(&report["spend"]["usd"]);
        assert!(steps.as_u64().unwrap() <= STEPS, "{run}: {report}");
        shown.insert(run, (steps.as_u64().unwrap(), tokens.as_u64().unwrap(), cost, is_stop));
    }
    for mut gateway in gateways {
        signal(&gateway, "-TERM");
        until("it ends", || gateway.child.try_wait().unwrap().is_some());
    }
    assert_eq!(replayed(&machines[GATEWAYS], &server, &load.runs()), shown);

    let mut command = machines[GATEWAYS].command(&["budget", "me", "--json", "--budget", &budget]);
    let output = command.env("ENDSTOP_BUDGET_STORE", &url).output().unwrap();
    let told: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let limit = &told["budgets"][0]["limits"][0];
    let counted = picos(&limit["spent"]) + picos(&limit["held"]);
    assert!(counted <= cents as u64 * 10_000_000_000, "{limit}");
    let billed = billed(&model, &machines[GATEWAYS]);
    assert!(billed > 0 && billed <= counted, "{billed} {limit}");
}
