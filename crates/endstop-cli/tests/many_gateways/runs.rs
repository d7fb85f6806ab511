//! Runs that several gateways serve: exactly one budget for each, whichever gateway a call goes to.

use std::net::TcpListener;
use std::process::Command;

use super::*;

/// Gateways with the same limits on one store.
fn serve(test: &str, server: &RedisServer, count: usize, limits: &[&str]) -> Vec<Gateway> {
    let machines = (0..count).map(|number| Machine::new(test, number));
    machines.map(|machine| machine.serve(&server.url(), limits)).collect()
}

/// Why a call was refused. `None` if the model answered.
fn stop_of(answer: &str) -> Option<String> {
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let head = answer.split("\r\n\r\n").next().unwrap();
    let reason = head.lines().find_map(|line| line.strip_prefix("x-endstop-reason: "));
    reason.map(str::to_owned)
}

/// The sealed lines of a run.
pub(super) fn lines(server: &RedisServer, run: &str) -> Vec<String> {
    let answer = server.send(&[&format!("LRANGE {{endstop:default}}:log:{run} 0 -1")]);
    answer.lines().filter(|line| line.starts_with('{')).map(str::to_owned).collect()
}

/// The replay of a run's log under a limit.
fn replayed(test: &str, server: &RedisServer, run: &str, limit: &str) -> Value {
    let machine = Machine::new(test, 99);
    let file = machine.0.join("run.jsonl");
    std::fs::write(&file, lines(server, run).join("\n") + "\n").unwrap();
    let words = ["replay", "--json", file.to_str().unwrap(), "--stop", limit];
    let output = machine.command(&words).output().unwrap();
    let value: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)));
    value["per_run"][0].clone()
}

pub(super) fn signal(gateway: &Gateway, name: &str) {
    let pid = gateway.child.id().to_string();
    assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
}

impl Gateway {
    /// A call whose answer has few words.
    fn short(&self, run: &str) -> TcpStream {
        let messages = json!([{ "role": "user", "content": "hi" }]);
        let body =
            json!({ "model": "gpt-4o", "max_tokens": 8, "stream": true, "messages": messages });
        let path = format!("/r/{run}/v1/chat/completions");
        self.send(&self.address, "POST", &path, &body.to_string())
    }

    fn command(&self, run: &str, act: &str, body: &Value) -> String {
        let path = format!("/endstop/v1/runs/{run}/{act}");
        rest(self.send(&self.control, "POST", &path, &body.to_string()))
    }

    fn steps(&self, run: &str) -> u64 {
        self.run(run)["report"]["totals"]["steps"].as_u64().unwrap_or_default()
    }
}

#[test]
fn calls_that_alternate_between_gateways_stop_exactly_at_the_limit() {
    let Some(server) = RedisServer::start() else { return };
    let limits = ["--upstream", "sim", "--steps", "3", "--usd", "5"];
    let gateways = serve("turns", &server, 2, &limits);
    let stops: Vec<_> = (0..6).map(|call| stop_of(&gateways[call % 2].call("turns"))).collect();
    assert_eq!(stops[..3], [None, None, None]);
    assert!(stops[3..].iter().all(|stop| stop.as_deref() == Some("steps_limit")), "{stops:?}");
    // Both know the same run, and so does one that has only read the log.
    let third = Machine::new("turns", 2).serve(&server.url(), &limits);
    let [shown, ..] = [&gateways[0], &gateways[1], &third].map(|gateway| gateway.run("turns"));
    for gateway in [&gateways[1], &third] {
        assert_eq!(gateway.run("turns")["report"], shown["report"]);
    }
    assert_eq!(shown["report"]["reason"], "steps_limit");
    let replayed = replayed("turns", &server, "turns", "steps >= 3");
    let report = &shown["report"];
    let told = (&report["totals"]["steps"], &report["totals"]["tokens"], &report["spend"]["usd"]);
    assert_eq!(told, (&replayed["steps"], &replayed["tokens"], &replayed["cost_usd"]));
    // More by a person at one gateway holds at the other.
    let raised = gateways[0].command("turns", "resume", &json!({ "steps": 1 }));
    assert!(raised.starts_with("HTTP/1.1 200"), "{raised}");
    assert_eq!(stop_of(&gateways[1].call("turns")), None);
    assert_eq!(stop_of(&gateways[0].call("turns")).as_deref(), Some("steps_limit"));

    // In dollars: each call counts exactly once. Another gateway does not know how long the conversation was by the count of
    // the model, so the last call that fits may fit no more.
    let limits = ["--upstream", "sim", "--usd", "0.001"];
    let pair = serve("dollars", &server, 2, &limits);
    let spend = |run: &str, count: usize| {
        let stops = (0..40).map(|call| stop_of(&pair[call % count].call(run)));
        let admitted = stops.take_while(Option::is_none).count();
        (admitted, picos(&pair[0].run(run)["report"]["spend"]["usd"]))
    };
    let (alone, together) = (spend("alone", 1), spend("together", 2));
    assert!(alone.0 > 1 && alone.1 <= 1_000_000_000, "{alone:?}");
    assert!(together.0 == alone.0 || together.0 + 1 == alone.0, "{alone:?} {together:?}");
    assert_eq!(together.1 * alone.0 as u64, alone.1 * together.0 as u64);
}

#[test]
fn concurrent_calls_of_one_run_over_gateways_are_no_more_than_its_limit() {
    let Some(server) = RedisServer::start() else { return };
    let gateways = serve("crowd", &server, 4, &["--upstream", "sim", "--steps", "10"]);
    let gateways = &gateways;
    let stops: Vec<_> = thread::scope(|scope| {
        let calls: Vec<_> = (0..40)
            .map(|call| scope.spawn(move || stop_of(&gateways[call % 4].call("crowd"))))
            .collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    assert_eq!(stops.iter().filter(|stop| stop.is_none()).count(), 10);
    let refused: Vec<_> = stops.into_iter().flatten().collect();
    assert!(refused.iter().all(|reason| reason == "steps_limit"), "{refused:?}");
    assert_eq!(gateways[2].steps("crowd"), 10);
}

#[test]
fn a_gateway_that_died_or_was_suspended_with_a_run_admits_nothing_of_it_by_what_it_knew() {
    let Some(server) = RedisServer::start() else { return };
    let mut gateways = serve("dead", &server, 3, &["--upstream", "sim:slow", "--steps", "3"]);
    let streams =
        [gateways[0].begin("dies", "gpt-4o", true), gateways[1].begin("sleeps", "gpt-4o", true)];
    until("in flight", || gateways[0].steps("dies") == 1 && gateways[1].steps("sleeps") == 1);
    // Another gateway says where it is.
    let shown = rest(gateways[2].send(&gateways[2].control, "GET", "/endstop/v1/runs/dies", ""));
    assert!(shown.starts_with("HTTP/1.1 409") && shown.contains("serves the run"), "{shown}");
    signal(&gateways[1], "-STOP");
    drop(gateways.remove(0));
    let [suspended, other] = &gateways[..] else { panic!() };
    // The call that was cut counts in full, and the next ones up to the limit.
    let stops: Vec<_> = thread::scope(|scope| {
        let runs = ["dies", "sleeps"]
            .map(|run| scope.spawn(move || [(); 3].map(|()| stop_of(&rest(other.short(run))))));
        runs.into_iter().flat_map(|calls| calls.join().unwrap()).collect()
    });
    let limit = Some("steps_limit".to_owned());
    assert_eq!(stops, [None, None, limit.clone(), None, None, limit.clone()]);
    signal(suspended, "-CONT");
    assert_eq!(stop_of(&suspended.call("sleeps")), limit);
    assert_eq!((other.steps("sleeps"), suspended.steps("sleeps")), (3, 3));
    // Nothing of the old one is in the log: the lines follow one another, and there are three steps.
    let sleeps = lines(&server, "sleeps");
    let is_step = |line: &&String| line.contains("\"step_begin\"") && !line.contains("refused");
    assert_eq!(sleeps.iter().filter(is_step).count(), 3, "{sleeps:?}");
    // 2,000 tokens of output, unconfirmed.
    let spend = &other.run("dies")["report"]["spend"];
    assert!(picos(&spend["usd"]) >= 20_000_000_000, "{spend}");
    assert!(spend.to_string().contains("unconfirmed"), "{spend}");
    streams.into_iter().for_each(|stream| drop(rest(stream)));
}

#[test]
fn what_ended_without_the_store_is_in_the_log_once_the_store_is_back() {
    let Some(mut server) = RedisServer::start() else { return };
    let gateways = serve(
        "back",
        &server,
        2,
        &["--upstream", "sim:slow", "--steps", "9", "--pause-limit", "2s"],
    );
    let in_flight = gateways[0].short("flies");
    until("in flight", || gateways[0].steps("flies") == 1);
    server.kill();
    assert!(rest(in_flight).contains("[DONE]"));
    for gateway in &gateways {
        let refused = gateway.call("flies");
        assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
        assert!(refused.to_lowercase().contains("retry-after: 1"), "{refused}");
    }
    let spend = |gateway: &Gateway| gateway.run("flies")["report"]["spend"].clone();
    let spent = spend(&gateways[0]);
    assert!(picos(&spent["usd"]) > 0);
    server.restart();
    until("handed over", || spend(&gateways[1]) == spent);
    assert_eq!(stop_of(&rest(gateways[1].short("flies"))), None);
    assert_eq!(stop_of(&rest(gateways[0].short("flies"))), None);
    assert_eq!(gateways[1].steps("flies"), 3);
}

#[test]
fn a_client_that_waits_too_long_does_not_see_which_gateway_has_its_run() {
    let Some(server) = RedisServer::start() else { return };
    let limits = ["--upstream", "sim:slow", "--steps", "9", "--pause-limit", "200ms"];
    let gateways = serve("held", &server, 2, &limits);
    let in_flight = gateways[0].begin("held", "gpt-4o", true);
    until("in flight", || gateways[0].steps("held") == 1);
    let refused = gateways[1].call("held").to_lowercase();
    assert!(refused.starts_with("http/1.1 503"), "{refused}");
    assert!(refused.contains("retry-after: 1"), "{refused}");
    assert!(refused.contains("another gateway serves the run"), "{refused}");
    assert!(!refused.contains("process") && !refused.contains("listen"), "{refused}");
    drop(in_flight);
}

#[test]
fn a_paused_run_goes_on_at_the_gateway_where_its_clients_wait() {
    let Some(server) = RedisServer::start() else { return };
    let gateways = serve("paused", &server, 2, &["--upstream", "sim", "--steps", "9"]);
    assert_eq!(stop_of(&gateways[0].call("p")), None);
    let paused = gateways[0].command("p", "pause", &json!({ "by": "ana" }));
    assert!(paused.starts_with("HTTP/1.1 200"), "{paused}");
    let waiting = gateways[1].begin("p", "gpt-4o", false);
    until("waits", || gateways[1].run("p")["calls_in_flight"] == 1);
    let elsewhere = gateways[0].command("p", "resume", &json!({ "by": "ana" }));
    assert!(elsewhere.starts_with("HTTP/1.1 409"), "{elsewhere}");
    let resumed = gateways[1].command("p", "resume", &json!({ "by": "ana" }));
    assert!(resumed.starts_with("HTTP/1.1 200"), "{resumed}");
    assert_eq!(stop_of(&rest(waiting)), None);
    assert_eq!(gateways[0].steps("p"), 2);
}

/// A provider that never answers its first call, and the others at once.
fn first_call_hangs() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        let mut kept = None;
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            if kept.is_none() {
                kept = Some(stream);
                continue;
            }
            let mut request = BufReader::new(stream.try_clone().unwrap());
            let mut length = 0;
            loop {
                let mut line = String::new();
                request.read_line(&mut line).unwrap();
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                if line.trim().is_empty() {
                    break;
                }
            }
            request.read_exact(&mut vec![0; length]).unwrap();
            let message = json!({ "role": "assistant", "content": "hi" });
            let body = json!({
                "id": "1", "object": "chat.completion", "created": 1, "model": "gpt-4o",
                "choices": [{ "index": 0, "message": message, "finish_reason": "stop" }],
                "usage": { "prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10 },
            })
            .to_string();
            let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json";
            let answer = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    url
}

#[test]
fn a_run_that_was_lost_in_a_call_takes_no_command_but_a_kill_cuts_the_call() {
    let Some(server) = RedisServer::start() else { return };
    let upstream = first_call_hangs();
    let gateways = serve("lost", &server, 2, &["--upstream", &upstream, "--steps", "9"]);
    let in_flight = gateways[0].begin("lost", "gpt-4o", false);
    until("in flight", || gateways[0].steps("lost") == 1);
    signal(&gateways[0], "-STOP");
    assert_eq!(stop_of(&gateways[1].call("lost")), None);
    // It waits in the connection, so the gateway may read it before it learns what has happened.
    let body = json!({ "by": "ana" }).to_string();
    let path = "/endstop/v1/runs/lost/pause";
    let command = gateways[0].send(&gateways[0].control, "POST", path, &body);
    signal(&gateways[0], "-CONT");
    let answer = rest(command);
    let is_acknowledged = answer.starts_with("HTTP/1.1 200");
    assert!(is_acknowledged || answer.starts_with("HTTP/1.1 409"), "{answer}");
    // A gateway that has learned it first takes the run over again. The run has completed, so the pause holds its next step.
    let run = gateways[1].run("lost");
    assert_eq!(run["pause"]["by"] == "ana", is_acknowledged, "{answer}\n{run}");

    let url = server.url();
    let kill = ["kill", "lost", "--why", "test", "--budget-store", &url];
    let killed = Machine::new("lost", 9).command(&kill).output().unwrap();
    assert!(killed.status.success(), "{}", text(&killed));
    in_flight.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let answer = rest(in_flight);
    assert!(answer.starts_with("HTTP/1.1 "), "the call in flight was not cut: {answer}");
}

#[test]
fn a_run_goes_on_where_it_is_once_nobody_waits_for_it_elsewhere() {
    let Some(server) = RedisServer::start() else { return };
    let upstream = first_call_hangs();
    let limits = ["--upstream", &upstream, "--steps", "9", "--pause-limit", "200ms"];
    let gateways = serve("gone", &server, 2, &limits);
    let in_flight = gateways[0].begin("gone", "gpt-4o", false);
    until("in flight", || gateways[0].steps("gone") == 1);
    let refused = gateways[1].call("gone");
    assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
    until("admitted", || gateways[0].call("gone").starts_with("HTTP/1.1 200"));
    assert_eq!(gateways[0].run("gone")["calls_in_flight"], 1);
    drop(in_flight);
}

#[test]
fn a_run_of_two_gateways_of_one_machine_is_listed_once_and_taken_by_name() {
    let Some(server) = RedisServer::start() else { return };
    let machine = Machine::new("one-machine", 0);
    let options = ["--upstream", "sim", "--steps", "9"];
    let gateways = [(); 2].map(|()| machine.serve(&server.url(), &options));
    let succeeds = |arguments: &[&str]| -> String {
        let output = machine.command(arguments).output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let listed = || -> Vec<(Value, Value)> {
        let all: Value = serde_json::from_str(&succeeds(&["ps", "--json"])).unwrap();
        let runs = all["runs"].as_array().unwrap().iter();
        runs.map(|run| (run["run"].clone(), run["pid"].clone())).collect()
    };
    for gateway in &gateways {
        assert_eq!(stop_of(&gateway.call("job-1")), None);
        until("rests", || listed() == [(json!("job-1"), json!(gateway.child.id()))]);
        assert_eq!(succeeds(&["pause", "job-1", "--why", "lunch"]), "job-1: paused\n");
        assert!(succeeds(&["show", "job-1"]).contains("lunch"));
        succeeds(&["resume", "job-1"]);
    }
    assert_eq!(succeeds(&["kill", "job-1"]), "job-1: stopped\n");
    assert_eq!(stop_of(&gateways[0].call("job-1")).as_deref(), Some("user_requested"));
}

#[test]
fn runs_are_listed_while_the_store_of_their_gateway_is_away() {
    let Some(mut server) = RedisServer::start() else { return };
    let machine = Machine::new("ps-away", 0);
    let gateway = machine.serve(&server.url(), &["--upstream", "sim", "--steps", "9"]);
    for run in ["one", "two"] {
        assert_eq!(stop_of(&gateway.call(run)), None);
        until("rests", || gateway.run(run)["calls_in_flight"] == 0);
    }
    server.kill();
    let output = machine.command(&["ps", "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    let runs: Vec<&Value> = all["runs"].as_array().unwrap().iter().map(|run| &run["run"]).collect();
    assert_eq!(runs, ["one", "two"]);
}
