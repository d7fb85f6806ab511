//! Runs that are stored in a directory: their spend is not lost.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use endstop_core::run::Status;
use endstop_core::units::Money;
use endstop_gateway::{Config, Gateway, Runs, StartError, Unnamed};
use endstop_runtime::RunEnvironment;
use endstop_runtime::cancel::{FileKillSwitch, Urgency};
use endstop_runtime::ledger::{Budget, Limits};
use endstop_runtime::store::RunId;
use futures_util::future::join_all;

use crate::fake::{Act, Fake, json};
use crate::kit::*;
use crate::runs::{TOKEN, ask as command};

/// A separate directory for a test, not yet created.
pub(crate) fn directory(test: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("keep").join(test);
    drop(fs::remove_dir_all(&path));
    path
}

pub(crate) fn many(policy: &str, upstream: SocketAddr, keep: &Path) -> Config {
    let mut config = config(policy, upstream);
    config.runs = Runs::Many { unnamed: Unnamed::Refuse, keys: Default::default() };
    config.stored_runs = Some(keep.to_owned().into());
    config
}

/// Starts once the gateway before has given the directory back.
pub(crate) async fn start(make: impl Fn() -> Config) -> Gateway {
    for _ in 0..2_000 {
        match Gateway::start(make()).await {
            Err(StartError::Store { why, .. }) if why.contains("stores its runs there") => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            started => return started.unwrap(),
        }
    }
    panic!("the directory is never given back");
}

async fn looping() -> Fake {
    Fake::start(|_, n| json("200 OK", &reply_call(&format!("call_{n}"), "look", "{}"))).await
}

pub(crate) fn path(run: &str) -> String {
    format!("/r/{run}/v1/chat/completions")
}

pub(crate) fn run_id(run: &str) -> RunId {
    RunId::parse(run).unwrap()
}

/// Asks until `steps` answers or a stop; how many calls were let through.
async fn ask(gateway: &Gateway, run: &str, agent: &mut Agent, steps: usize) -> usize {
    for step in 0..steps {
        let got = post(gateway, &path(run), &agent.request()).await;
        assert_eq!(got.status, 200, "{got:?}");
        if got.header("x-endstop-reason").is_some() {
            return step;
        }
        agent.take(&got, &format!("result {step}"));
    }
    steps
}

pub(crate) fn reading_of(gateway: &Gateway, run: &str, gauge: &str) -> u64 {
    gateway.open(&run_id(run)).unwrap().look(|run| run.gauge(gauge)).unwrap_or(0)
}

#[tokio::test]
async fn a_run_goes_on_after_its_gateway_has_died_and_a_stop_stays() {
    let (upstream, keep) = (looping().await, directory("goes_on"));
    let make = || many("[stop]\nlimit = \"steps >= 5 or cost >= $9\"\n", upstream.addr, &keep);
    let mut agent = Agent::new("Look.");
    let mut let_through = 0;
    let mut cost = 0;
    for life in 0..4 {
        let gateway = start(make).await;
        assert!(reading_of(&gateway, "a", "cost") >= cost);
        let_through += ask(&gateway, "a", &mut agent, 2).await;
        cost = reading_of(&gateway, "a", "cost");
        let at = reading_of(&gateway, "a", "steps");
        assert_eq!(at, [2, 4, 5, 5][life]);
        assert_eq!(reading_of(&gateway, "a", "tokens"), at * 110);
        assert_eq!(reading_of(&gateway, "a", "tool_calls"), at);
        drop(gateway);
    }
    assert_eq!((let_through, upstream.calls()), (5, 5));
    let gateway = start(make).await;
    assert_eq!(gateway.open(&run_id("a")).unwrap().status(), Status::Stopped);
    // Another run has a separate budget.
    assert_eq!(ask(&gateway, "b", &mut Agent::new("Look."), 9).await, 5);
    let text = fs::read_to_string(keep.join("a.jsonl")).unwrap();
    assert_eq!(text.matches("endstop_trace").count(), 1);
    assert_eq!(text.matches("\"step_begin\"").count(), 5);
}

/// A model that ends each turn on its own.
async fn answering() -> Fake {
    Fake::start(|_, _| json("200 OK", &reply_text("Done."))).await
}

#[tokio::test]
async fn what_a_person_stopped_stays_stopped_though_its_run_was_over() {
    let (upstream, keep) = (answering().await, directory("stays_stopped"));
    let make =
        |limit: u64| many(&format!("[stop]\nlimit = \"steps >= {limit}\"\n"), upstream.addr, &keep);
    let ask = Agent::new("Look.").request();
    let runs = ["cancelled", "killed", "at_its_limit"];
    let gateway = start(|| make(2)).await;
    for run in runs {
        assert_eq!(post(&gateway, &path(run), &ask).await.words(), "Done.");
    }
    assert_eq!(post(&gateway, &path(runs[2]), &ask).await.words(), "Done.");
    assert_ne!(post(&gateway, &path(runs[2]), &ask).await.words(), "Done.");
    for (run, urgency) in runs.iter().zip([Urgency::Graceful, Urgency::Now, Urgency::Graceful]) {
        // Once is enough, and twice adds nothing.
        for _ in 0..2 {
            assert!(gateway.cancel(&run_id(run), "enough", urgency));
            assert_eq!(gateway.run(&run_id(run)).unwrap().status(), Status::Stopped);
        }
    }
    drop(gateway);
    let gateway = start(|| make(9)).await;
    for run in runs {
        let got = post(&gateway, &path(run), &ask).await;
        assert_eq!(got.header("x-endstop-reason").as_deref(), Some("user_requested"), "{got:?}");
        assert!(got.words().contains("enough"), "{got:?}");
        let text = fs::read_to_string(keep.join(format!("{run}.jsonl"))).unwrap();
        assert_eq!(text.matches("\"cancel\"").count(), 1, "{text}");
    }
    assert_eq!(upstream.calls(), 4);
}

#[tokio::test]
async fn a_kill_switch_stops_for_good_a_run_that_was_over() {
    let (upstream, keep) = (answering().await, directory("kill_switch"));
    let thrown = keep.with_extension("kill");
    drop(fs::remove_file(&thrown));
    let make = || {
        let mut config = many("[stop]\nlimit = \"steps >= 9\"\n", upstream.addr, &keep);
        let kill = Some(Arc::new(FileKillSwitch::new(&thrown)) as _);
        config.environment = RunEnvironment { kill, ..RunEnvironment::default() };
        config
    };
    let gateway = start(make).await;
    let ask = Agent::new("Look.").request();
    assert_eq!(post(&gateway, &path("a"), &ask).await.words(), "Done.");
    let run = gateway.run(&run_id("a")).unwrap();
    fs::write(&thrown, "").unwrap();
    until("it is killed", || run.status() == Status::Stopped).await;
    fs::remove_file(&thrown).unwrap();
    drop((run, gateway));
    let gateway = start(make).await;
    let got = post(&gateway, &path("a"), &ask).await;
    assert_eq!(got.header("x-endstop-reason").as_deref(), Some("user_requested"), "{got:?}");
    assert_eq!(upstream.calls(), 1);
}

#[tokio::test]
async fn a_step_that_was_refused_was_not_taken() {
    let (upstream, keep) = (answering().await, directory("refused_step"));
    let make =
        |limit: u64| many(&format!("[stop]\nlimit = \"steps >= {limit}\"\n"), upstream.addr, &keep);
    let ask = Agent::new("Look.").request();
    let mut passed = 0;
    for limit in [2, 2, 4, 3, 5] {
        let gateway = start(|| make(limit)).await;
        if limit == 2 && passed == 2 {
            // The stop, too, is what it was.
            assert_eq!(gateway.open(&run_id("a")).unwrap().status(), Status::Stopped);
        }
        for _ in 0..4 {
            let got = post(&gateway, &path("a"), &ask).await;
            passed += u64::from(got.header("x-endstop-reason").is_none());
        }
        assert_eq!(passed, limit.max(upstream.calls() as u64));
        // Under a narrower limit it is stopped where that was reached.
        assert_eq!(reading_of(&gateway, "a", "steps"), passed.min(limit));
        drop(gateway);
    }
    assert_eq!((passed, upstream.calls()), (5, 5));
}

#[tokio::test]
async fn kept_runs_are_listed_and_told_as_they_were() {
    let upstream = Fake::start(|_, n| {
        let mut reply: serde_json::Value = serde_json::from_str(&reply_text("Done.")).unwrap();
        if n == 0 {
            reply.as_object_mut().unwrap().remove("usage");
        }
        json("200 OK", &reply.to_string())
    })
    .await;
    let keep = directory("listed");
    let make = || {
        let mut config = many("[stop]\nlimit = \"steps >= 9\"\n", upstream.addr, &keep);
        config.control = controlled();
        config
    };
    let runs = "/endstop/v1/runs";
    let mut gateway = start(make).await;
    for run in ["b", "b", "a"] {
        post(&gateway, &path(run), &Agent::new("Look.").request()).await;
    }
    let mut before = None;
    for life in 0..3 {
        if life > 0 {
            drop(gateway);
            gateway = start(make).await;
        }
        let all = command(&gateway, "GET", runs, TOKEN, "").await.json();
        let seen =
            |key: &str| [&all["runs"][0][key], &all["runs"][1][key]].map(|it| it.to_string());
        assert_eq!(seen("run"), ["\"a\"", "\"b\""]);
        let status = if life == 0 { "\"completed\"" } else { "\"stored\"" };
        assert_eq!(
            (seen("status"), &all["is_truncated"]),
            ([status, status].map(str::to_owned), &false.into())
        );
        let one = command(&gateway, "GET", &format!("{runs}/b"), TOKEN, "").await.json();
        let money = &one["report"]["spend"];
        assert_eq!((&money["is"], &money["estimated_calls"]), (&"estimate".into(), &1.into()));
        assert_eq!((&one["is_estimate"], &one["upstream_calls"]), (&true.into(), &2.into()));
        assert_eq!(before.get_or_insert_with(|| money.clone()), money);
        let known = command(&gateway, "GET", &format!("{runs}/a"), TOKEN, "").await.json();
        assert_eq!(known["report"]["spend"]["is"], "known");
    }
}

#[tokio::test]
async fn a_run_that_was_forgotten_goes_on_from_its_file() {
    let (upstream, keep) = (looping().await, directory("forgotten"));
    let mut config = many("[stop]\nlimit = \"steps >= 4\"\n", upstream.addr, &keep);
    config.bounds.runs = 2;
    let gateway = Gateway::start(config).await.unwrap();
    let runs = ["a", "b", "c", "d", "e"];
    let mut agents = runs.map(|_| Agent::new("Look."));
    let mut let_through = [0; 5];
    for _ in 0..6 {
        for ((run, agent), count) in runs.iter().zip(&mut agents).zip(&mut let_through) {
            *count += ask(&gateway, run, agent, 1).await;
        }
        assert!(gateway.runs().len() <= 2);
    }
    assert_eq!(let_through, [4; 5]);
    assert_eq!(upstream.calls(), 20);
}

#[tokio::test]
async fn calls_that_name_a_run_at_once_read_its_file_once() {
    let (upstream, keep) = (looping().await, directory("at_once"));
    let make = || many("[stop]\nlimit = \"steps >= 10\"\n", upstream.addr, &keep);
    let gateway = start(make).await;
    assert_eq!(ask(&gateway, "a", &mut Agent::new("Look."), 3).await, 3);
    drop(gateway);
    let gateway = start(make).await;
    let requests: Vec<_> = (0..40).map(|n| Agent::new(&format!("Task {n}.")).request()).collect();
    let path = path("a");
    let answers = join_all(requests.iter().map(|request| post(&gateway, &path, request))).await;
    let stopped = answers.iter().filter(|got| got.header("x-endstop-reason").is_some()).count();
    assert_eq!((stopped, upstream.calls()), (33, 10));
}

#[tokio::test]
async fn without_a_directory_a_run_that_has_not_ended_is_not_forgotten() {
    let upstream = Fake::start(|request, n| {
        if request.body.contains("Answer") {
            return json("200 OK", &reply_text("Done."));
        }
        json("200 OK", &reply_call(&format!("call_{n}"), "look", "{}"))
    })
    .await;
    let mut config = config("[stop]\nlimit = \"steps >= 2\"\n", upstream.addr);
    config.runs = Runs::Many { unnamed: Unnamed::Refuse, keys: Default::default() };
    config.bounds.runs = 2;
    let gateway = Gateway::start(config).await.unwrap();
    let (mut look, answer) = (Agent::new("Look."), Agent::new("Answer.").request());
    assert_eq!(ask(&gateway, "open", &mut look, 1).await, 1);
    for run in ["a", "b", "c"] {
        assert_eq!(post(&gateway, &path(run), &answer).await.words(), "Done.");
    }
    assert_eq!(ask(&gateway, "other", &mut Agent::new("Look."), 1).await, 1);
    let refused = post(&gateway, &path("d"), &answer).await;
    assert_eq!(refused.status, 503, "{refused:?}");
    // The limit applies as if no call had been made.
    assert_eq!(ask(&gateway, "open", &mut look, 5).await, 1);
    // A stopped one goes rather than one that has not ended.
    assert_eq!(post(&gateway, &path("d"), &answer).await.words(), "Done.");
    let ids: Vec<String> = gateway.runs().iter().map(|run| run.info().id.to_string()).collect();
    assert_eq!(ids, ["d", "other"]);
}

#[tokio::test]
async fn a_run_that_cannot_be_written_sends_nothing() {
    let (upstream, keep) = (looping().await, directory("unwritten"));
    let config = many("[stop]\nlimit = \"steps >= 9\"\n", upstream.addr, &keep);
    let gateway = Gateway::start(config).await.unwrap();
    let run = gateway.open(&run_id("a")).unwrap();
    fs::remove_dir_all(&keep).unwrap();
    for _ in 0..2 {
        let got = post(&gateway, &path("a"), &Agent::new("Look.").request()).await;
        assert_eq!(got.header("x-endstop-reason").as_deref(), Some("error"), "{got:?}");
        assert!(got.words().contains("cannot be stored"), "{got:?}");
    }
    assert_eq!((run.status(), upstream.calls()), (Status::Failed, 0));
    assert!(run.budget().held().is_zero());
}

#[tokio::test]
async fn a_directory_has_one_gateway() {
    let (upstream, keep) = (looping().await, directory("locked"));
    let make = || many("[stop]\nlimit = \"steps >= 9\"\n", upstream.addr, &keep);
    let gateway = Gateway::start(make()).await.unwrap();
    let error = Gateway::start(make()).await.unwrap_err();
    assert!(error.to_string().contains("stores its runs there"), "{error}");
    gateway.shut_down().await;
    drop(start(make).await);
}

#[tokio::test]
async fn a_call_that_a_crash_cut_is_charged_its_worst_case() {
    let upstream = Fake::start(|_, n| match n {
        0 => json("200 OK", &reply_call("call_0", "look", "{}")),
        _ => vec![Act::AwaitClose],
    })
    .await;
    for (name, policy) in [
        ("reserved", "[stop]\nlimit = \"steps >= 9 or tokens >= 100_000\"\n"),
        ("guessed", "[stop]\nlimit = \"steps >= 9\"\n"),
    ] {
        let (keep, copy) = (directory(name), directory(&format!("{name}-copy")));
        let gateway = start(|| many(policy, upstream.addr, &keep)).await;
        let mut agent = Agent::new("Look.");
        let before = upstream.calls();
        if before == 0 {
            ask(&gateway, "a", &mut agent, 1).await;
        }
        let run = gateway.open(&run_id("a")).unwrap();
        let settled = run.budget().settled();
        let body = agent.request().to_string();
        let stream = send(gateway.addr(), &path("a"), "", &body).await;
        until("it has arrived", || upstream.calls() == before.max(1) + 1).await;
        let held = run.budget().held();
        // The files that kill -9 would leave.
        fs::create_dir_all(&copy).unwrap();
        fs::copy(keep.join("a.jsonl"), copy.join("a.jsonl")).unwrap();
        // A process that has a run has the directory.
        drop((stream, gateway, run));
        let gateway = start(|| many(policy, upstream.addr, &copy)).await;
        let run = gateway.open(&run_id("a")).unwrap();
        let charged = run.budget().settled();
        let cost = charged.cost.picos() - settled.cost.picos();
        assert!(cost >= held.cost.picos() && cost > 0, "{name}: {charged:?}, held {held:?}");
        if name == "reserved" {
            assert_eq!(charged.tokens - settled.tokens, held.tokens);
        }
        assert_eq!(charged.steps, settled.steps + 1);
        assert!(run.budget().held().is_zero());
        // Once, however often it is read.
        drop((gateway, run));
        let gateway = start(|| many(policy, upstream.addr, &copy)).await;
        assert_eq!(gateway.open(&run_id("a")).unwrap().budget().settled(), charged);
    }
}

#[tokio::test]
async fn a_budget_of_all_runs_remembers_what_they_spent() {
    let (upstream, keep) = (looping().await, directory("total"));
    let total = |dollars: &str| {
        let cost = Some(dollars.parse::<Money>().unwrap());
        Budget::root(Limits { cost, ..Limits::unlimited() })
    };
    let make = |budget: &Budget| {
        let mut config = many("[stop]\nlimit = \"steps >= 50\"\n", upstream.addr, &keep);
        config.environment =
            RunEnvironment { budget: Some(budget.clone()), ..RunEnvironment::default() };
        config.bounds.runs = 2;
        config
    };
    let first = total("0.001");
    let gateway = start(|| make(&first)).await;
    for run in ["a", "b", "c"] {
        assert_eq!(ask(&gateway, run, &mut Agent::new("Look."), 2).await, 2);
    }
    // A run that was evicted is not counted twice.
    assert_eq!(ask(&gateway, "a", &mut Agent::new("Look."), 1).await, 1);
    drop(gateway);
    let spent = first.settled();
    assert_eq!((spent.tokens, spent.tool_calls), (7 * 110, 7));
    let budget = total("0.001");
    // Each try would charge it; only the one that starts does.
    let gateway = start(|| make(&budget)).await;
    assert_eq!(budget.settled(), spent);
    for run in ["a", "d"] {
        ask(&gateway, run, &mut Agent::new("Look."), 40).await;
    }
    assert!(budget.settled().cost <= "0.001".parse().unwrap());
    let calls = upstream.calls();
    assert_eq!(ask(&gateway, "e", &mut Agent::new("Look."), 1).await, 0);
    assert_eq!(upstream.calls(), calls);
    drop(gateway);
    // A run that cannot be read has an unknown spend.
    fs::write(keep.join("z.jsonl"), "{}\n").unwrap();
    let budget = total("0.001");
    let error = loop {
        match Gateway::start(make(&budget)).await {
            Err(StartError::Store { why, .. }) if why.contains("stores its runs there") => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            started => break started.unwrap_err().to_string(),
        }
    };
    assert!(error.contains("z.jsonl`: line 1 is damaged"), "{error}");
}
