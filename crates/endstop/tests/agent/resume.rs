//! Resuming saved runs: after every step, after the process died, in whatever store.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use endstop::agent::{AgentBuilder, AgentLoop, AgentState, ExecuteError};
use endstop::core::run::Status;
use endstop::core::signal::StopReason;
use endstop::core::units::WallTime;
use endstop::message::{Message, ToolOutcome};
use endstop::model::{ScriptedModel, ScriptedResponse};
use endstop::store::{FileStore, MemoryStore, RunId, Store, StoreError};
use serde_json::json;

use crate::kit::*;
use crate::support::*;

/// Works for six steps, with tool errors, a sub-agent and two calls at once; then answers.
fn worker() -> Arc<ScriptedModel> {
    priced(|request, _| {
        let reply = match replies_so_far(request) {
            1 => ScriptedResponse::call("fail", json!({})).tool_call("look", json!({})),
            2 => ScriptedResponse::call("helper", json!({ "task": "Help." })),
            3 => ScriptedResponse::call("nosuch", json!({})),
            n if n < 6 => ScriptedResponse::call("look", json!({ "n": n })),
            _ => ScriptedResponse::text("Done."),
        };
        reply.usage(1_000, 100).delay(Duration::from_millis(250))
    })
}

/// Two steps, then an answer.
fn helper() -> AgentLoop {
    let model = priced(|request, _| {
        let reply = match replies_so_far(request) {
            n if n < 2 => ScriptedResponse::call("look", json!({})),
            _ => ScriptedResponse::text("Helped."),
        };
        reply.usage(500, 50).delay(Duration::from_millis(50))
    });
    let agent = AgentLoop::builder("helper").model(model).tool(ok_tool("look"));
    agent.stop_when(condition("steps >= 9")).build().unwrap()
}

fn fresh(rules: &str) -> AgentBuilder {
    under(&worker(), rules)
        .tools([helper().as_tool("Helps.")])
        .tool(FunctionLook::tool())
        .tool(failing_tool("fail"))
        .wall_clock(Arc::new(|| WallTime(1_800_000_000_000)))
}

/// Takes any arguments, so that calls can differ.
struct FunctionLook;

impl FunctionLook {
    fn tool() -> endstop::tool::FunctionTool {
        #[derive(serde::Deserialize, schemars::JsonSchema)]
        struct Look {
            n: Option<u64>,
        }
        endstop::tool::FunctionTool::new("look", "Looks.", |look: Look, _| async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Ok::<_, endstop::tool::ToolError>(format!("saw {}", look.n.unwrap_or(0)))
        })
    }
}

const POLICIES: [&str; 7] = [
    "[stop]\nlimit = \"steps >= 30\"\n",
    "[stop]\nlimit = \"steps >= 5\"\n",
    "[stop]\nlimit = \"cost >= $0.50 or tokens >= 100k or steps >= 30\"\n",
    "[stop]\nlimit = \"tokens >= 9k or steps >= 30\"\n[warn]\nnear = \"tokens >= 3k\"\n",
    "[stop]\nlimit = \"steps >= 7\"\n[finish]\nwrap_up = \"steps >= 4\"\n",
    "[stop]\nlimit = \"active >= 1s or steps >= 30\"\n",
    "[stop]\nlimit = \"tool_calls >= 4 or streak(errored) >= 3 or no_progress(3) or steps >= 30\"\n",
];

fn begun() -> AgentState {
    let mut state = AgentState::of_run(RunId::parse("a-run").unwrap());
    state.messages.push(Message::user("Go."));
    state
}

/// The parts that have to be equal: all except those that start over.
fn compared(state: &AgentState) -> AgentState {
    let mut state = state.clone();
    for step in &mut state.execution.steps {
        step.took_ms = 0;
        step.tool_executions.iter_mut().for_each(|ran| ran.took_ms = 0);
    }
    state
}

/// Returns where two states differ, in a few words.
fn assert_same(left: &AgentState, right: &AgentState, what: &str) {
    let (left, right) = (compared(left).to_json(), compared(right).to_json());
    let same = left.bytes().zip(right.bytes()).take_while(|(l, r)| l == r).count();
    let about = |text: &str| {
        text.get(same.saturating_sub(200)..).unwrap_or("")[..].chars().take(300).collect::<String>()
    };
    assert!(left == right, "{what}:\n{}\n{}", about(&left), about(&right));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_carried_on_at_every_step_equals_the_uninterrupted_one() {
    let mut steps = 0;
    for rules in POLICIES {
        let whole = fresh(rules).build().unwrap().execute(begun()).await.unwrap();
        assert_all_answered(&whole);
        let mut carried_on = begun();
        loop {
            let mut iteration = fresh(rules).build().unwrap().iterate(carried_on).await.unwrap();
            assert!(iteration.advance().await);
            carried_on = carried(&iteration.into_state());
            steps += 1;
            let status = carried_on.status();
            if !matches!(status, Status::InProgress | Status::Pending) {
                break;
            }
        }
        assert_same(&carried_on, &whole, rules);
        assert_eq!(
            carried_on.execution.trip_record.as_ref().unwrap().to_json(),
            whole.execution.trip_record.as_ref().unwrap().to_json()
        );
    }
    assert!(steps > 25, "{steps}");
}

#[tokio::test(start_paused = true)]
async fn resuming_once_after_step_k_equals_the_uninterrupted_run_for_every_k() {
    for rules in POLICIES {
        let whole = fresh(rules).build().unwrap().execute(begun()).await.unwrap();
        for k in 1..=whole.steps().len() {
            let mut iteration = fresh(rules).build().unwrap().iterate(begun()).await.unwrap();
            for _ in 0..k {
                iteration.advance().await;
            }
            let state = carried(&iteration.into_state());
            let state = fresh(rules).build().unwrap().execute(state).await.unwrap();
            assert_same(&state, &whole, &format!("{rules} at {k}"));
        }
    }
}

/// Drives a stored run and drops it after this many milliseconds, then resumes it until it ends.
async fn cut_and_resume(open: &dyn Fn() -> Arc<dyn Store>, cuts: &[u64], real: bool) -> AgentState {
    let rules = "[stop]\nlimit = \"tokens >= 200k or steps >= 60\"\n";
    let sent = Sent::default();
    let id = RunId::parse("a-run").unwrap();
    let agent = |model: Arc<ScriptedModel>| {
        let agent = under(&model, rules).tools([helper().as_tool("Helps.")]);
        let agent = agent.tool(FunctionLook::tool()).tool(failing_tool("fail"));
        agent.observer(sent.clone()).store(open()).build().unwrap()
    };
    let mut settled = 0;
    for (place, cut) in cuts.iter().enumerate() {
        let model = worker();
        let agent = agent(model.clone());
        let cut = Duration::from_millis(*cut);
        let ended = if place == 0 {
            tokio::time::timeout(cut, agent.execute(begun())).await
        } else {
            tokio::time::timeout(cut, agent.resume(&id)).await
        };
        settled += model.finished() * 1_100;
        if let Ok(state) = ended {
            return state.unwrap();
        }
        drop(agent);
        if real {
            // Work that the store had begun continues and ends on its own.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    let state = agent(worker()).resume(&id).await.unwrap();
    assert_eq!(state.final_response(), Some("Done."), "{}", state.explain());
    assert_all_answered(&state);
    assert!(state.usage().total() >= settled, "{} < {settled}", state.usage().total());
    let worst: u64 = sent.worst().iter().sum();
    assert!(state.usage().total() <= worst);
    state
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_future_is_dropped_anywhere_goes_on_and_loses_no_spend() {
    for cut in (1..2_300).step_by(29) {
        let store = MemoryStore::new();
        let open = || Arc::new(store.clone()) as Arc<dyn Store>;
        let state = cut_and_resume(&open, &[cut], false).await;
        let exact = state.usage().total();
        // Seven own steps, and three of the helper.
        assert!(exact >= 7 * 1_100 + 3 * 550, "{cut}: {exact}");
        assert_eq!(store.list().await.unwrap()[0].label, "Go.");
    }
    for cuts in [[300, 200, 400], [10, 700, 30], [1_000, 260, 270]] {
        let store = MemoryStore::new();
        let open = || Arc::new(store.clone()) as Arc<dyn Store>;
        cut_and_resume(&open, &cuts, false).await;
    }
}

#[tokio::test]
async fn files_and_sqlite_keep_a_dropped_run_as_memory_does() {
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("agent-resume");
    drop(std::fs::remove_dir_all(&directory));
    std::fs::create_dir_all(&directory).unwrap();
    for (place, cut) in [120, 610].into_iter().enumerate() {
        let path = directory.join(format!("files-{place}"));
        let open = || Arc::new(FileStore::open(&path).unwrap()) as Arc<dyn Store>;
        cut_and_resume(&open, &[cut], true).await;
        #[cfg(feature = "sqlite")]
        {
            let path = directory.join(format!("runs-{place}.db"));
            let open =
                || Arc::new(endstop::store::SqliteStore::open(&path).unwrap()) as Arc<dyn Store>;
            cut_and_resume(&open, &[cut], true).await;
        }
    }
    drop(std::fs::remove_dir_all(&directory));
}

/// A root that begins `count` sub-agents at once, whose first request each ends after its own time or never.
fn family(count: usize, answers: usize, store: &MemoryStore, sent: &Sent) -> AgentLoop {
    let model = Arc::new(ScriptedModel::from_fn("child", move |request, _| {
        let task = request.messages[0].text().parse::<usize>().unwrap();
        let reply = ScriptedResponse::text("Found.").usage(40, 8);
        if task < answers { reply.delay(Duration::from_millis(100)) } else { reply.stall() }
    }));
    let child = AgentLoop::builder("work").model(model).max_output_tokens(500);
    let child = child.stop_when(condition("steps >= 3")).build().unwrap();
    let root = Arc::new(ScriptedModel::from_fn("root", move |request, _| {
        let mut reply = ScriptedResponse::text("On it.").usage(100, 20);
        for task in 0..count {
            reply = reply.tool_call("work", json!({ "task": task.to_string() }));
        }
        if replies_so_far(request) > 0 {
            ScriptedResponse::text("Done.").usage(100, 20)
        } else {
            reply
        }
    }));
    let rules = "[stop]\nlimit = \"tokens >= 100k or steps >= 60\"\n";
    let agent = under(&root, rules).tools([child.as_tool("Works.")]);
    let agent = agent.observer(sent.clone()).store(Arc::new(store.clone()));
    agent.max_output_tokens(1_000).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn parallel_sub_agents_in_flight_are_charged_their_worst_case_each_and_nothing_twice() {
    let id = RunId::parse("a-run").unwrap();
    for (count, answers) in [(1, 0), (1, 1), (3, 0), (3, 1), (3, 2), (8, 0), (8, 7)] {
        let (store, sent) = (MemoryStore::new(), Sent::default());
        let agent = family(count, answers, &store, &sent);
        let cut = Duration::from_millis(400);
        let before = tokio::time::timeout(cut, agent.execute(begun())).await;
        assert_eq!(before.is_ok(), count == answers);
        if before.is_ok() {
            continue;
        }
        let loaded = agent.load(&id).await.unwrap();
        // The root's reply and the children's are settled; all children ask the same.
        let worst = sent.worst()[1];
        let settled = 120 + 48 * answers as u64;
        let in_flight = (count - answers) as u64;
        let what = format!("{answers} of {count} answered");
        assert_eq!(loaded.usage().total(), settled + in_flight * worst, "{what}");
        assert!(loaded.execution.is_estimate);
        assert_eq!(loaded.step_count(), 1 + count as u64);
        // Loading brings it to its end once.
        assert_same(&agent.load(&id).await.unwrap(), &loaded, &what);
    }
}

async fn whole_trace(store: &dyn Store, id: &RunId) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        let page = store.read_trace(id, lines.len() as u64).await.unwrap();
        if page.is_empty() {
            return lines;
        }
        lines.extend(page);
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_else_drives_or_mends_a_run_that_is_driven() {
    let store = MemoryStore::new();
    let rules = "[stop]\nlimit = \"tokens >= 200k or steps >= 60\"\n";
    let agent = || fresh(rules).store(Arc::new(store.clone())).build().unwrap();
    let id = RunId::parse("a-run").unwrap();
    let mut iteration = agent().iterate(begun()).await.unwrap();
    iteration.advance().await;
    let lines = whole_trace(&store, &id).await;
    for attempt in
        [agent().resume(&id).await, agent().load(&id).await, agent().execute(begun()).await]
    {
        assert!(
            matches!(attempt, Err(ExecuteError::Store(StoreError::Locked { .. }))),
            "{attempt:?}"
        );
    }
    assert_eq!(whole_trace(&store, &id).await, lines);
    while iteration.advance().await {}
    let state = iteration.into_state();
    assert_eq!(state.final_response(), Some("Done."));
    assert_same(&agent().load(&id).await.unwrap(), &state, "stored");
    assert_eq!(whole_trace(&store, &id).await.len() as u64, state.execution.events);
}

#[tokio::test(start_paused = true)]
async fn a_paused_step_that_went_on_and_died_is_closed_with_every_call_answered() {
    let store = MemoryStore::new();
    let rules = "[stop]\nlimit = \"steps >= 4\"\n[pause]\nask = \"tool_calls >= 1\"\n";
    let agent = || {
        let model = priced(|request, _| match replies_so_far(request) {
            0 => ScriptedResponse::call("look", json!({}))
                .tool_call("sleep", json!({}))
                .tool_call("look", json!({})),
            _ => ScriptedResponse::text("Done."),
        });
        let agent = under(&model, rules).tool(ok_tool("look")).parallel_tools(1);
        let agent = agent.tool(slow_tool("sleep", Duration::from_secs(60)));
        (model, agent.store(Arc::new(store.clone())).build().unwrap())
    };
    let state = agent().1.execute(begun()).await.unwrap();
    assert_eq!((state.status(), outcomes(&state).len()), (Status::Paused, 1));
    let paused = agent().1.load(&state.id).await.unwrap();
    let going_on = agent().1;
    let cut = Duration::from_secs(5);
    assert!(tokio::time::timeout(cut, going_on.execute(paused.approved(None))).await.is_err());
    drop(going_on);
    let (model, agent) = agent();
    let state = agent.resume(&state.id).await.unwrap();
    assert_eq!(outcomes(&state).len(), 3, "{state:?}");
    assert_eq!((state.step_count(), model.calls()), (2, 1), "{}", state.explain());
    assert_eq!(
        outcomes(&state),
        [ToolOutcome::Succeeded, ToolOutcome::Aborted, ToolOutcome::Aborted]
    );
    assert_all_answered(&state);
}

#[tokio::test(start_paused = true)]
async fn the_label_is_the_beginning_of_the_first_words_unless_it_is_set() {
    let store = MemoryStore::new();
    let agent = agent(&answerer("Done."), "steps >= 3").store(Arc::new(store.clone()));
    let agent = agent.build().unwrap();
    let long =
        "What is the answer to the question of life, the universe and everything else that is? ";
    agent.run(long.repeat(3)).await.unwrap();
    let mut named = AgentState::with_prompt("Go.");
    named.label = "nightly".to_owned();
    agent.execute(named).await.unwrap();
    let mut labels: Vec<String> =
        store.list().await.unwrap().into_iter().map(|run| run.label).collect();
    labels.sort();
    assert_eq!(labels, [long.chars().take(80).collect::<String>(), "nightly".to_owned()]);
}

/// A way to spoil the file of a trace, and what the error says.
type Spoil = (&'static str, fn(&std::path::Path));

#[tokio::test]
async fn a_run_whose_trace_is_damaged_or_gone_does_not_go_on() {
    let spoils: [Spoil; 5] = [
        ("its trace is missing", |file| std::fs::remove_file(file).unwrap()),
        ("it is empty", |file| std::fs::write(file, "").unwrap()),
        ("lines at its end are missing", |file| {
            let text = std::fs::read_to_string(file).unwrap();
            let last = text.trim_end().rfind('\n').unwrap();
            std::fs::write(file, &text[..=last]).unwrap();
        }),
        ("it was changed", |file| {
            let text = std::fs::read_to_string(file).unwrap();
            let less = text.replacen("\"input\":100", "\"input\":1", 1);
            assert_ne!(less, text);
            std::fs::write(file, less).unwrap();
        }),
        ("in the place of 2", |file| {
            let text = std::fs::read_to_string(file).unwrap();
            let lines = text.lines().enumerate().filter(|(number, _)| *number != 2);
            let less: String = lines.map(|(_, line)| format!("{line}\n")).collect();
            std::fs::write(file, less).unwrap();
        }),
    ];
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("agent-damaged");
    let id = RunId::parse("a-run").unwrap();
    for (reason, spoil) in spoils {
        drop(std::fs::remove_dir_all(&directory));
        let store = Arc::new(FileStore::open(&directory).unwrap());
        let model =
            replies((0..9).map(|_| ScriptedResponse::call("look", json!({})).usage(100, 10)));
        let rules = "[stop]\nlimit = \"steps >= 9\"\n";
        let agent = under(&model, rules).tool(ok_tool("look")).store(store.clone());
        let agent = agent.build().unwrap();
        let mut iteration = agent.iterate(begun()).await.unwrap();
        iteration.advance().await;
        iteration.advance().await;
        drop(iteration);
        let trace = directory.join("a-run.run").join("trace.jsonl");
        spoil(&trace);
        let (before, calls) = (std::fs::read(&trace).ok(), model.calls());
        let state = store.load(&id).await.unwrap();
        for error in [agent.resume(&id).await.unwrap_err(), agent.load(&id).await.unwrap_err()] {
            let all =
                std::iter::successors(Some(&error as &dyn std::error::Error), |it| it.source());
            let text: String = all.map(|error| format!("{error}; ")).collect();
            assert!(text.contains(reason) && text.contains("a-run"), "{reason}: {text}");
        }
        assert_eq!(model.calls(), calls, "{reason}: a request was sent");
        assert!(std::fs::read(&trace).ok() == before, "{reason}: the trace was changed");
        assert_eq!(store.load(&id).await.unwrap(), state, "{reason}");
    }
    drop(std::fs::remove_dir_all(&directory));
}

/// In the environment of a child: the directory of its store.
const CHILD: &str = "ENDSTOP_AGENT_CHILD";

#[tokio::test]
async fn a_killed_process_loses_no_settled_spend() {
    const NAME: &str = "resume::a_killed_process_loses_no_settled_spend";
    // A child does not end on its own before it is killed, however late that comes.
    let rules = "[stop]\nlimit = \"tokens >= 1000M or steps >= 100000\"\n";
    let agent = |directory: &std::path::Path, model: &Arc<ScriptedModel>| {
        let store = Arc::new(FileStore::open(directory).unwrap());
        under(model, rules).tool(ok_tool("look")).store(store).build().unwrap()
    };
    let endless = || {
        priced(|_, calls| {
            println!("\nanswering {calls}.");
            ScriptedResponse::call("look", json!({})).usage(100, 10).delay(Duration::from_millis(3))
        })
    };
    if let Ok(directory) = std::env::var(CHILD) {
        agent(directory.as_ref(), &endless()).execute(begun()).await.unwrap();
        return;
    }
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("agent-killed");
    for kill_at in [0u64, 1, 7, 20] {
        drop(std::fs::remove_dir_all(&directory));
        std::fs::create_dir_all(&directory).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([NAME, "--exact", "--nocapture"])
            .env(CHILD, &directory)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Its pipe stays open until it has been killed.
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let wanted = format!("answering {kill_at}.");
        assert!(lines.by_ref().map_while(Result::ok).any(|line| line == wanted), "the child works");
        child.kill().unwrap();
        child.wait().unwrap();
        let model = replies([ScriptedResponse::text("Done.").usage(100, 10)]);
        let agent = agent(&directory, &model);
        let id = RunId::parse("a-run").unwrap();
        let loaded = agent.load(&id).await.unwrap();
        // Request `kill_at` was out: those before it are settled, and it is charged itself.
        assert!(loaded.step_count() > kill_at, "{kill_at}: {}", loaded.step_count());
        assert!(loaded.usage().total() > kill_at * 110, "{kill_at}: {:?}", loaded.usage());
        let state = agent.resume(&id).await.unwrap();
        assert_eq!(state.stop_reason(), Some(StopReason::Completed), "{}", state.explain());
        assert_eq!(state.usage().total(), loaded.usage().total() + 110);
        assert_all_answered(&state);
    }
    drop(std::fs::remove_dir_all(&directory));
}
