//! Cancellation by every means at every moment: the reason, the charge, the state, and leftovers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use endstop::agent::{
    AgentBuilder, AgentLoop, AgentState, Approval, ApprovalRequest, Approver, CancellationSource,
    CircuitBreaker, RetryPolicy, Trigger,
};
use endstop::cancel::interrupt::Interrupts;
use endstop::cancel::{CancelToken, InMemoryCancellationSource, Urgency};
use endstop::core::run::Status;
use endstop::core::signal::{StopReason, StopSignal};
use endstop::ledger::{Amounts, Budget, Limits};
use endstop::message::ToolOutcome;
use endstop::model::{ModelErrorKind, ScriptedModel, ScriptedResponse};
use endstop::tool::{FunctionTool, Tool, ToolError};
use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::support::*;

/// By which means a run is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Means {
    /// The source in memory, asked to abort.
    Memory,
    /// The source in memory, asked to cancel.
    Cooperative,
    /// A source that can only be asked.
    Asked,
    /// A source that can notify.
    Bell,
    Graceful,
    Now,
}

const ALL: [Means; 6] =
    [Means::Memory, Means::Cooperative, Means::Asked, Means::Bell, Means::Graceful, Means::Now];
/// Means that abort calls in flight.
const HARD: [Means; 3] = [Means::Memory, Means::Bell, Means::Now];
/// Those that are heard while nothing is in flight.
const HEARD: [Means; 4] = [Means::Memory, Means::Bell, Means::Graceful, Means::Now];

impl Means {
    const fn source(self) -> &'static str {
        match self {
            Self::Memory | Self::Cooperative => "cancellation",
            Self::Asked => "flag",
            Self::Bell => "bell",
            Self::Graceful | Self::Now => "person",
        }
    }
}

fn enough(source: &str) -> StopSignal {
    StopSignal::new(StopReason::UserRequested)
        .with_message("enough")
        .with_context("by", source)
        .with_source(source)
}

/// The messages of all signals in the trip record, late ones too.
fn recorded(state: &AgentState) -> Vec<String> {
    let record = state.execution.trip_record.as_ref().unwrap();
    let all = record.signals.iter().chain(&record.late_signals);
    all.map(|signal| signal.message.clone()).collect()
}

#[derive(Clone, Default)]
struct Flag(Arc<AtomicBool>);

impl CancellationSource for Flag {
    fn cancellation_signals<'a>(&'a self, _: &'a AgentState) -> BoxFuture<'a, Vec<StopSignal>> {
        Box::pin(async {
            tokio::task::yield_now().await;
            self.0.load(Ordering::SeqCst).then(|| enough("flag")).into_iter().collect()
        })
    }
}

#[derive(Clone, Default)]
struct Bell(CancelToken);

impl CancellationSource for Bell {
    fn cancellation_signals<'a>(&'a self, _: &'a AgentState) -> BoxFuture<'a, Vec<StopSignal>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    fn aborted(&self) -> BoxFuture<'_, StopSignal> {
        Box::pin(async {
            self.0.cancelled().await;
            enough("bell")
        })
    }
}

/// Cancels by its means, where the agent was equipped with it.
#[derive(Clone)]
struct Canceller {
    means: Means,
    memory: InMemoryCancellationSource,
    flag: Flag,
    bell: Bell,
    token: CancelToken,
}

impl Canceller {
    fn new(means: Means) -> Self {
        let (memory, token) = (InMemoryCancellationSource::new(), CancelToken::new());
        Self { means, memory, flag: Flag::default(), bell: Bell::default(), token }
    }

    fn equip(&self, builder: AgentBuilder) -> AgentBuilder {
        let builder = builder.cancellation(self.memory.clone()).cancellation(self.flag.clone());
        builder.cancellation(self.bell.clone()).cancel_token(self.token.clone())
    }

    fn cancel(&self) {
        match self.means {
            Means::Memory => self.memory.abort("enough"),
            Means::Cooperative => self.memory.cancel("enough"),
            Means::Asked => self.flag.0.store(true, Ordering::SeqCst),
            Means::Bell => _ = self.bell.0.cancel(enough("bell"), Urgency::Now),
            Means::Graceful => _ = self.token.cancel(enough("person"), Urgency::Graceful),
            Means::Now => _ = self.token.cancel(enough("person"), Urgency::Now),
        }
    }

    /// Cancels after some time.
    fn cancel_in(&self, after: Duration) {
        let own = self.clone();
        tokio::spawn(async move {
            sleep(after).await;
            own.cancel();
        });
    }
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Invariants after every cancellation.
#[track_caller]
fn check(means: Means, state: &AgentState, budget: &Budget) {
    let what = format!("{means:?}: {}\n{state:?}", state.explain());
    let signal = state.last_stop_signal().expect(&what);
    assert_eq!(signal.reason, StopReason::UserRequested, "{what}");
    assert_eq!(signal.message, "enough", "{what}");
    assert_eq!(signal.source.as_deref(), Some(means.source()), "{what}");
    if !matches!(means, Means::Memory | Means::Cooperative) {
        assert_eq!(signal.context["by"], json!(means.source()), "{what}");
    }
    assert_eq!(state.status(), Status::Stopped, "{what}");
    assert_eq!(state.continuation().stop_signals.iter().count(), 1, "{what}");
    assert_all_answered(state);
    assert_books(state, budget);
}

/// Nothing is held, and the settled amounts are those of the state.
#[track_caller]
fn assert_books(state: &AgentState, budget: &Budget) {
    assert_eq!(budget.held(), Amounts::default());
    let settled = budget.settled();
    assert_eq!((settled.tokens, settled.steps), (state.usage().total(), state.step_count()));
}

/// Runs an agent with a separate budget, and cancels after some time.
async fn cancelled(
    means: Means,
    after: Duration,
    builder: AgentBuilder,
) -> (AgentState, Budget, Duration) {
    let (canceller, budget) = (Canceller::new(means), Budget::root(Limits::unlimited()));
    let agent = canceller.equip(builder).budget(budget.clone()).build().unwrap();
    canceller.cancel_in(after);
    let begun = Instant::now();
    let state = agent.run("Go.").await.unwrap();
    (state, budget, begun.elapsed())
}

#[tokio::test(start_paused = true)]
async fn before_the_run_nothing_begins() {
    for means in ALL {
        let (canceller, budget) = (Canceller::new(means), Budget::root(Limits::unlimited()));
        canceller.cancel();
        let model = answerer("Done.");
        let builder = canceller.equip(agent(&model, "steps >= 5")).budget(budget.clone());
        // The notification has to arrive first: the source cannot be polled.
        let builder = builder.hook_named(Trigger::BeforeStep, 0, "wait", Arc::new(Yields));
        let state = builder.build().unwrap().run("Go.").await.unwrap();
        check(means, &state, &budget);
        assert_eq!((model.calls(), state.step_count()), (0, 0), "{means:?}");
        assert_eq!(state.usage().total(), 0);
    }
}

struct Yields;

impl endstop::agent::Hook for Yields {
    fn call<'a>(
        &'a self,
        _: &'a mut endstop::agent::HookContext<'_>,
    ) -> BoxFuture<'a, endstop::agent::HookResult> {
        Box::pin(async {
            sleep(ms(1)).await;
            Ok(())
        })
    }
}

#[tokio::test(start_paused = true)]
async fn before_the_model_call_none_is_made() {
    for means in [Means::Memory, Means::Asked, Means::Graceful, Means::Now] {
        let (canceller, budget) = (Canceller::new(means), Budget::root(Limits::unlimited()));
        let model = answerer("Done.");
        let own = canceller.clone();
        let builder = canceller.equip(agent(&model, "steps >= 5")).budget(budget.clone());
        let agent = builder.hook(Trigger::BeforeModelRequest, 0, move |_| {
            own.cancel();
            Ok(())
        });
        let state = agent.build().unwrap().run("Go.").await.unwrap();
        check(means, &state, &budget);
        assert_eq!((model.calls(), state.step_count(), state.usage().total()), (0, 1, 0));
        assert_eq!(state.steps()[0].attempts, 0);
    }
}

/// Sixty bytes in ten pieces, one in 100 ms.
const WORDS: &str = "one   two   three four  five  six   seven eight nine  ten   ";

fn streaming() -> Arc<ScriptedModel> {
    let reply = ScriptedResponse::text(WORDS).pieces_of(6).delay(ms(100)).piece_delay(ms(100));
    replies([reply.usage(100, 10)])
}

#[tokio::test(start_paused = true)]
async fn while_the_model_streams_it_is_cut_and_what_came_is_kept_and_charged() {
    for means in HARD {
        let model = streaming();
        let builder = agent(&model, "steps >= 5 or tokens >= 50k");
        let (state, budget, took) = cancelled(means, ms(350), builder).await;
        check(means, &state, &budget);
        assert_eq!((model.dropped(), model.in_flight(), model.calls()), (1, 0, 1));
        assert_eq!(took, ms(350), "{means:?}");
        assert_eq!(state.current_response(), Some("one   two   three "));
        assert_eq!(state.final_response(), None);
        let usage = state.usage();
        // 18 bytes came. At 1,000 tokens a second, and 256 under way, no more than this was made.
        assert_eq!(usage.output, 350 + 256, "{usage:?}");
        assert!((1..=200).contains(&usage.input), "{usage:?}");
        assert!(state.execution.is_estimate && state.steps()[0].is_estimate);
        assert_eq!((state.steps().len(), state.steps()[0].took_ms), (1, 350));
    }
}

#[tokio::test(start_paused = true)]
async fn a_graceful_cancellation_lets_the_stream_end_and_is_seen_in_the_last_step() {
    for means in [Means::Asked, Means::Cooperative, Means::Graceful] {
        let model = streaming();
        let builder = agent(&model, "steps >= 5");
        let (state, budget, _) = cancelled(means, ms(350), builder).await;
        check(means, &state, &budget);
        assert_eq!((model.finished(), model.calls()), (1, 1));
        assert_eq!(state.usage().total(), 110);
        assert_eq!(state.current_response(), Some(WORDS));
    }
}

#[tokio::test(start_paused = true)]
async fn while_the_model_stalls_it_is_cut() {
    for means in HARD {
        for (text, kept) in [("Half an ans", Some("Half an ans")), ("", None)] {
            let model = replies([ScriptedResponse::text(text).stall()]);
            let builder = agent(&model, "steps >= 5 or tokens >= 50k");
            let (state, budget, took) = cancelled(means, ms(2_000), builder).await;
            check(means, &state, &budget);
            assert_eq!((model.dropped(), took), (1, ms(2_000)));
            assert_eq!(state.current_response(), kept);
            assert_eq!(state.usage().output, 2_000 + 256, "{:?}", state.usage());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn half_a_tool_call_is_neither_run_nor_kept() {
    let model = replies([ScriptedResponse::text("I look.").tool_call("look", json!({})).stall()]);
    let builder = agent(&model, "steps >= 5").tool(ok_tool("look"));
    let (state, budget, _) = cancelled(Means::Now, ms(500), builder).await;
    check(Means::Now, &state, &budget);
    assert_eq!(state.current_response(), Some("I look."));
    assert!(outcomes(&state).is_empty());
    assert!(state.messages.iter().all(|message| message.tool_calls().is_empty()));
}

/// A tool that takes ten seconds and tells when it is through.
fn long_tool(done: &Arc<AtomicU64>) -> FunctionTool {
    let done = Arc::clone(done);
    FunctionTool::without_arguments("work", "Works.", move |_| {
        let done = Arc::clone(&done);
        async move {
            sleep(Duration::from_secs(10)).await;
            done.fetch_add(1, Ordering::SeqCst);
            Ok::<_, ToolError>("worked")
        }
    })
}

#[tokio::test(start_paused = true)]
async fn in_a_tool_that_can_be_aborted_it_is_aborted() {
    for means in HARD {
        let (model, done) = (caller("work"), Arc::default());
        let builder = agent(&model, "steps >= 5").tool(long_tool(&done));
        let (state, budget, took) = cancelled(means, ms(700), builder).await;
        check(means, &state, &budget);
        assert_eq!((outcomes(&state), took), (vec![ToolOutcome::Aborted], ms(700)));
        assert!(state.execution.still_running.is_empty());
        assert_eq!((state.usage().total(), model.calls()), (110, 1));
        assert_eq!(state.steps()[0].tool_executions[0].took_ms, 700);
        sleep(Duration::from_secs(60)).await;
        assert_eq!(done.load(Ordering::SeqCst), 0, "{means:?}: it went on");
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_cannot_be_aborted_goes_on_and_is_reported() {
    for means in HARD {
        let (model, done) = (caller("work"), Arc::default());
        let builder = agent(&model, "steps >= 5").tool(long_tool(&done).not_abortable());
        let (state, budget, took) = cancelled(means, ms(700), builder).await;
        check(means, &state, &budget);
        assert_eq!((outcomes(&state), took), (vec![ToolOutcome::Aborted], ms(700)));
        assert_eq!(state.execution.still_running, ["work"]);
        sleep(Duration::from_secs(60)).await;
        assert_eq!(done.load(Ordering::SeqCst), 1, "{means:?}: it did not go on");
    }
}

#[tokio::test(start_paused = true)]
async fn a_graceful_cancellation_lets_tools_end_and_begins_no_other() {
    for means in [Means::Asked, Means::Graceful] {
        let reply =
            ScriptedResponse::call("work", json!({})).tool_call("work", json!({})).usage(100, 10);
        let (model, done) = (replies([reply]), Arc::default());
        let builder = agent(&model, "steps >= 5").tool(long_tool(&done)).parallel_tools(1);
        let (state, budget, took) = cancelled(means, ms(700), builder).await;
        check(means, &state, &budget);
        assert_eq!(outcomes(&state), [ToolOutcome::Succeeded, ToolOutcome::NotExecuted]);
        assert_eq!(took.as_secs(), 10);
        assert_eq!((done.load(Ordering::SeqCst), model.calls()), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn in_a_tool_whose_time_is_nearly_over() {
    for can_abort in [true, false] {
        for after in [ms(900), ms(1_100)] {
            let tool = long_tool(&Arc::default()).timeout(ms(1_000));
            let tool = if can_abort { tool } else { tool.not_abortable() };
            let slow = slow_tool("sleep", ms(5_000));
            let reply = ScriptedResponse::call("work", json!({})).tool_call("sleep", json!({}));
            let model = replies([reply.usage(100, 10)]);
            let builder = agent(&model, "steps >= 5").tool(tool).tool(slow);
            let (state, budget, took) = cancelled(Means::Now, after, builder).await;
            check(Means::Now, &state, &budget);
            let first =
                if after < ms(1_000) { ToolOutcome::Aborted } else { ToolOutcome::TimedOut };
            assert_eq!((outcomes(&state), took), (vec![first, ToolOutcome::Aborted], after));
            let still: &[&str] = if can_abort { &[] } else { &["work"] };
            assert_eq!(state.execution.still_running, still);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn while_waiting_between_attempts_no_other_is_made() {
    let failure = || {
        let failed = ScriptedResponse::text("").fail(ModelErrorKind::Unavailable, Some(ms(60_000)));
        replies([failed, ScriptedResponse::text("Too late.")])
    };
    for means in HEARD {
        let model = failure();
        let (state, budget, took) = cancelled(means, ms(1_500), agent(&model, "steps >= 5")).await;
        check(means, &state, &budget);
        assert_eq!((model.calls(), took), (1, ms(1_500)), "{means:?}");
        assert_eq!(state.steps()[0].attempts, 1);
    }
    // A source that can only be polled is polled after the wait.
    let model = failure();
    let (state, budget, _) = cancelled(Means::Asked, ms(1_500), agent(&model, "steps >= 5")).await;
    check(Means::Asked, &state, &budget);
    assert_eq!(model.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn while_waiting_for_the_breaker_none_is_sent_and_it_closes_again() {
    for means in HEARD {
        let breaker = CircuitBreaker::new(1, ms(30_000));
        breaker.record(false);
        let model = answerer("Done.");
        let builder = agent(&model, "steps >= 5").circuit_breaker(breaker.clone());
        let (state, budget, took) = cancelled(means, ms(1_500), builder).await;
        check(means, &state, &budget);
        assert_eq!((model.calls(), took), (0, ms(1_500)), "{means:?}");
        let next = agent(&model, "steps >= 5").circuit_breaker(breaker.clone()).build().unwrap();
        assert_eq!(next.run("Go.").await.unwrap().final_response(), Some("Done."));
        assert!(!breaker.is_open());
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_ends_between_the_breaker_and_its_request_leaves_the_breaker_to_others() {
    let breaker = CircuitBreaker::new(1, ms(1_000));
    breaker.record(false);
    let model = answerer("Done.");
    let first = agent(&model, "steps >= 5").circuit_breaker(breaker.clone());
    let first = first.hook(Trigger::BeforeModelRequest, 0, |context| {
        context.raise(StopSignal::new(StopReason::StopRequested));
        Ok(())
    });
    let state = first.build().unwrap().run("Go.").await.unwrap();
    assert_eq!(state.stop_reason(), Some(StopReason::StopRequested));
    let next = agent(&model, "steps >= 5 or active >= 1m").circuit_breaker(breaker.clone());
    let state = next.build().unwrap().run("Go.").await.unwrap();
    assert_eq!(state.final_response(), Some("Done."), "{}", state.explain());
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_a_breaker_hides_no_limit_in_time() {
    // One run retries forever whether the model is back; the other checks every 100 ms.
    let breaker = CircuitBreaker::new(1, ms(1_000));
    breaker.record(false);
    let model = replies([ScriptedResponse::text("x").stall()]);
    let agent = |stop: &str| agent(&model, stop).circuit_breaker(breaker.clone()).build().unwrap();
    let (first, second) = (agent("active >= 60s"), agent("active >= 10s"));
    let later = async {
        sleep(ms(2_000)).await;
        second.run("Go.").await
    };
    let (first, second) = tokio::join!(first.run("Go."), later);
    assert_eq!(first.unwrap().execution.at_ms, 60_000);
    let second = second.unwrap();
    assert_eq!(second.stop_reason(), Some(StopReason::TimeLimitReached), "{}", second.explain());
    assert!((10_000..10_200).contains(&second.execution.at_ms), "{}", second.explain());
    assert_eq!(model.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_dropped_in_its_request_leaves_the_breaker_to_others() {
    let breaker = CircuitBreaker::new(1, ms(1_000));
    breaker.record(false);
    let model = replies([ScriptedResponse::text("x").stall(), ScriptedResponse::text("Done.")]);
    let agent = agent(&model, "steps >= 5 or active >= 1m").circuit_breaker(breaker.clone());
    let agent = agent.build().unwrap();
    assert!(tokio::time::timeout(ms(5_000), agent.run("Go.")).await.is_err());
    assert_eq!((model.calls(), model.dropped()), (1, 1));
    let state = agent.run("Go.").await.unwrap();
    assert_eq!(state.final_response(), Some("Done."), "{}", state.explain());
}

/// No person decides.
struct Nobody;

impl Approver for Nobody {
    fn approve<'a>(&'a self, _: ApprovalRequest<'a>) -> BoxFuture<'a, Approval> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn while_waiting_for_approval() {
    for means in HEARD {
        let model = caller("look");
        let rules = policy("[stop]\nlimit = \"steps >= 9\"\n[pause]\nask = \"steps >= 2\"\n");
        let builder = agent(&model, "steps >= 9").policy(rules).tool(ok_tool("look"));
        let builder = builder.approver(Nobody);
        let (state, budget, took) = cancelled(means, ms(1_500), builder).await;
        check(means, &state, &budget);
        assert_eq!((model.calls(), took), (2, ms(1_500)), "{means:?}");
        assert_eq!(state.usage().total(), 220);
    }
}

#[tokio::test(start_paused = true)]
async fn in_the_last_step_it_is_seen_whenever_it_comes() {
    for trigger in [Trigger::BeforeModelRequest, Trigger::AfterModelResponse] {
        for means in [Means::Memory, Means::Asked, Means::Graceful, Means::Now] {
            let (canceller, budget) = (Canceller::new(means), Budget::root(Limits::unlimited()));
            let model = answerer("Done.");
            let own = canceller.clone();
            let builder = canceller.equip(agent(&model, "steps >= 1")).budget(budget.clone());
            let agent = builder.hook(trigger, 0, move |_| {
                own.cancel();
                Ok(())
            });
            let state = agent.build().unwrap().run("Go.").await.unwrap();
            let signal = state.last_stop_signal().unwrap();
            assert_eq!(signal.reason, StopReason::UserRequested, "{}", state.explain());
            assert_eq!(signal.source.as_deref(), Some(means.source()));
            assert_books(&state, &budget);
        }
    }
}

/// Agents below each other, each of which asks for `calls` runs of the next one; the innermost uses `tool`.
fn tree(models: &[Arc<ScriptedModel>], tool: Arc<dyn Tool>) -> AgentBuilder {
    let mut tool = tool;
    for model in models.iter().skip(1).rev() {
        let child = AgentLoop::builder("work").model(model.clone()).tools([tool]).unbounded();
        tool = child.policy(policy("unbounded = true\n")).build().unwrap().as_tool("Works.");
    }
    AgentLoop::builder("root")
        .model(models[0].clone())
        .tools([tool])
        .stop_when(condition("steps >= 50 or tokens >= 1M"))
}

/// A model that requests this many tool calls in one reply.
fn asking(calls: usize) -> Arc<ScriptedModel> {
    Arc::new(ScriptedModel::from_fn("scripted", move |_, _| {
        let mut reply = ScriptedResponse::text("working").usage(100, 10);
        for _ in 0..calls {
            reply = reply.tool_call("work", json!({ "task": "more" }));
        }
        reply
    }))
}

#[tokio::test(start_paused = true)]
async fn in_a_sub_agent_at_depth_three_its_stream_is_cut() {
    for means in HARD {
        let inner = streaming();
        let models = [asking(1), asking(1), asking(1), inner.clone()];
        let builder = tree(&models, Arc::new(ok_tool("work")));
        let (state, budget, took) = cancelled(means, ms(350), builder).await;
        check(means, &state, &budget);
        assert_eq!((inner.dropped(), inner.in_flight(), took), (1, 0, ms(350)));
        assert_eq!(state.step_count(), 4);
        let spent = state.usage().total();
        // Three whole calls; of the fourth the input, and the most that can have been made.
        let output = 350 + 256;
        assert!((331 + output..=530 + output).contains(&spent), "{means:?}: {spent}");
        let answer = state.messages.last().unwrap().text().to_owned();
        assert!(answer.contains("user_requested"), "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_at_depth_three_that_cannot_be_aborted_is_reported_at_the_root() {
    let done = Arc::default();
    let models = [asking(1), asking(1), asking(1), asking(1)];
    let builder = tree(&models, Arc::new(long_tool(&done).not_abortable()));
    let (state, budget, took) = cancelled(Means::Now, ms(350), builder).await;
    check(Means::Now, &state, &budget);
    assert_eq!(took, ms(350));
    assert_eq!(state.execution.still_running, ["work"]);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(done.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn in_eight_parallel_sub_agents_all_streams_are_cut() {
    for means in HARD {
        let inner = streaming();
        let models = [asking(8), inner.clone()];
        let builder = tree(&models, Arc::new(ok_tool("work")));
        let (state, budget, took) = cancelled(means, ms(350), builder).await;
        check(means, &state, &budget);
        assert_eq!((inner.calls(), inner.dropped(), inner.in_flight()), (8, 8, 0));
        assert_eq!((took, state.step_count(), outcomes(&state).len()), (ms(350), 9, 8));
        let spent = state.usage().total();
        // Of each the input, and the most that can have been made.
        let output = 350 + 256;
        assert!((110 + 8 * output..=110 + 8 * (200 + output)).contains(&spent), "{spent}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_source_that_can_only_be_asked_reaches_runs_below() {
    let inner = caller("work");
    let models = [asking(1), asking(1), inner.clone()];
    let builder = tree(&models, Arc::new(slow_tool("work", ms(100))));
    let (state, budget, took) = cancelled(Means::Asked, ms(350), builder).await;
    check(Means::Asked, &state, &budget);
    assert!(took < ms(450), "{took:?}");
    assert_eq!(inner.calls(), 4);
}

#[tokio::test(start_paused = true)]
async fn the_first_signal_decides_and_later_ones_are_recorded() {
    let model = streaming();
    let token = CancelToken::new();
    let source = InMemoryCancellationSource::new();
    let agent =
        agent(&model, "steps >= 5").cancel_token(token.clone()).cancellation(source.clone());
    let later = async {
        sleep(ms(150)).await;
        token.cancel(enough("person"), Urgency::Graceful);
        sleep(ms(100)).await;
        source.abort("something else");
    };
    let agent = agent.build().unwrap();
    let (state, ()) = tokio::join!(agent.run("Go."), later);
    let state = state.unwrap();
    let signal = state.last_stop_signal().unwrap();
    assert_eq!((signal.message.as_str(), signal.source.as_deref()), ("enough", Some("person")));
    // The second one is still the more urgent one.
    assert_eq!((model.dropped(), state.execution.at_ms), (1, 250));
    let messages = recorded(&state);
    assert_eq!(messages, ["enough", "something else"]);
}

#[tokio::test(start_paused = true)]
async fn ctrl_c_is_graceful_at_first_and_cuts_at_the_second() {
    let model = streaming();
    let token = CancelToken::new();
    let agent = agent(&model, "steps >= 5").cancel_token(token.clone()).build().unwrap();
    let mut interrupts = Interrupts::new();
    let presses = async {
        for _ in 0..2 {
            sleep(ms(240)).await;
            assert_eq!((model.in_flight(), model.dropped()), (1, 0));
            let (signal, urgency) = interrupts.interrupt().cancellation().unwrap();
            token.cancel(signal, urgency);
        }
    };
    let (state, ()) = tokio::join!(agent.run("Go."), presses);
    let state = state.unwrap();
    assert_eq!((model.dropped(), state.execution.at_ms), (1, 480));
    let signal = state.last_stop_signal().unwrap();
    assert_eq!(signal.source.as_deref(), Some("interrupt"));
    let mut again = Interrupts::new();
    let pressed = [again.interrupt(), again.interrupt()];
    let expected = pressed.map(|stage| stage.cancellation().unwrap().0.message);
    assert_eq!(recorded(&state), expected);
    assert_eq!(signal.message, "interrupted; once more to stop immediately");
    assert!(state.explain().contains("user_requested"), "{}", state.explain());
    assert_eq!(state.current_response(), Some("one   two   three four  "));
}

/// Drops a run after some time.
async fn dropped(after: Duration, builder: AgentBuilder) -> Budget {
    let budget = Budget::root(Limits::unlimited());
    let agent = builder.budget(budget.clone()).build().unwrap();
    assert!(tokio::time::timeout(after, agent.run("Go.")).await.is_err());
    budget
}

#[tokio::test(start_paused = true)]
async fn a_dropped_future_cuts_what_is_in_flight_and_holds_nothing() {
    let model = streaming();
    let builder = agent(&model, "steps >= 5 or tokens >= 50k");
    let budget = dropped(ms(350), builder.max_output_tokens(400)).await;
    assert_eq!((model.dropped(), model.in_flight(), model.calls()), (1, 0, 1));
    assert_eq!(budget.held(), Amounts::default());
    // Nothing is left to count: its worst case is charged.
    assert!(budget.settled().tokens >= 400, "{:?}", budget.settled());

    let inner = streaming();
    let models = [asking(8), inner.clone()];
    let builder = tree(&models, Arc::new(ok_tool("work")));
    let budget = dropped(ms(350), builder).await;
    assert_eq!((inner.dropped(), inner.in_flight(), budget.held()), (8, 0, Amounts::default()));
    sleep(Duration::from_secs(60)).await;
    assert_eq!(inner.calls(), 8);

    let done = Arc::default();
    let told = Arc::new(AtomicBool::new(false));
    let saw = Arc::clone(&told);
    let tool = FunctionTool::without_arguments("sleep", "Sleeps.", move |context| {
        let saw = Arc::clone(&saw);
        async move {
            context.cancel.aborted().await;
            saw.store(true, Ordering::SeqCst);
            Ok::<_, ToolError>("woken")
        }
    });
    let reply = ScriptedResponse::call("work", json!({})).tool_call("sleep", json!({}));
    let model = replies([reply]);
    let builder = agent(&model, "steps >= 5").tool(long_tool(&done)).tool(tool.not_abortable());
    let budget = dropped(ms(350), builder).await;
    sleep(Duration::from_secs(60)).await;
    // One was dropped; the other, which cannot be, was notified.
    assert_eq!((done.load(Ordering::SeqCst), told.load(Ordering::SeqCst)), (0, true));
    assert_eq!((budget.held(), budget.settled().tool_calls), (Amounts::default(), 2));
}

#[tokio::test(start_paused = true)]
async fn a_reset_source_lets_the_next_run_go() {
    let source = InMemoryCancellationSource::new();
    let model = answerer("Done.");
    let agent = agent(&model, "steps >= 5").cancellation(source.clone()).build().unwrap();
    source.cancel("not now");
    assert!(source.is_cancellation_requested());
    let state = agent.run("Go.").await.unwrap();
    assert_eq!((state.stop_reason(), model.calls()), (Some(StopReason::UserRequested), 0));
    source.reset();
    assert_eq!(agent.run("Go.").await.unwrap().final_response(), Some("Done."));
}

/// A request in the middle of a wait that is repeated: a request that was not sent is not an attempt.
#[tokio::test(start_paused = true)]
async fn attempts_that_are_not_made_are_not_charged() {
    let model = replies([ScriptedResponse::error(ModelErrorKind::Unavailable)]);
    let retry = RetryPolicy { max_attempts: 9, first_wait: ms(1_000), ..RetryPolicy::default() };
    let builder = agent(&model, "steps >= 5").retry(retry);
    let (state, budget, took) = cancelled(Means::Now, ms(3_500), builder).await;
    check(Means::Now, &state, &budget);
    // At 0, 1 and 3 seconds.
    assert_eq!((model.calls(), budget.settled().attempts, took), (3, 3, ms(3_500)));
    assert_eq!(budget.settled().tokens, 0);
}
