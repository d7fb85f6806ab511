//! Files that cannot be used, writes that fail, and the words of acts from outside.

mod golden;
mod journaled;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use endstop_core::Policy;
use endstop_core::condition::named::max_steps;
use endstop_core::event::{EventKind, NewLimit};
use endstop_core::units::TokenUsage;
use rusqlite::{Connection, StatementStatus, TransactionBehavior};

use super::recorder::Act;
use super::*;
use crate::observe::play::{BEGAN, Play};
use crate::observe::{Detail, Observer as _, RunInfo, SettledCall, Spender};
use crate::store::RunId;

struct TestFile(PathBuf);

impl TestFile {
    fn new() -> Self {
        let id = RunId::new();
        Self(std::env::temp_dir().join(format!("endstop-history-{id}/history.sqlite")))
    }

    fn recorder(&self) -> HistoryRecorder {
        let origin = HistoryOrigin {
            kind: "run".to_owned(),
            program: "agent".to_owned(),
            directory: "shop".to_owned(),
        };
        HistoryRecorder::new(&self.0, origin)
    }

    fn calls(&self) -> Vec<RecordedCall> {
        let mut calls = Vec::new();
        let history = History::open(&self.0).unwrap().unwrap();
        history.each_call(None, |call| calls.push(call)).unwrap();
        calls
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0.parent().unwrap());
    }
}

fn info(id: &str) -> RunInfo {
    RunInfo {
        id: RunId::parse(id).unwrap(),
        parent: None,
        agent: "main".to_owned(),
        model: String::new(),
        provider: String::new(),
        depth: 0,
        is_resumed: false,
    }
}

/// A call of 1,000 pico-dollars, some milliseconds after the beginning.
fn settle(recorder: &HistoryRecorder, run: &RunInfo, after: u64) {
    let usage = TokenUsage { input: 7, cache_read: 3, output: 2, ..TokenUsage::default() };
    recorder.settled(
        run,
        &SettledCall {
            root: run,
            wall: WallTime(BEGAN + after),
            spender: Spender::Model { model: "gpt-5.2", provider: "openai" },
            usage: Some(usage),
            cost: Money::from_picos(1_000),
            is_priced: true,
            unconfirmed: Money::ZERO,
            is_estimate: false,
            is_run_over: false,
            budgets: &["me".to_owned(), "org".to_owned()],
            key: Some("alice"),
            number: None,
        },
    );
}

#[test]
fn a_statement_that_each_call_needs_is_planned_once() {
    let (file, run) = (TestFile::new(), info("one"));
    let (recorder, other) = (file.recorder(), info("another"));
    for (number, run) in [&run, &other, &run, &other].into_iter().enumerate() {
        settle(&recorder, run, number as u64);
    }
    let tables = recorder.tables();
    let kept = tables.connection.as_ref().unwrap().prepare_cached(rows::OWN_RUN).unwrap();
    assert_eq!(
        (kept.get_status(StatementStatus::Run), kept.get_status(StatementStatus::RePrepare)),
        (4, 0)
    );
}

#[test]
fn calls_beyond_a_log_are_found_by_their_number_and_not_by_their_order() {
    let file = TestFile::new();
    let at = WallTime(BEGAN + 5);
    let settle = |recorder: &HistoryRecorder, run: &RunInfo, number: u64, picos: u64| {
        let call = SettledCall {
            root: run,
            wall: at,
            spender: Spender::Model { model: "gpt-5.2", provider: "openai" },
            usage: None,
            cost: Money::from_picos(picos),
            is_priced: true,
            unconfirmed: Money::ZERO,
            is_estimate: false,
            is_run_over: false,
            budgets: &[],
            key: Some("alice"),
            number: Some(number),
        };
        recorder.settled(run, &call);
    };
    // Other gateways served the calls before. Of two that were settled at the same time, the log has the first.
    let (recorder, run) = (file.recorder(), info("shared"));
    settle(&recorder, &run, 9, 90);
    settle(&recorder, &run, 8, 80);
    let (again, resumed) = (file.recorder(), RunInfo { is_resumed: true, ..info("shared") });
    again.continues_from(&resumed, 8, at);
    settle(&again, &resumed, 9, 1_000);
    let mut costs: Vec<u64> = file.calls().iter().map(|call| call.cost.picos()).collect();
    costs.sort_unstable();
    assert_eq!(costs, [80, 1_000]);
}

#[test]
fn a_call_is_read_back_as_it_was() {
    let file = TestFile::new();
    let recorder = file.recorder();
    let run = info("nightly");
    settle(&recorder, &run, 5);
    let expected = RecordedCall {
        run: "nightly".to_owned(),
        directory: "shop".to_owned(),
        at: WallTime(BEGAN + 5),
        model: Some("gpt-5.2".to_owned()),
        provider: Some("openai".to_owned()),
        tool: None,
        input: 10,
        cached: 3,
        output: 2,
        cost: Money::from_picos(1_000),
        unconfirmed: Money::ZERO,
        is_priced: true,
        is_estimate: false,
        key: Some("alice".to_owned()),
        budgets: vec!["me".to_owned(), "org".to_owned()],
    };
    assert_eq!(file.calls(), [expected]);
    assert_eq!(recorder.finish(), 0);
}

#[test]
fn a_history_begins_with_its_first_call_that_is_not_removed() {
    let file = TestFile::new();
    let recorder = file.recorder();
    let run = info("nightly");
    settle(&recorder, &run, 5);
    settle(&recorder, &run, 9);
    let mut history = History::open(&file.0).unwrap().unwrap();
    assert_eq!(history.begins().unwrap(), Some(WallTime(BEGAN + 5)));
    history.prune(WallTime(BEGAN + 6), false).unwrap();
    assert_eq!(history.begins().unwrap(), Some(WallTime(BEGAN + 9)), "the run began earlier");
    history.prune(WallTime(BEGAN + 10), false).unwrap();
    assert_eq!(history.begins().unwrap(), None);
}

#[test]
fn a_process_without_calls_and_acts_leaves_no_file() {
    let file = TestFile::new();
    let recorder = file.recorder();
    let mut play = Play::new(&recorder, "quiet", Policy::from(max_steps(9)));
    play.tell(0, EventKind::RunBegin { agent: None, depth: 0 }, Detail::None);
    play.tell(1, EventKind::StepBegin, Detail::None);
    play.end();
    assert_eq!(recorder.finish(), 0);
    assert!(!file.0.exists() && !file.0.parent().unwrap().exists());
    assert!(History::open(&file.0).unwrap().is_none());
    assert!(!file.0.exists());
}

#[test]
fn a_run_that_is_stopped_before_a_call_was_settled_is_in_the_history() {
    let file = TestFile::new();
    let recorder = file.recorder();
    let stop = |play: &mut Play<'_>| {
        play.tell(3, EventKind::RunBegin { agent: None, depth: 0 }, Detail::None);
        play.tell(1, EventKind::StepBegin, Detail::None);
        play.tell(0, EventKind::AttemptBegin { next_cost: None }, Detail::None);
        play.reply((1, 1), 1, Detail::None);
        play.tell(1, EventKind::StepEnd, Detail::None);
        assert_eq!(play.run.status().name(), "stopped");
        play.end();
    };
    let mut play = Play::new(&recorder, "early", Policy::from(max_steps(1)));
    let mut child = play.child("early-1", "helper", Policy::from(max_steps(1)));
    stop(&mut child);
    assert!(!file.0.exists(), "its outermost run continues");
    stop(&mut play);
    let history = History::open(&file.0).unwrap().unwrap();
    let run = history.run("early").unwrap().unwrap();
    assert_eq!((run.began, run.status.as_deref()), (WallTime(BEGAN + 3), Some("stopped")));
    assert_eq!(
        (run.ended, run.reason.as_deref()),
        (Some(WallTime(BEGAN + 15)), Some("steps_limit"))
    );
    assert!(history.run("early-1").unwrap().is_none());
    assert_eq!(file.calls().len(), 0);
}

#[test]
fn a_later_format_and_other_databases_are_refused_and_stop_no_run() {
    let file = TestFile::new();
    settle(&file.recorder(), &info("first"), 1);
    let connection = Connection::open(&file.0).unwrap();
    connection.pragma_update(None, "user_version", 3).unwrap();
    let error = History::open(&file.0).unwrap_err();
    assert!(error.to_string().contains("has format 3, and this program knows up to 2"), "{error}");
    let told = Arc::new(Mutex::new(Vec::new()));
    let list = Arc::clone(&told);
    let recorder = file.recorder().on_failure(move |error| {
        list.lock().unwrap().push(error.to_string());
    });
    for after in 1..=3 {
        settle(&recorder, &info("second"), after);
    }
    assert_eq!(recorder.finish(), 3);
    assert_eq!(told.lock().unwrap().len(), 1, "{told:?}");
    connection.pragma_update(None, "application_id", 7).unwrap();
    let error = History::open(&file.0).unwrap_err();
    assert!(error.to_string().contains("a database of another program"), "{error}");
    drop(connection);
    let text = file.0.with_file_name("text");
    std::fs::write(&text, "no database, but long enough to have a header of one".repeat(9))
        .unwrap();
    let error = History::open(&text).unwrap_err();
    assert!(matches!(error, HistoryError::Damaged { .. }), "{error}");
}

#[test]
fn a_full_disk_warns_once_and_what_waits_is_written_later() {
    let file = TestFile::new();
    let failures = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&failures);
    let recorder = file.recorder().on_failure(move |error| {
        assert!(error.to_string().contains("full"), "{error}");
        counted.fetch_add(1, Ordering::SeqCst);
    });
    settle(&recorder, &info("run-0"), 0);
    {
        let tables = recorder.tables();
        let connection = tables.connection.as_ref().unwrap();
        let pages: i64 = connection.query_row("PRAGMA page_count", (), |row| row.get(0)).unwrap();
        connection.pragma_update(None, "max_page_count", pages + 1).unwrap();
    }
    let mut calls = 1;
    while recorder.tables().waiting.is_empty() {
        settle(&recorder, &info(&format!("run-{calls}-of-a-long-name")), calls);
        calls += 1;
    }
    for _ in 0..5 {
        settle(&recorder, &info(&format!("run-{calls}-of-a-long-name")), calls);
        calls += 1;
    }
    assert_eq!(failures.load(Ordering::SeqCst), 1);
    assert_eq!((file.calls().len() as u64, recorder.tables().waiting.len()), (calls - 6, 6));
    let lifted = |connection: &Connection| {
        connection.pragma_update(None, "max_page_count", 1_000_000).unwrap();
    };
    lifted(recorder.tables().connection.as_ref().unwrap());
    settle(&recorder, &info("last"), calls);
    let found = file.calls();
    assert_eq!((found.len() as u64, recorder.finish()), (calls + 1, 0));
    let times: Vec<u64> = found.iter().map(|call| call.at.0 - BEGAN).collect();
    assert_eq!(times, (0..=calls).collect::<Vec<_>>());
}

#[test]
fn what_never_could_be_written_is_counted() {
    let file = TestFile::new();
    // A file in the place of the directory.
    let directory = file.0.parent().unwrap();
    std::fs::write(directory, "").unwrap();
    let recorder = file.recorder();
    for after in 0..3 {
        settle(&recorder, &info("run"), after);
    }
    assert_eq!(recorder.finish(), 3);
    std::fs::remove_file(directory).unwrap();
    // The next call finds the place free.
    settle(&recorder, &info("run"), 3);
    assert_eq!((file.calls().len(), recorder.finish()), (1, 3));
}

#[test]
fn a_busy_file_is_waited_for_a_bounded_time_and_loses_nothing() {
    let file = TestFile::new();
    let recorder = file.recorder();
    settle(&recorder, &info("run"), 0);
    let mut other = Connection::open(&file.0).unwrap();
    let blocking = other.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    for after in 1..=3 {
        settle(&recorder, &info("run"), after);
    }
    assert_eq!(recorder.tables().waiting.len(), 3);
    drop(blocking);
    settle(&recorder, &info("run"), 4);
    assert_eq!((file.calls().len(), recorder.finish()), (5, 0));
}

#[test]
fn calls_wait_once_for_a_file_that_cannot_be_opened() {
    let file = TestFile::new();
    let recorder = file.recorder();
    std::fs::create_dir_all(file.0.parent().unwrap()).unwrap();
    let other = Connection::open(&file.0).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let begun = std::time::Instant::now();
    for after in 0..60 {
        settle(&recorder, &info("run"), after);
    }
    // A wait for each would take two minutes.
    assert!(begun.elapsed() < std::time::Duration::from_secs(60), "{:?}", begun.elapsed());
    assert_eq!(recorder.tables().waiting.len(), 60);
    other.execute_batch("ROLLBACK").unwrap();
    drop(other);
    settle(&recorder, &info("run"), 60);
    assert_eq!((file.calls().len(), recorder.finish()), (61, 0));
}

#[test]
fn two_runs_of_one_name_in_two_processes_are_two() {
    let file = TestFile::new();
    let (first, second) = (file.recorder(), file.recorder());
    settle(&first, &info("nightly"), 0);
    settle(&second, &info("nightly"), 10);
    settle(&first, &info("nightly"), 20);
    let history = History::open(&file.0).unwrap().unwrap();
    let last = history.run("nightly").unwrap().unwrap();
    let mut times = Vec::new();
    history.each_call_of(&last, |call| times.push(call.at.0 - BEGAN)).unwrap();
    assert_eq!(times, [10]);
    // One that continues in another process is the same.
    let resumed = RunInfo { is_resumed: true, ..info("nightly") };
    settle(&file.recorder(), &resumed, 30);
    history.each_call_of(&last, |call| times.push(call.at.0 - BEGAN)).unwrap();
    assert_eq!(times, [10, 10, 30]);
    assert_eq!(history.names_beginning_with("nigh").unwrap(), ["nightly"]);
}

#[test]
fn old_calls_acts_and_ended_runs_are_removed() {
    let file = TestFile::new();
    let recorder = file.recorder();
    for (id, at) in [("old", 10), ("both", 20), ("new", 200)] {
        let mut play = Play::new(&recorder, id, Policy::from(max_steps(9)));
        play.tell(at, EventKind::RunBegin { agent: None, depth: 0 }, Detail::None);
        let pause = EventKind::PauseRequested { by: "ann", why: "lunch" };
        play.tell(0, pause, Detail::None);
        settle(&recorder, &play.info, at);
        if id == "both" {
            settle(&recorder, &play.info, 150);
        }
        play.end();
    }
    let mut history = History::open(&file.0).unwrap().unwrap();
    let expected = Pruned { runs: 1, calls: 2, acts: 2 };
    assert_eq!(history.prune(WallTime(BEGAN + 100), true).unwrap(), expected);
    assert_eq!(file.calls().len(), 4, "a dry run removes nothing");
    assert_eq!(history.prune(WallTime(BEGAN + 100), false).unwrap(), expected);
    assert!(history.run("old").unwrap().is_none());
    assert!(history.run("both").unwrap().is_some());
    assert_eq!(history.run("new").unwrap().unwrap().acts.len(), 1);
    // A process that still drives a run whose row is gone adds it again.
    settle(&recorder, &info("old"), 300);
    assert_eq!(history.run("old").unwrap().unwrap().origin.program, "agent");
}

#[test]
fn what_is_older_than_a_recorder_keeps_is_removed_when_it_opens_the_file_and_once_a_day() {
    const DAY: u64 = 24 * 3_600_000;
    let file = TestFile::new();
    let days = || -> Vec<u64> {
        file.calls().iter().map(|call| (call.at.0 - BEGAN).div_ceil(DAY)).collect()
    };
    let all = file.recorder();
    settle(&all, &info("old"), 0);
    settle(&all, &info("old"), 20 * DAY);
    settle(&file.recorder(), &info("all"), 40 * DAY);
    assert_eq!(days(), [0, 20, 40], "without a length nothing is removed");
    let month = std::time::Duration::from_secs(30 * 24 * 3_600);
    let recorder = file.recorder().keep_for(month);
    settle(&recorder, &info("new"), 41 * DAY);
    assert_eq!(days(), [20, 40, 41]);
    // Within a day nothing is removed again.
    settle(&all, &info("old"), 0);
    settle(&recorder, &info("new"), 42 * DAY - 1);
    assert_eq!(days(), [0, 20, 40, 41, 42]);
    settle(&recorder, &info("new"), 51 * DAY);
    assert_eq!(days(), [40, 41, 42, 51]);
    assert_eq!(recorder.finish(), 0);
    let history = History::open(&file.0).unwrap().unwrap();
    assert!(history.run("old").unwrap().is_none(), "a run without calls goes too");
}

#[test]
fn acts_say_who_did_what_and_why() {
    let policy = Policy::from_toml(
        "unbounded = true\n[stop]\nlong = \"steps >= 9\"\n[pause]\nask = \"steps >= 3\"",
    )
    .unwrap();
    let file = TestFile::new();
    let recorder = file.recorder();
    let mut play = Play::new(&recorder, "run", policy);
    play.tell(0, EventKind::RunBegin { agent: None, depth: 0 }, Detail::None);
    let limit = Some(NewLimit { gauge: "steps", limit: 12 });
    let kinds = [
        EventKind::PauseRequested { by: "ann", why: "lunch" },
        EventKind::ResumeRequested { by: "bob", why: "" },
        EventKind::Approved { rule: "ask", limit: None, by: "ann", why: "go on" },
        EventKind::Approved { rule: "long", limit, by: "ann", why: "" },
        EventKind::Signal { name: "reviewed", by: "", why: "" },
        EventKind::Cancel { message: "wrong (cancelled by ann@host (endstop, process 7))" },
        EventKind::Kill { message: "maintenance" },
    ];
    for kind in kinds {
        play.tell(1, kind, Detail::None);
    }
    play.end();
    let run = History::open(&file.0).unwrap().unwrap().run("run").unwrap().unwrap();
    let acts: Vec<_> = run
        .acts
        .iter()
        .map(|act| {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            (act.what.clone(), text(&act.who), text(&act.detail), text(&act.why))
        })
        .collect();
    let expected = [
        ("paused", "ann", "", "lunch"),
        ("resumed", "bob", "", ""),
        ("approved", "ann", "rule ask", "go on"),
        ("raised", "ann", "rule long, steps 12", ""),
        ("signal", "", "reviewed", ""),
        ("cancelled", "ann@host (endstop, process 7)", "", "wrong"),
        ("killed", "", "", "maintenance"),
    ];
    let expected = expected.map(|(what, who, detail, why)| {
        (what.to_owned(), who.to_owned(), detail.to_owned(), why.to_owned())
    });
    assert_eq!(acts, expected);
    assert_eq!(
        (run.status.as_deref(), run.reason.as_deref()),
        (Some("stopped"), Some("user_requested"))
    );
    assert_eq!(run.ended, Some(WallTime(BEGAN + 7)));
}

#[test]
fn a_kill_by_the_control_api_is_one_whatever_event_it_comes_as() {
    let file = TestFile::new();
    let recorder = file.recorder();
    let play = Play::new(&recorder, "run", Policy::from(max_steps(9)));
    let act = |message| Act::of(&EventKind::Cancel { message }, &play.run);
    let killed = |who, why| Some(Act { who, what: "killed", detail: None, why });
    assert_eq!(act("killed by ann"), killed("ann", ""));
    assert_eq!(act("too dear (killed by ann)"), killed("ann", "too dear"));
}

#[test]
fn a_run_that_was_let_continue_has_who_did_it_and_why() {
    let file = TestFile::new();
    let recorder = file.recorder();
    let play = Play::new(&recorder, "run", Policy::from(max_steps(9)));
    let act = Act::of(&EventKind::Reopened { by: "ann", why: "more agents" }, &play.run);
    let reopened = Act { who: "ann", what: "reopened", detail: None, why: "more agents" };
    assert_eq!(act, Some(reopened));
}
