//! Runs that someone outside pauses.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use endstop_core::EventKind;
use endstop_core::run::Status;
use endstop_core::units::WallTime;
use endstop_gateway::{Gateway, PauseLimit};
use endstop_runtime::account::{
    Account, AccountSet, AccountTables, MemoryBudgetStore, OnFull, RunAccounts,
};
use endstop_runtime::observe::{Observation, Observer};
use futures_util::future::join;
use serde_json::json;
use tokio::sync::Notify;

use crate::fake::{Act, Fake, json as answer};
use crate::kit::*;
use crate::runs::{TOKEN, ask};

const POLICY: &str = "[stop]\nlimit = \"steps >= 9\"\n";

/// Asks for a tool, again and again.
async fn repeating() -> Fake {
    Fake::start(|_, n| answer("200 OK", &reply_call(&format!("call_{n}"), "look", "{}"))).await
}

async fn gateway_with_limit(upstream: &Fake, limit: Duration) -> Gateway {
    let mut config = config(POLICY, upstream.addr);
    config.control = controlled();
    config.pause = PauseLimit(limit);
    Gateway::start(config).await.unwrap()
}

fn command(name: &str) -> String {
    format!("/endstop/v1/runs/{RUN}/{name}")
}

#[tokio::test]
async fn a_call_waits_while_its_run_is_paused_from_outside() {
    let upstream = repeating().await;
    let gateway = gateway_with_limit(&upstream, Duration::from_secs(60)).await;
    let mut agent = Agent::new("Look.");
    assert!(agent.take(&chat(&gateway, &agent.request()).await, "nothing"));
    let lunch = json!({ "by": "ann", "message": "lunch" }).to_string();
    let paused = ask(&gateway, "POST", &command("pause"), TOKEN, &lunch).await;
    assert_eq!((paused.status, &paused.json()["pause"]["by"]), (200, &json!("ann")));
    assert_eq!(ask(&gateway, "POST", &command("pause"), TOKEN, &lunch).await.status, 409);
    let request = agent.request();
    let resuming = async {
        assert_eq!(gateway.stopped_or_paused(&id()).await, Status::Paused);
        all_that_is_on_its_way().await;
        assert_eq!(upstream.calls(), 1);
        assert!(!gateway.approve(&id(), None), "no rule pauses it");
        all_that_is_on_its_way().await;
        assert_eq!((upstream.calls(), status(&gateway)), (1, Status::Paused));
        let by = json!({ "by": "bob", "message": "back" }).to_string();
        let resumed = ask(&gateway, "POST", &command("resume"), TOKEN, &by).await;
        assert_eq!((resumed.status, &resumed.json()["pause"]), (200, &json!(null)));
        assert_eq!(ask(&gateway, "POST", &command("resume"), TOKEN, &by).await.status, 409);
    };
    let (got, ()) = join(chat(&gateway, &request), resuming).await;
    assert!(got.header("x-endstop-reason").is_none(), "{got:?}");
    assert_eq!((upstream.calls(), status(&gateway)), (2, Status::InProgress));
}

#[tokio::test]
async fn refused_commands_leave_a_paused_run_paused_and_its_time_standing() {
    let upstream = repeating().await;
    let gateway = gateway_with_limit(&upstream, Duration::from_secs(60)).await;
    let mut agent = Agent::new("Look.");
    assert!(agent.take(&chat(&gateway, &agent.request()).await, "nothing"));
    assert!(gateway.pause(&id(), "ann", "lunch"));
    let request = agent.request();
    let commands = async {
        assert_eq!(gateway.stopped_or_paused(&id()).await, Status::Paused);
        let hard = json!({ "by": "bob", "usd": "1" }).to_string();
        let unknown = json!({ "by": "bob", "rule": "other" }).to_string();
        assert_eq!(ask(&gateway, "POST", &command("resume"), TOKEN, &hard).await.status, 409);
        assert_eq!(ask(&gateway, "POST", &command("approve"), TOKEN, "").await.status, 409);
        assert_eq!(ask(&gateway, "POST", &command("approve"), TOKEN, &unknown).await.status, 409);
        let run = gateway.run(&id()).unwrap();
        let active = || {
            run.tick();
            run.look(|run| run.gauge("active").unwrap())
        };
        let before = active();
        tokio::time::sleep(Duration::from_millis(30)).await;
        assert_eq!((active(), status(&gateway), upstream.calls()), (before, Status::Paused, 1));
        assert!(gateway.resume(&id(), "ann", ""));
    };
    let (got, ()) = join(chat(&gateway, &request), commands).await;
    assert!(got.header("x-endstop-reason").is_none(), "{got:?}");
}

#[tokio::test]
async fn a_call_in_flight_ends_as_usual_and_a_call_that_waits_too_long_may_come_again() {
    let gate = Arc::new(Notify::new());
    let opened = Arc::clone(&gate);
    let upstream = Fake::start(move |_, n| match n {
        0 => {
            let mut acts = vec![Act::Gate(Arc::clone(&gate))];
            acts.extend(answer("200 OK", &reply_call("c", "look", "{}")));
            acts
        }
        _ => answer("200 OK", &reply_text("Done.")),
    })
    .await;
    let gateway = gateway_with_limit(&upstream, Duration::from_millis(30)).await;
    let mut agent = Agent::new("Look.");
    let pausing = async {
        until("it has arrived", || upstream.calls() == 1).await;
        assert!(gateway.pause(&id(), "ann", "lunch"));
        opened.notify_one();
    };
    let request = agent.request();
    let (got, ()) = join(chat(&gateway, &request), pausing).await;
    assert!(got.header("x-endstop-reason").is_none(), "{got:?}");
    assert!(agent.take(&got, "nothing"));
    assert_eq!(reading(&gateway, "tool_calls"), 1, "the client has it already");
    let late = chat(&gateway, &agent.request()).await;
    assert!(late.words().contains("is paused by ann: lunch"), "{late:?}");
    assert!(gateway.resume(&id(), "ann", "") && !gateway.resume(&id(), "ann", ""));
    let got = chat(&gateway, &agent.request()).await;
    assert_eq!((got.words().as_str(), upstream.calls()), ("Done.", 2));
}

#[tokio::test]
async fn sub_agents_of_a_paused_run_wait_too_and_go_on_with_it() {
    let upstream = repeating().await;
    let gateway = gateway_with_limit(&upstream, Duration::from_secs(60)).await;
    let helper = "/r/helper/v1/chat/completions";
    let mut child = Agent::new("Look there.");
    assert!(child.take(&post(&gateway, helper, &child.request()).await, "nothing"));
    assert!(gateway.pause(&id(), "ann", ""));
    let (first, new) = (child.request(), Agent::new("Another.").request());
    let both =
        join(post(&gateway, helper, &first), post(&gateway, "/r/new/v1/chat/completions", &new));
    let resuming = async {
        assert_eq!(gateway.stopped_or_paused(&id()).await, Status::Paused);
        all_that_is_on_its_way().await;
        assert_eq!(upstream.calls(), 1);
        assert!(gateway.resume(&id(), "ann", ""));
    };
    let ((first, new), ()) = join(both, resuming).await;
    for got in [first, new] {
        assert!(got.header("x-endstop-reason").is_none(), "{got:?}");
    }
    assert_eq!(upstream.calls(), 3);
    let got = chat(&gateway, &Agent::new("Look.").request()).await;
    assert!(got.header("x-endstop-reason").is_none(), "{got:?}");
}

/// The acts from outside, as the trace of a run has them.
#[derive(Debug, Default)]
struct Acts(Mutex<Vec<String>>);

impl Observer for Acts {
    fn observe(&self, seen: &Observation<'_>) {
        let act = match seen.event.kind {
            EventKind::Signal { name, by, why } => format!("{name} by {by}: {why}"),
            EventKind::PauseRequested { by, why } => format!("paused by {by}: {why}"),
            EventKind::ResumeRequested { by, why } => format!("resumed by {by}: {why}"),
            _ => return,
        };
        self.0.lock().unwrap().push(act);
    }
}

#[tokio::test]
async fn who_acts_and_why_is_in_the_trace() {
    let upstream = repeating().await;
    let acts = Arc::new(Acts::default());
    let mut config = config(POLICY, upstream.addr);
    config.control = controlled();
    config.environment.observers.push(Arc::clone(&acts) as Arc<dyn Observer>);
    let gateway = Gateway::start(config).await.unwrap();
    for (name, body) in [
        ("signal", json!({ "name": "review", "by": "ann", "message": "read it" })),
        ("signal", json!({ "name": "other" })),
        ("pause", json!({ "by": "ann", "message": "lunch" })),
        ("resume", json!({ "by": "bob", "message": "back" })),
    ] {
        let got = ask(&gateway, "POST", &command(name), TOKEN, &body.to_string()).await;
        assert_eq!(got.status, 200, "{got:?}");
    }
    let acts = acts.0.lock().unwrap();
    let all = [
        "review by ann: read it",
        "other by the control API: ",
        "paused by ann: lunch",
        "resumed by bob: back",
    ];
    assert_eq!(*acts, all);
}

#[tokio::test]
async fn a_call_that_waits_for_the_end_of_a_pause_waits_for_no_budget() {
    let upstream = repeating().await;
    let mut config = config(POLICY, upstream.addr);
    let limited = |limit: &str| {
        let me = Account { on_full: OnFull::Pause, ..Account::new("me", &[limit]).unwrap() };
        AccountSet::new([me]).unwrap()
    };
    let store = Arc::new(MemoryBudgetStore::new());
    let accounts = RunAccounts::new(store, limited("1 steps per month"), &["me"], "test").unwrap();
    config.environment.accounts = Some(accounts.clone());
    config.pause = PauseLimit(Duration::from_secs(600));
    let gateway = Gateway::start(config).await.unwrap();
    let mut agent = Agent::new("Look.");
    assert!(agent.take(&chat(&gateway, &agent.request()).await, "nothing"));
    let request = agent.request().to_string();
    let waiting = send(gateway.addr(), "/v1/chat/completions", "", &request).await;
    let awaited = || gateway.awaited_budget(&id()).map(|refused| refused.account);
    until("it waits for the budget", || awaited().as_deref() == Some("me")).await;
    assert!(gateway.pause(&id(), "ann", "lunch"));
    // The budget has room, so that only the pause is in the way.
    accounts.replace(AccountTables {
        set: limited("9 steps per month"),
        names: vec!["me".to_owned()],
        ..AccountTables::default()
    });
    until("it waits for the end of the pause", || awaited().is_none()).await;
    assert_eq!(upstream.calls(), 1);
    assert!(gateway.resume(&id(), "ann", ""));
    assert_eq!(receive(waiting).await.status, 200);
    assert_eq!(upstream.calls(), 2);
}

#[tokio::test]
async fn a_call_that_waits_for_a_budget_continues_when_its_window_is_over() {
    /// The last days of November 2026, and the end of that month in UTC.
    const NOVEMBER: u64 = 1_795_564_800_000;
    const DECEMBER: u64 = 1_796_083_200_000;
    let upstream = repeating().await;
    let mut config = config(POLICY, upstream.addr);
    let now = Arc::new(AtomicU64::new(NOVEMBER));
    let wall = Arc::clone(&now);
    let store =
        MemoryBudgetStore::with_clock(Arc::new(move || WallTime(wall.load(Ordering::SeqCst))));
    let me = Account::new("me", &["1 steps per month"]).unwrap();
    let set = AccountSet::new([Account { on_full: OnFull::Pause, ..me }]).unwrap();
    let accounts = RunAccounts::new(Arc::new(store), set, &["me"], "test").unwrap();
    config.environment.accounts = Some(accounts);
    config.pause = PauseLimit(Duration::from_secs(600));
    let gateway = Gateway::start(config).await.unwrap();
    let mut agent = Agent::new("Look.");
    assert!(agent.take(&chat(&gateway, &agent.request()).await, "nothing"));
    let request = agent.request().to_string();
    let waiting = send(gateway.addr(), "/v1/chat/completions", "", &request).await;
    until("it waits for the budget", || gateway.awaited_budget(&id()).is_some()).await;
    let refused = gateway.awaited_budget(&id()).unwrap();
    assert_eq!((&*refused.account, refused.resets_at), ("me", Some(WallTime(DECEMBER))));
    now.store(DECEMBER - 1, Ordering::SeqCst);
    // Longer than it takes to look again.
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!(upstream.calls(), 1, "the month is not over");
    now.store(DECEMBER, Ordering::SeqCst);
    let got = receive(waiting).await;
    assert!(got.status == 200 && got.header("x-endstop-reason").is_none(), "{got:?}");
    assert_eq!(upstream.calls(), 2);
    until("it no longer waits", || gateway.awaited_budget(&id()).is_none()).await;
    assert_eq!(status(&gateway), Status::InProgress);
}
