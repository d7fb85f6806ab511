//! The kill switch: it refuses new runs, ends those that run, and after it is on nothing begins.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use endstop::agent::{AgentBuilder, AgentLoop, AgentState, RetryPolicy};
use endstop::cancel::{FileKillSwitch, KillSwitch, MemoryKillSwitch};
use endstop::core::run::Status;
use endstop::core::signal::StopReason;
use endstop::ledger::{Amounts, Budget, Limits};
use endstop::message::ToolOutcome;
use endstop::model::{ModelErrorKind, ScriptedModel, ScriptedResponse};
use endstop::tool::{FunctionTool, Tool, ToolError};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::support::*;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A kill file of one test.
fn kill_file(test: &str) -> FileKillSwitch {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("agent_kill").join(test);
    let switch = FileKillSwitch::new(path);
    switch.reset().unwrap();
    switch
}

/// Invariants of a run that was killed.
#[track_caller]
fn check(state: &AgentState, message: &str) {
    let what = state.explain();
    let signal = state.last_stop_signal().expect(&what);
    assert_eq!(signal.reason, StopReason::UserRequested, "{what}");
    assert_eq!(signal.source.as_deref(), Some("kill switch"), "{what}");
    assert_eq!(signal.message, message, "{what}");
    assert_eq!(state.status(), Status::Stopped, "{what}");
    assert_all_answered(state);
}

#[tokio::test(start_paused = true)]
async fn a_switch_that_is_on_refuses_new_runs_until_it_is_reset() {
    let file = kill_file("refuses");
    let memory = MemoryKillSwitch::new();
    let model = answerer("Done.");
    let by_file = agent(&model, "steps >= 5").kill_switch(file.clone()).build().unwrap();
    let by_memory = agent(&model, "steps >= 5").kill_switch(memory.clone()).build().unwrap();
    file.turn_on("costs too much").unwrap();
    memory.turn_on("costs too much");
    for agent in [&by_file, &by_memory] {
        let state = agent.run("Go.").await.unwrap();
        check(&state, "costs too much");
        assert_eq!((model.calls(), state.step_count()), (0, 0));
        let refused = state.execution.trip_record.as_ref().unwrap().refused.clone();
        assert_eq!(refused, None, "{}", state.explain());
    }
    file.reset().unwrap();
    memory.reset();
    for agent in [&by_file, &by_memory] {
        assert_eq!(agent.run("Go.").await.unwrap().final_response(), Some("Done."));
    }
}

#[tokio::test(start_paused = true)]
async fn a_paused_run_is_not_resumed_while_the_switch_is_on() {
    let switch = MemoryKillSwitch::new();
    let model = caller("look");
    let rules = policy("[stop]\nlimit = \"steps >= 9\"\n[pause]\nask = \"steps >= 2\"\n");
    let builder = agent(&model, "steps >= 9").policy(rules).tool(ok_tool("look"));
    let agent = builder.kill_switch(switch.clone()).build().unwrap();
    let state = agent.run("Go.").await.unwrap();
    assert_eq!((state.status(), model.calls()), (Status::Paused, 2));
    switch.turn_on("out");
    let state = agent.execute(state.approved(None)).await.unwrap();
    check(&state, "out");
    assert_eq!(model.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn it_ends_a_run_before_the_next_model_call_and_the_next_tool_call() {
    // The interval is long: only the looks before the calls can see it.
    let calls =
        [ScriptedResponse::call("throw", json!({})).tool_call("look", json!({})).usage(100, 10)];
    for parallel in [1, 8] {
        let switch = MemoryKillSwitch::new();
        let thrown = switch.clone();
        let tool = FunctionTool::without_arguments("throw", "Throws.", move |_| {
            thrown.turn_on("by the tool");
            async { Ok::<_, ToolError>("thrown") }
        });
        let (model, looked) = (replies(calls.clone()), Arc::new(AtomicU64::new(0)));
        let counted = Arc::clone(&looked);
        let look = FunctionTool::without_arguments("look", "Looks.", move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            async { Ok::<_, ToolError>("ok") }
        });
        let builder = agent(&model, "steps >= 9").tool(tool).tool(look).parallel_tools(parallel);
        let builder = builder.kill_switch(switch).kill_interval(Duration::from_secs(3_600));
        let state = builder.build().unwrap().run("Go.").await.unwrap();
        check(&state, "by the tool");
        assert_eq!((model.calls(), state.usage().total()), (1, 110));
        if parallel == 1 {
            assert_eq!(outcomes(&state), [ToolOutcome::Succeeded, ToolOutcome::NotExecuted]);
            assert_eq!(looked.load(Ordering::SeqCst), 0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn it_cuts_what_is_in_flight_within_the_interval() {
    for (what, model) in [
        ("a stalling model", replies([ScriptedResponse::text("Half").stall()])),
        ("a tool", replies([ScriptedResponse::call("sleep", json!({}))])),
        (
            "a wait between attempts",
            replies([
                ScriptedResponse::text("").fail(ModelErrorKind::Unavailable, Some(ms(60_000)))
            ]),
        ),
    ] {
        let (switch, budget) = (kill_file("in_flight"), Budget::root(Limits::unlimited()));
        let builder = agent(&model, "steps >= 9").tool(slow_tool("sleep", ms(50_000)));
        let builder = builder.kill_switch(switch.clone()).kill_interval(ms(50));
        let agent = builder.budget(budget.clone()).build().unwrap();
        let throw = async {
            sleep(ms(1_010)).await;
            switch.turn_on("enough").unwrap();
        };
        let begun = Instant::now();
        let (state, ()) = tokio::join!(agent.run("Go."), throw);
        let state = state.unwrap();
        check(&state, "enough");
        let took = begun.elapsed();
        assert!(took >= ms(1_010) && took <= ms(1_110), "{what}: {took:?}");
        assert_eq!((model.calls(), budget.held()), (1, Amounts::default()), "{what}");
        switch.reset().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn it_ends_children_whose_agents_know_nothing_of_it() {
    let switch = MemoryKillSwitch::new();
    let inner = replies([ScriptedResponse::text("x").stall()]);
    let child = AgentLoop::builder("work").model(inner.clone()).build().unwrap();
    let reply = ScriptedResponse::call("work", json!({ "task": "a" }))
        .tool_call("work", json!({ "task": "b" }));
    let model = replies([reply]);
    let builder = agent(&model, "steps >= 9").tools([child.as_tool("Works.")]);
    let agent = builder.kill_switch(switch.clone()).build().unwrap();
    let throw = async {
        sleep(ms(500)).await;
        switch.turn_on("enough");
    };
    let (state, ()) = tokio::join!(agent.run("Go."), throw);
    let state = state.unwrap();
    check(&state, "enough");
    assert_eq!((model.calls(), inner.calls(), inner.dropped()), (1, 2, 2));
}

/// A switch that fails to find out.
#[derive(Debug)]
struct Blind;

impl KillSwitch for Blind {
    fn on(&self) -> Option<String> {
        Some("unknown, so it counts as on".to_owned())
    }
}

#[tokio::test(start_paused = true)]
async fn a_switch_that_cannot_find_out_counts_as_on() {
    let model = answerer("Done.");
    let agent = agent(&model, "steps >= 5").kill_switch(Blind).build().unwrap();
    check(&agent.run("Go.").await.unwrap(), "unknown, so it counts as on");
    assert_eq!(model.calls(), 0);
}

/// Numbers that are the same in every run of the test (xorshift64*).
#[derive(Clone)]
struct Dice(u64);

impl Dice {
    const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    const fn roll(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    const fn below(&mut self, most: u64) -> u64 {
        (self.roll() >> 33) % most
    }

    /// One time in so many.
    const fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// The observations of one schedule.
struct Watch {
    begun: Instant,
    switch: MemoryKillSwitch,
    models: AtomicU64,
    tools: AtomicU64,
    /// Model and tool calls that began while the switch was on.
    late: AtomicU64,
}

impl Watch {
    fn saw(&self, counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::SeqCst);
        self.late.fetch_add(u64::from(self.switch.on().is_some()), Ordering::SeqCst);
    }
}

/// A model that answers as the dice fall: fast or slow, whole or in pieces, with calls, failures and
/// stalls.
fn random_model(seed: u64, watch: &Arc<Watch>) -> Arc<ScriptedModel> {
    let watch = Arc::clone(watch);
    Arc::new(ScriptedModel::from_fn("scripted", move |request, call| {
        watch.saw(&watch.models);
        let mut dice = Dice::new(seed ^ (call + 1).wrapping_mul(0xa076_1d64_78bd_642f));
        let mut reply = ScriptedResponse::text("some words that come in pieces").usage(100, 10);
        reply = reply.delay(ms(dice.below(40))).piece_delay(ms(dice.below(15)));
        reply = reply.pieces_of(if dice.once_in(2) { 0 } else { 7 });
        if dice.once_in(6) {
            let after = dice.once_in(2).then(|| ms(dice.below(80)));
            return reply.fail(ModelErrorKind::Unavailable, after);
        }
        if dice.once_in(40) {
            return reply.stall();
        }
        let tools = request.tools.len() as u64;
        for _ in 0..dice.below(5) {
            let spec = &request.tools[dice.below(tools) as usize];
            reply = reply.tool_call(&spec.name, json!({ "task": "more" }));
        }
        reply
    }))
}

/// A tool that takes some time, and may fail.
fn random_tool(seed: u64, watch: &Arc<Watch>) -> Arc<dyn Tool> {
    let (watch, calls) = (Arc::clone(watch), AtomicU64::new(seed));
    let tool = FunctionTool::without_arguments("work", "Works.", move |_| {
        watch.saw(&watch.tools);
        let mut dice = Dice::new(calls.fetch_add(1, Ordering::SeqCst));
        let (takes, fails) = (ms(dice.below(60)), dice.once_in(5));
        async move {
            sleep(takes).await;
            if fails { Err(ToolError::failed("no luck")) } else { Ok("worked") }
        }
    });
    Arc::new(if Dice::new(seed).once_in(4) { tool.not_abortable() } else { tool })
}

/// A random tree of agents, at most three deep below this one and four wide.
fn random_agent(name: &str, depth: u64, dice: &mut Dice, watch: &Arc<Watch>) -> AgentBuilder {
    let mut tools = vec![random_tool(dice.roll(), watch)];
    if depth > 0 {
        for child in 0..dice.below(5) {
            let name = format!("agent_{child}");
            let below = dice.below(depth);
            let child = random_agent(&name, below, dice, watch).build().unwrap();
            tools.push(child.as_tool("Works."));
        }
    }
    let retry = RetryPolicy { max_attempts: 4, first_wait: ms(20), ..RetryPolicy::default() };
    AgentLoop::builder(name)
        .model(random_model(dice.roll(), watch))
        .tools(tools)
        .stop_when(condition("steps >= 60"))
        .parallel_tools(1 + dice.below(4) as usize)
        .retry(retry)
}

/// One schedule; what was seen, and whether the kill came before the run had ended. Where time is real and
/// there are threads, a call may begin while the switch is being turned on.
async fn schedule(seed: u64, is_simulated: bool) -> (Arc<Watch>, bool) {
    let mut dice = Dice::new(seed);
    let switch = MemoryKillSwitch::new();
    let watch = Arc::new(Watch {
        begun: Instant::now(),
        switch: switch.clone(),
        models: AtomicU64::new(0),
        tools: AtomicU64::new(0),
        late: AtomicU64::new(0),
    });
    let budget = Budget::root(Limits::unlimited());
    let builder = random_agent("root", 4, &mut dice, &watch).budget(budget.clone());
    let interval = ms(1 + dice.below(30));
    let agent = builder.kill_switch(switch.clone()).kill_interval(interval).build().unwrap();
    let thrown_at = ms(dice.below(600));
    let throwing = tokio::spawn(async move {
        sleep(thrown_at).await;
        switch.turn_on("enough");
    });
    let state = agent.run("Go.").await.unwrap();
    let took = watch.begun.elapsed();
    throwing.abort();
    let what = format!("seed {seed}, thrown at {thrown_at:?}, over at {took:?}: {state:?}");
    if is_simulated {
        assert_eq!(watch.late.load(Ordering::SeqCst), 0, "a late call, {what}");
    }
    assert_eq!(budget.held(), Amounts::default(), "{what}");
    assert_eq!(budget.settled().tokens, state.usage().total(), "{what}");
    assert_all_answered(&state);
    let is_killed = watch.switch.on().is_some() && took > thrown_at;
    if is_killed && is_simulated {
        check(&state, "enough");
        assert!(took <= thrown_at + interval + ms(2), "{what}");
    }
    (watch, is_killed)
}

#[tokio::test(start_paused = true)]
async fn after_a_kill_at_any_time_no_call_begins_in_a_thousand_random_schedules() {
    let begun = std::time::Instant::now();
    let (mut killed, mut models, mut tools) = (0, 0, 0);
    for seed in 1..=1_000 {
        let (watch, is_killed) = schedule(seed, true).await;
        killed += u64::from(is_killed);
        models += watch.models.load(Ordering::SeqCst);
        tools += watch.tools.load(Ordering::SeqCst);
    }
    println!(
        "1,000 schedules: {killed} killed in the middle, {models} model and {tools} tool calls, {:?}",
        begun.elapsed()
    );
    // Else the schedules would show nothing.
    assert!(killed > 300 && models > 3_000 && tools > 1_000, "{killed}, {models}, {tools}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_several_threads_a_kill_leaves_nothing_unanswered_and_nothing_held() {
    let runs = (2_001..=2_200).map(|seed| tokio::spawn(schedule(seed, false)));
    let mut killed = 0;
    for run in runs.collect::<Vec<_>>() {
        let (_, is_killed) = run.await.unwrap();
        killed += u64::from(is_killed);
    }
    assert!(killed > 30, "{killed}");
}
