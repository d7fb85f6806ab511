//! Golden files of the gateway: the control API, the heads of stop responses, and stored runs. The bodies of stop responses are golden files of
//! `endstop-llm`.

use std::fmt::Write as _;
use std::time::Duration;

use endstop_core::run::Status;
use endstop_core::units::Money;
use endstop_gateway::{Gateway, PauseLimit};
use endstop_runtime::RunEnvironment;
use endstop_runtime::ledger::{Budget, Limits};
use futures_util::future::join;
use serde_json::json;

use crate::apis::{CASES, asked};
use crate::fake::{Fake, json};
use crate::file::golden;
use crate::kit::*;
use crate::runs::{TOKEN, ask};
use crate::stored_runs::{directory, many, path, reading_of, run_id, start};

/// Keys of an answer whose values differ from run to run.
const TIMES: [(&str, &str); 2] = [("at_ms", "0"), ("elapsed_ms", "0")];

const RUNS: &str = "/endstop/v1/runs";

/// Commands, and what was answered.
pub(crate) struct Log<'g> {
    pub(crate) gateway: &'g Gateway,
    pub(crate) text: String,
}

impl Log<'_> {
    pub(crate) async fn ask(&mut self, method: &str, path: &str, body: &str) {
        self.ask_as(TOKEN, method, path, body).await;
    }

    pub(crate) async fn ask_as(&mut self, token: &str, method: &str, path: &str, body: &str) {
        all_that_is_on_its_way().await;
        let got = ask(self.gateway, method, path, token, body).await;
        let asked = format!("{method} {path} {body}");
        assert_eq!(got.header("content-type").as_deref(), Some("application/json"), "{asked}");
        writeln!(self.text, "> {}\n{} {}", asked.trim_end(), got.status, got.text()).unwrap();
    }
}

#[tokio::test]
async fn control_api() {
    let upstream = Fake::start(|_, n| {
        let id = format!("call_{n}");
        let reply = if n < 2 { reply_call(&id, "look", "{}") } else { reply_text("Done.") };
        json("200 OK", &reply)
    })
    .await;
    let rules = "[stop]\nlimit = \"steps >= 9\"\nreview = 'signal(\"review\")'\n\
                 [pause]\nask = \"cost >= $0.00002\"\n";
    let mut config = config(rules, upstream.addr);
    config.control = controlled();
    config.pause = PauseLimit(Duration::from_secs(60));
    let gateway = Gateway::start(config).await.unwrap();
    let mut log = Log { gateway: &gateway, text: String::new() };
    let one = format!("{RUNS}/{RUN}");
    let command = |name: &str| format!("{one}/{name}");

    log.ask_as("", "GET", "/endstop/health", "").await;
    log.ask_as("", "GET", RUNS, "").await;
    log.ask("GET", "/endstop/elsewhere", "").await;
    log.ask("DELETE", RUNS, "").await;
    log.ask("GET", &format!("{RUNS}/other"), "").await;
    log.ask("PUT", &one, "").await;
    log.ask("POST", &command("dance"), "").await;
    log.ask("POST", &command("cancel"), "lunch").await;
    log.ask("POST", &command("cancel"), "{\"cap\":\"5\"}").await;
    log.ask("POST", &command("approve"), "").await;
    log.ask("POST", &command("approve"), "{\"limit\":\"x\"}").await;
    log.ask("POST", &command("signal"), "").await;
    log.ask("POST", &command("resume"), "").await;
    log.ask("POST", &command("pause"), "{\"by\":\"ann\",\"message\":\"lunch\"}").await;
    log.ask("POST", &command("pause"), "").await;
    log.ask("POST", &command("resume"), "{\"by\":\"bob\"}").await;
    log.ask("GET", RUNS, "").await;

    let mut agent = Agent::new("Look.");
    let got = chat(&gateway, &agent.request()).await;
    assert!(agent.take(&got, "nothing"), "{got:?}");
    let request = agent.request();
    let approving = async {
        assert_eq!(gateway.stopped_or_paused(&id()).await, Status::Paused);
        log.ask("GET", RUNS, "").await;
        log.ask("GET", &one, "").await;
        log.ask("POST", &command("approve"), "{\"rule\":\"ask\",\"limit\":\"5.00\"}").await;
    };
    let (got, ()) = join(chat(&gateway, &request), approving).await;
    assert!(agent.take(&got, "nothing"), "{got:?}");
    log.ask("POST", &command("signal"), "{\"name\":\"other\"}").await;
    log.ask("POST", &command("signal"), "{\"name\":\"review\"}").await;
    let got = chat(&gateway, &agent.request()).await;
    assert_eq!(got.header("x-endstop-reason").as_deref(), Some("user_requested"));
    log.ask("GET", RUNS, "").await;
    log.ask("GET", &one, "").await;
    golden("control-api.txt", &log.text, &TIMES);
}

/// Cancelled in order, and at once.
#[tokio::test]
async fn control_api_that_ends_a_run() {
    let upstream = Fake::start(|_, _| json("200 OK", &reply_text("Done."))).await;
    let mut text = String::new();
    for act in ["cancel", "kill"] {
        let mut config = config("[stop]\nlimit = \"steps >= 9\"\n", upstream.addr);
        config.control = controlled();
        let gateway = Gateway::start(config).await.unwrap();
        let mut log = Log { gateway: &gateway, text: String::new() };
        let path = format!("{RUNS}/{RUN}/{act}");
        log.ask("POST", &path, "{\"message\":\"lunch\"}").await;
        log.ask("POST", &path, "").await;
        text.push_str(&log.text);
    }
    golden("control-api-ends.txt", &text, &TIMES);
}

/// The total of all runs: without one, and with one before and after a call.
#[tokio::test]
async fn control_api_of_the_total() {
    const TOTAL: &str = "/endstop/v1/total";
    let upstream = Fake::start(|_, _| json("200 OK", &reply_text("Done."))).await;
    let mut text = String::new();
    for dollars in [None, Some("0.50")] {
        let mut config = config("[stop]\nlimit = \"steps >= 9\"\n", upstream.addr);
        config.control = controlled();
        let cost = dollars.map(|dollars| dollars.parse::<Money>().unwrap());
        let budget = cost.map(|_| Budget::root(Limits { cost, ..Limits::unlimited() }));
        config.environment = RunEnvironment { budget, ..RunEnvironment::default() };
        let gateway = Gateway::start(config).await.unwrap();
        let mut log = Log { gateway: &gateway, text: String::new() };
        log.ask("GET", TOTAL, "").await;
        if dollars.is_some() {
            assert_eq!(chat(&gateway, &Agent::new("Look.").request()).await.status, 200);
            log.ask("GET", TOTAL, "").await;
            log.ask("DELETE", TOTAL, "").await;
            log.ask("POST", TOTAL, "").await;
            log.ask("POST", TOTAL, "{\"limit\":\"much\"}").await;
        }
        log.ask("POST", TOTAL, "{\"limit\":\"100.00\"}").await;
        if dollars.is_some() {
            let by_ann = "{\"limit\":200,\"by\":\"ann\",\"message\":\"more agents\"}";
            log.ask("POST", TOTAL, by_ann).await;
            log.ask("GET", TOTAL, "").await;
        }
        text.push_str(&log.text);
    }
    golden("control-api-total.txt", &text, &[("at_ms", "0")]);
}

/// The head with `..` for the date and the length, which differ from answer to answer.
fn head(got: &Got) -> String {
    let lines = got.head.trim_end().lines().map(|line| match line.split_once(": ") {
        Some((name @ ("date" | "content-length"), _)) => format!("{name}: .."),
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn heads_of_stops() {
    let upstream = Fake::start(|_, _| json("200 OK", &reply_text("Done."))).await;
    let rules = "[stop]\nlimit = \"steps >= 9\"\nreview = 'signal(\"review\")'\n";
    let gateway = gateway(rules, &upstream).await;
    assert!(gateway.cancel(&id(), "lunch", endstop_runtime::cancel::Urgency::Graceful));
    let mut text = String::new();
    let mut tell = |what: &str, got: &Got| {
        writeln!(text, "== {what}\n{}", head(got)).unwrap();
        if got.status != 200 {
            writeln!(text, "\n{}", got.text()).unwrap();
        }
    };
    for case in &CASES {
        for is_stream in [false, true] {
            let (path, body) = asked(case, is_stream, 1);
            let got = post(&gateway, &path, &body).await;
            let how = if is_stream { ", streaming" } else { "" };
            tell(&format!("{}{how}", case.name), &got);
        }
    }
    tell("speech", &post(&gateway, "/v1/audio/speech", &json!({})).await);
    assert_eq!(upstream.calls(), 0);
    golden("stop-heads.txt", &text, &[]);
}

/// A file whose checksums are of an earlier version: a file that was written once stays readable.
fn sealed(now: &str) -> String {
    let golden = ["tests", "golden", "stored-run-v1-sealed.jsonl"];
    let path = golden
        .iter()
        .fold(std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")), |path, part| path.join(part));
    if std::env::var_os("ENDSTOP_UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, now).unwrap();
    }
    std::fs::read_to_string(&path).unwrap()
}

/// A run with a call that fails and is tried again, some that ask for a tool, and one that is refused. It is read back
/// and stays stopped.
#[tokio::test]
async fn stored_run() {
    let upstream = Fake::start(|_, n| match n {
        0 => json("503 Service Unavailable", "{\"error\":{\"message\":\"busy\"}}"),
        _ => json("200 OK", &reply_call("call_1", "look", "{\"at\":1}")),
    })
    .await;
    let keep = directory("golden");
    let policy = "[stop]\nlimit = \"steps >= 3\"\nmoney = \"cost >= $1.00\"\n\
                  [accounting]\non_server_error = \"free\"\n";
    let make = || many(policy, upstream.addr, &keep);
    let gateway = start(make).await;
    let mut agent = Agent::new("Look.");
    assert_eq!(post(&gateway, &path("nightly-17"), &agent.request()).await.status, 503);
    for result in ["door", "window", "roof", "stop"] {
        let got = post(&gateway, &path("nightly-17"), &agent.request()).await;
        assert_eq!(got.header("x-endstop-reason").is_some(), result == "stop", "{got:?}");
        agent.take(&got, result);
    }
    let readings = |gateway: &Gateway| {
        ["steps", "tokens", "cost", "errors", "tool_calls"]
            .map(|gauge| reading_of(gateway, "nightly-17", gauge))
    };
    let before = readings(&gateway);
    drop(gateway);
    let file = keep.join("nightly-17.jsonl");
    let written = std::fs::read_to_string(&file).unwrap();
    let fixed = [
        ("at", "0"),
        ("wall", "1796040000000"),
        ("prices", "\"PRICES\""),
        ("sum", "\"SUM\""),
        ("end", "\"END\""),
    ];
    golden("stored-run-v1.jsonl", &written, &fixed);

    std::fs::write(&file, sealed(&written)).unwrap();
    let gateway = start(make).await;
    assert_eq!(gateway.open(&run_id("nightly-17")).unwrap().status(), Status::Stopped);
    assert_eq!(readings(&gateway), before);
}
