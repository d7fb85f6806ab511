//! The worst case and the charge of a call, if provider, price or reply are not as expected.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use endstop::agent::{AgentLoop, BreakerDecision, CircuitBreaker, RetryPolicy};
use endstop::core::run::Status;
use endstop::core::signal::StopReason;
use endstop::ledger::{Amounts, Budget, Limits};
use endstop::message::{Message, ToolCall, ToolOutcome};
use endstop::model::{ModelErrorKind, ScriptedModel, ScriptedResponse};
use endstop::store::{
    Durability, MemoryStore, RunId, RunLock, RunSummary, Store, StoreError, StoredState, Version,
};
use endstop::tool::{FunctionTool, ToolError};
use futures_util::future::BoxFuture;
use serde_json::json;

use crate::kit::*;
use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_provider_that_counts_more_than_the_bytes_is_believed() {
    // A template that is not seen: 4,000 tokens for a few bytes.
    let model = replies([ScriptedResponse::call("look", json!({})).usage(4_000, 10)]);
    let builder = agent(&model, "tokens >= 5k or steps >= 9").tool(ok_tool("look"));
    let state = builder.build().unwrap().run("Go.").await.unwrap();
    assert_eq!((model.calls(), state.usage().total()), (1, 4_010), "{}", state.explain());
    assert_eq!(state.stop_reason(), Some(StopReason::TokenLimitReached));
    // Also after a save, where a hook sends other messages, and where another model answers.
    let short = |context: &mut endstop::agent::HookContext<'_>| {
        context.send_instead(vec![Message::user("Go.")]);
        Ok(())
    };
    let model = replies([ScriptedResponse::call("look", json!({})).usage(4_000, 10)]);
    let builder = agent(&model, "tokens >= 9k or steps >= 9").tool(ok_tool("look"));
    let agent = builder.hook(endstop::agent::Trigger::BeforeModelRequest, 0, move |context| {
        if context.state.messages.len() > 2 { short(context) } else { Ok(()) }
    });
    let state = agent.build().unwrap().run("Go.").await.unwrap();
    assert_eq!((model.calls(), state.usage().total()), (2, 8_020), "{}", state.explain());
}

#[tokio::test(start_paused = true)]
async fn what_one_model_made_of_the_bytes_bounds_no_other_model() {
    let first = replies([
        ScriptedResponse::call("look", json!({})).usage(10, 5),
        ScriptedResponse::text("I cannot do that.").usage(10, 5),
    ]);
    // A token for each byte.
    let other = replies([ScriptedResponse::text("Here it is.").usage(3_000, 5)]);
    let rules = "[stop]\nlimit = \"tokens >= 2_500\"\nmore = \"steps >= 9\"\n[retry]\nbad = \"said('I cannot')\"\n";
    let long = FunctionTool::without_arguments("look", "Looks.", |_| async {
        Ok::<_, ToolError>("y".repeat(1_000))
    });
    let builder = under(&first, rules).retry_model(other.clone()).tool(long).max_output_tokens(16);
    let state = builder.build().unwrap().run("x".repeat(1_900)).await.unwrap();
    assert_eq!((first.calls(), other.calls()), (2, 0), "{}", state.explain());
    assert_eq!(state.usage().total(), 30);
}

#[tokio::test(start_paused = true)]
async fn a_budget_of_money_refuses_a_model_without_a_price() {
    let run = async |more: &str| {
        let limits = Limits { cost: Some(usd("0.000001")), ..Limits::unlimited() };
        let budget = Budget::root(limits);
        let model = caller("look");
        let rules = format!("{more}\n[stop]\nlimit = \"steps >= 20\"\n");
        let builder = under(&model, &rules).tool(ok_tool("look")).budget(budget.clone());
        let state = builder.build().unwrap().run("Go.").await.unwrap();
        assert_eq!((budget.held(), budget.settled().cost), (Amounts::ZERO, usd("0")));
        (model.calls(), state)
    };
    let (calls, state) = run("").await;
    assert_eq!((calls, state.stop_reason()), (0, Some(StopReason::CostLimitReached)));
    let signal = state.last_stop_signal().unwrap();
    assert!(signal.message.contains("`scripted` has no price"), "{}", signal.message);
    let (calls, _) = run("on_unpriced = { input = \"$10/M\", output = \"$100/M\" }").await;
    assert_eq!(calls, 0, "it has a price now, which is too high");
    let (calls, state) = run("on_unpriced = \"ignore\"").await;
    assert_eq!((calls, state.stop_reason()), (20, Some(StopReason::StepsLimitReached)));
}

#[tokio::test(start_paused = true)]
async fn children_side_by_side_do_not_pass_a_limit_by_rates() {
    let rates = "on_unpriced = { input = \"$1/M\", output = \"$10/M\" }\n";
    let dear = "on_unpriced = { input = \"$2/M\", output = \"$5/M\" }\n";
    for of_child in ["", rates, dear, "on_unpriced = \"ignore\"\n"] {
        let model = ScriptedModel::from_fn("scripted", |request, _| {
            let output = request.max_output_tokens.unwrap();
            let reply = if request.tools.is_empty() || replies_so_far(request) > 0 {
                return ScriptedResponse::text("Done.")
                    .usage(10, output)
                    .delay(Duration::from_secs(1));
            } else {
                ScriptedResponse::text("All of you.").usage(100, 10)
            };
            let call =
                |reply: ScriptedResponse, _| reply.tool_call("helper", json!({ "task": "x" }));
            (0..8).fold(reply, call)
        });
        let model = Arc::new(model);
        let child = AgentLoop::builder("helper").model(model.clone());
        let child = child.policy(policy(&format!("{of_child}[stop]\nlimit = \"steps >= 3\"\n")));
        let helper = child.build().unwrap().as_tool("Helps.");
        let rules = format!("{rates}[stop]\nlimit = \"cost >= $0.10\"\nmore = \"steps >= 50\"\n");
        let builder = under(&model, &rules).tools([helper]).parallel_tools(8);
        let state = builder.build().unwrap().run("Go.").await.unwrap();
        assert!(state.cost().unwrap() <= usd("0.10"), "{of_child}: {:?}", state.cost());
        assert!(model.calls() > 1, "{of_child}: {}", state.explain());
        assert_all_answered(&state);
    }
}

/// A store that takes no line with this in it.
#[derive(Debug)]
struct Full(MemoryStore, &'static str);

impl Store for Full {
    fn durability(&self) -> Durability {
        self.0.durability()
    }

    fn save<'a>(
        &'a self,
        id: &'a RunId,
        state: &'a str,
        expected: Option<Version>,
    ) -> BoxFuture<'a, Result<Version, StoreError>> {
        self.0.save(id, state, expected)
    }

    fn load<'a>(&'a self, id: &'a RunId) -> BoxFuture<'a, Result<Option<StoredState>, StoreError>> {
        self.0.load(id)
    }

    fn append<'a>(
        &'a self,
        id: &'a RunId,
        lines: &'a str,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        if lines.contains(self.1) {
            let error =
                StoreError::TooLarge { run: id.clone(), what: "append", bytes: 2, limit: 1 };
            return Box::pin(std::future::ready(Err(error)));
        }
        self.0.append(id, lines)
    }

    fn read_trace<'a>(
        &'a self,
        id: &'a RunId,
        from_line: u64,
    ) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        self.0.read_trace(id, from_line)
    }

    fn list<'a>(&'a self) -> BoxFuture<'a, Result<Vec<RunSummary>, StoreError>> {
        self.0.list()
    }

    fn remove<'a>(&'a self, id: &'a RunId) -> BoxFuture<'a, Result<bool, StoreError>> {
        self.0.remove(id)
    }

    fn lock<'a>(&'a self, id: &'a RunId) -> BoxFuture<'a, Result<RunLock, StoreError>> {
        self.0.lock(id)
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_recorded_is_not_sent_and_not_run() {
    for (line, calls, tokens) in [("attempt_begin", 0, 0), ("tool_begin", 1, 110)] {
        let (counter, count) = counter_tool(9);
        let (model, budget) = (caller("counter"), Budget::root(Limits::unlimited()));
        let store = Full(MemoryStore::new(), line);
        let builder = agent(&model, "steps >= 9").tool(counter).store(Arc::new(store));
        let state = builder.budget(budget.clone()).build().unwrap().run("Go.").await.unwrap();
        assert_eq!((model.calls(), count.load(Ordering::SeqCst)), (calls, 0), "{line}");
        assert_eq!(state.stop_reason(), Some(StopReason::ErrorForbade), "{}", state.explain());
        assert_eq!((state.usage().total(), budget.settled().tokens), (tokens, tokens));
        assert_eq!((budget.held(), budget.settled().attempts), (Amounts::ZERO, 1));
        let expected: &[ToolOutcome] = if calls == 0 { &[] } else { &[ToolOutcome::NotExecuted] };
        assert_eq!(outcomes(&state), expected);
        assert_all_answered(&state);
    }
}

#[tokio::test(start_paused = true)]
async fn input_that_was_counted_before_is_estimated_whole() {
    let first = || ScriptedResponse::call("look", json!({})).usage(90_000, 10);
    for last in
        [ScriptedResponse::text("Done.").without_usage(), ScriptedResponse::text("Not all").cut()]
    {
        let model = replies([first(), last]);
        let builder = agent(&model, "steps >= 2").tool(ok_tool("look"));
        let state = builder.retry(RetryPolicy::never()).build().unwrap().run("Go.").await.unwrap();
        assert_eq!(model.calls(), 2);
        let second = state.steps()[1].usage.input;
        assert!((90_010..90_100).contains(&second) && state.steps()[1].is_estimate, "{second}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_broke_after_it_was_sent_is_charged_its_input() {
    let failing =
        |kind| ScriptedResponse::text("").fail(kind, None).delay(Duration::from_secs(600));
    for (first, charged) in [
        (ScriptedResponse::text("").cut(), 1),
        (failing(ModelErrorKind::Truncated), 1),
        (failing(ModelErrorKind::TimedOut), 1),
        (failing(ModelErrorKind::Malformed), 1),
        (failing(ModelErrorKind::Connection), 0),
        (failing(ModelErrorKind::RateLimited), 0),
        (failing(ModelErrorKind::Unavailable), 0),
    ] {
        let model = replies([first, ScriptedResponse::text("Done.").usage(30_000, 10)]);
        let state = agent(&model, "steps >= 2").build().unwrap().run("x".repeat(90_000)).await;
        let state = state.unwrap();
        assert_eq!((state.final_response(), model.calls()), (Some("Done."), 2));
        assert_eq!(state.execution.is_estimate, charged > 0);
        assert_eq!(state.usage().input / 1_000, 30 + 30 * charged);
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_reply_is_no_failure() {
    let sorry = || ScriptedResponse::text("I cannot do that.").usage(100, 10);
    let busy = || ScriptedResponse::error(ModelErrorKind::RateLimited);
    let rules = "[stop]\nlimit = \"steps >= 9\"\n[retry]\nbad = \"said('I cannot')\"\n";
    for script in [
        vec![sorry(), sorry(), busy(), ScriptedResponse::text("Done.").usage(100, 10)],
        vec![
            busy(),
            busy(),
            sorry(),
            busy(),
            busy(),
            ScriptedResponse::text("Done.").usage(100, 10),
        ],
    ] {
        let (model, sent) = (replies(script.clone()), script.len());
        let state = under(&model, rules).build().unwrap().run("Go.").await.unwrap();
        assert_eq!(state.final_response(), Some("Done."), "{}", state.explain());
        assert_eq!((state.step_count(), state.steps()[0].attempts as usize), (1, sent));
    }
    let model = replies([sorry(), busy()]);
    let state = under(&model, rules).build().unwrap().run("Go.").await.unwrap();
    assert_eq!((model.calls(), state.stop_reason()), (4, Some(StopReason::ErrorForbade)));
    let signal = state.last_stop_signal().unwrap();
    assert!(signal.message.starts_with("3 requests"), "{}", signal.message);
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_a_lowered_cap_cut_short_is_no_answer() {
    let limits =
        |tokens, cost: Option<&str>| Limits { tokens, cost: cost.map(usd), ..Limits::unlimited() };
    let shared = [limits(Some(300), None), limits(None, Some("0.002")), limits(None, None)];
    let (tokens, cost) = (StopReason::TokenLimitReached, StopReason::CostLimitReached);
    for (rule, shared, reason) in [
        ("tokens >= 300", shared[2], tokens),
        ("cost >= $0.002", shared[2], cost),
        ("tokens >= 300 or cost >= $1", shared[2], tokens),
        ("steps >= 5", shared[0], tokens),
        ("steps >= 5", shared[1], cost),
    ] {
        for finish in ["length", "MAX_TOKENS"] {
            let model = priced(move |request, _| {
                let cap = request.max_output_tokens.unwrap();
                ScriptedResponse::text("The ans").usage(10, cap).finish(finish)
            });
            let rules = format!("[stop]\nlimit = \"{rule}\"\nmore = \"steps >= 9\"\n");
            let builder = under(&model, &rules).budget(Budget::root(shared));
            let state = builder.build().unwrap().run("Go.").await.unwrap();
            assert_eq!(state.stop_reason(), Some(reason), "{rule}: {}", state.explain());
            assert_eq!(state.status(), Status::Stopped);
            assert_eq!((state.final_response(), state.current_response()), (None, Some("The ans")));
            assert_eq!((model.calls(), state.step_count()), (1, 1));
        }
    }
    // A reply that fits, and one that the model's own cap cuts, end as usual.
    for (finish, own_cap) in [("stop", None), ("length", Some(20))] {
        let model =
            priced(move |_, _| ScriptedResponse::text("The ans").usage(10, 20).finish(finish));
        let builder = under(&model, "[stop]\nlimit = \"tokens >= 300\"\nmore = \"steps >= 9\"\n");
        let builder = match own_cap {
            Some(cap) => builder.max_output_tokens(cap),
            None => builder,
        };
        let state = builder.build().unwrap().run("Go.").await.unwrap();
        assert_eq!(state.final_response(), Some("The ans"), "{}", state.explain());
    }
}

#[tokio::test(start_paused = true)]
async fn a_breaker_can_stay_open_for_ever() {
    let breaker = CircuitBreaker::new(1, Duration::MAX);
    breaker.record(false);
    assert!(breaker.is_open());
    assert!(
        matches!(breaker.ask(), BreakerDecision::Wait(wait) if wait > Duration::from_secs(1 << 31))
    );
    let model = replies([ScriptedResponse::error(ModelErrorKind::Unavailable)]);
    let builder = agent(&model, "elapsed >= 10s or steps >= 9").circuit_breaker(breaker);
    let state = builder.build().unwrap().run("Go.").await.unwrap();
    assert_eq!((model.calls(), state.stop_reason()), (0, Some(StopReason::TimeLimitReached)));
}

#[tokio::test(start_paused = true)]
async fn every_call_of_a_reply_has_an_id_of_its_own() {
    for ids in [["call_1_1", "call_1_1", ""], ["", "call_1_0", "call_1_0"], ["a", "a", "call_1_1"]]
    {
        let call =
            |id: &str| ToolCall { id: id.into(), tool: "look".into(), arguments: "{}".into() };
        let reply = ids
            .iter()
            .fold(ScriptedResponse::text("x"), |reply, id| reply.identified_call(call(id)));
        let model = replies([reply, ScriptedResponse::text("Done.")]);
        let builder = agent(&model, "steps >= 3").tool(ok_tool("look"));
        let state = builder.build().unwrap().run("Go.").await.unwrap();
        let calls = state.messages[1].tool_calls();
        let named: BTreeSet<&str> = calls.iter().map(|call| call.id.as_str()).collect();
        assert_eq!((named.len(), named.contains("")), (3, false), "{named:?}");
        assert!(ids.iter().all(|id| id.is_empty() || named.contains(id)), "{named:?}");
        assert_all_answered(&state);
    }
}
