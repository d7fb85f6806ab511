//! A recorded run replays through the decision core alone to the same trip record, byte for byte; the runs of
//! sub-agents too.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use endstop::agent::{AgentBuilder, AgentLoop, Approval, Trigger};
use endstop::core::run::Status;
use endstop::core::{Event, Program, Run};
use endstop::ledger::Budget;
use endstop::model::{ModelErrorKind, ScriptedResponse};
use endstop::observe::{Observation, Observer, RunInfo, TraceRecorder};
use endstop_price::PriceTable;
use endstop_transcript::{Part, RunFooter, RunHeader, RunSink, Transcript, Warning, format};
use serde_json::json;

use crate::kit::*;
use crate::support::*;

/// The state of a run at its end, and its record.
#[derive(Default)]
struct Seen {
    program: Option<Arc<Program>>,
    trip_record: String,
    saved: String,
    status: Status,
    events: usize,
    file: Arc<Mutex<Vec<u8>>>,
}

#[derive(Clone, Default)]
struct All(Arc<Mutex<BTreeMap<String, Seen>>>);

impl Observer for All {
    fn observe(&self, observation: &Observation<'_>) {
        let mut all = self.0.lock().unwrap();
        all.entry(observation.info.id.to_string()).or_default().events += 1;
    }

    fn run_ended(&self, info: &RunInfo, run: &Run, _: &Budget) {
        let mut all = self.0.lock().unwrap();
        let seen = all.entry(info.id.to_string()).or_default();
        seen.program = Some(Arc::clone(run.program()));
        seen.trip_record = run.trip_record().to_json();
        seen.saved = run.save().unwrap();
        seen.status = run.status();
    }
}

struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The events of the file through a new run.
struct Replay {
    run: Run,
    left: usize,
}

impl RunSink for Replay {
    fn begin(&mut self, _: &RunHeader<'_>) {}
    fn event(&mut self, event: &Event<'_>) {
        // The reader ends a run that the file does not end.
        if self.left > 0 {
            self.run.observe(event);
            self.left -= 1;
        }
    }
    fn end(&mut self, _: &RunFooter<'_>) {}
    fn warn(&mut self, warning: Warning) {
        panic!("{warning:?}");
    }
}

/// Runs an agent under a recorder and replays every run; how many there were, and how the root ended.
pub(crate) async fn check(agent: AgentBuilder, what: &str) -> (usize, Status) {
    let all = All::default();
    let files = all.clone();
    let recorder = Arc::new(TraceRecorder::file_per_run(move |info| {
        let mut all = files.0.lock().unwrap();
        let seen = all.entry(info.id.to_string()).or_default();
        Ok(Box::new(Shared(Arc::clone(&seen.file))))
    }));
    let agent = agent.shared_observer(recorder.clone()).observer(all.clone()).build().unwrap();
    let state = agent.run("Go.").await.unwrap();
    assert_eq!(recorder.problems(), endstop::observe::TraceProblems::default(), "{what}");
    let all = std::mem::take(&mut *all.0.lock().unwrap());
    for (id, seen) in &all {
        let text = seen.file.lock().unwrap().clone();
        let format = format("endstop").unwrap();
        let main = Part::bytes("run.jsonl", text);
        let transcript = Transcript { format, main, children: Vec::new() };
        let run = Run::new(Arc::clone(seen.program.as_ref().expect("a run that ended")));
        let mut replay = Replay { run, left: seen.events };
        transcript.read(PriceTable::embedded(), &mut replay);
        assert_eq!(replay.left, 0, "{what}: {id}");
        assert_eq!(replay.run.trip_record().to_json(), seen.trip_record, "{what}: {id}");
        assert_eq!(replay.run.save().unwrap(), seen.saved, "{what}: {id}");
        assert_eq!(replay.run.status(), seen.status, "{what}: {id}");
    }
    let root = &all[state.id.as_str()];
    assert_eq!(state.execution.trip_record.as_ref().unwrap().to_json(), root.trip_record, "{what}");
    (all.len(), state.status())
}

/// Calls the sub-agent three times in a reply, then tools that fail, then answers.
fn parent(rules: &str) -> AgentBuilder {
    let model = priced(|request, _| {
        let reply = match replies_so_far(request) {
            0 | 3 => (0..3).fold(ScriptedResponse::text("On it."), |reply, task| {
                reply.tool_call("helper", json!({ "task": task.to_string() }))
            }),
            1 => ScriptedResponse::call("fail", json!({})).tool_call("nosuch", json!({})),
            n if n < 6 => {
                ScriptedResponse::text("Looking \"around\"\n").tool_call("look", json!({}))
            }
            _ => ScriptedResponse::text("Done."),
        };
        reply.pieces_of(4).usage(1_000, 100).delay(Duration::from_millis(30))
    });
    under(&model, rules)
        .tools([helper().as_tool("Helps.")])
        .tool(ok_tool("look"))
        .tool(failing_tool("fail"))
}

fn helper() -> AgentLoop {
    let model = priced(|request, _| {
        let reply = match replies_so_far(request) {
            0 => ScriptedResponse::call("look", json!({})),
            1 => ScriptedResponse::error(ModelErrorKind::Unavailable),
            _ => ScriptedResponse::text("Helped."),
        };
        reply.usage(200, 20).delay(Duration::from_millis(20))
    });
    let agent = AgentLoop::builder("helper").model(model).tool(ok_tool("look"));
    agent.stop_when(condition("steps >= 4 or tokens >= 3k")).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn every_run_of_a_tree_replays_to_the_same_trip_record() {
    let cases = [
        ("[stop]\nlimit = \"steps >= 40\"\n", 7),
        ("[stop]\nlimit = \"steps >= 4\"\n", 4),
        ("[stop]\nlimit = \"steps >= 0\"\n", 1),
        ("[stop]\nlimit = \"tokens >= 3k or steps >= 40\"\n", 1),
        ("[stop]\nlimit = \"cost >= $0.03 or steps >= 40\"\n", 1),
        ("[stop]\nlimit = \"active >= 75ms or steps >= 40\"\n", 1),
        ("[stop]\nlimit = \"tool_calls >= 2 or steps >= 40\"\n", 1),
        ("[stop]\nlimit = \"subagents >= 2 or steps >= 40\"\n", 1),
        ("[stop]\nlimit = \"depth >= 0 or steps >= 40\"\n", 1),
        ("[stop]\nlimit = \"errors >= 1 or steps >= 40\"\n", 1),
        ("[stop]\nlimit = \"messages >= 9 or steps >= 40\"\n", 1),
        ("[stop]\nsaid = \"said('around') or called('fail') or steps >= 40\"\n", 1),
        ("[stop]\nlimit = \"steps >= 12\"\n[finish]\nwrap_up = \"steps >= 8\"\n", 1),
        (
            "[stop]\nlimit = \"cost >= $0.09 or steps >= 40\"\n[finish]\nwrap_up = \"cost >= $0.03\"\n",
            1,
        ),
        ("[stop]\nlimit = \"steps >= 40\"\n[pause]\nask = \"steps >= 6\"\n", 1),
        ("[stop]\nlimit = \"steps >= 40\"\n[pause]\nask = \"tool_calls >= 2\"\n", 1),
        ("[stop]\nlimit = \"steps >= 40\"\n[pause]\nask = \"next_cost >= $0.01\"\n", 1),
        (
            "[stop]\nlimit = \"steps >= 40\"\n[warn]\nnear = \"steps >= 2\"\n[retry]\nbad = \"near_duplicate\"\n",
            1,
        ),
    ];
    let mut runs = 0;
    for (rules, least) in cases {
        let (count, _) = check(parent(rules), rules).await;
        assert!(count >= least, "{rules}: {count}");
        runs += count;
    }
    assert!(runs >= 40, "{runs}");
}

#[tokio::test(start_paused = true)]
async fn what_people_and_hooks_do_is_in_the_record() {
    let limit = "[stop]\nlimit = \"steps >= 3\"\n[rule.limit]\nhard = false\n";
    let looker = priced(|_, _| ScriptedResponse::call("look", json!({})).usage(1_000, 100));
    let looker = under(&looker, limit).tool(ok_tool("look"));
    let critic = looker.hook(Trigger::OnStop, 0, |context| {
        context.request_continuation("critic");
        Ok(())
    });
    assert_eq!(check(critic, "overrides").await.1, Status::Failed);
    let pause = "[stop]\nlimit = \"steps >= 40\"\n[pause]\nask = \"cost >= $0.005\"\n";
    let answers = [Approval::UpTo(usd("0.02")), Approval::Yes];
    let person = Person::who_says(answers);
    assert_eq!(
        check(parent(pause).approver(person.clone()), "approvals").await.1,
        Status::Completed
    );
    assert_eq!(person.asked().len(), 2);
    let later = Person::who_says([Approval::Later]);
    assert_eq!(check(parent(pause).approver(later), "later").await.1, Status::Paused);
    let no = Person::who_says([Approval::No("no".to_owned())]);
    assert_eq!(check(parent(pause).approver(no), "no").await.1, Status::Stopped);
    let broken = parent("[stop]\nlimit = \"steps >= 40\"\n")
        .hook(Trigger::AfterToolUse, 0, |_| Err(endstop::tool::ToolError::failed("broken")));
    assert_eq!(check(broken, "a hook that fails").await.1, Status::Failed);
}
