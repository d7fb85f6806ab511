//! Money, tokens and counts: never more than the limit while usage is within the request, reported
//! honestly if it is more, and the same in every record.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use endstop::agent::{AgentBuilder, AgentLoop, AgentState, RetryPolicy};
use endstop::core::Run;
use endstop::core::run::Status;
use endstop::core::signal::StopReason;
use endstop::ledger::{Amounts, Budget, Limits};
use endstop::message::{Message, ToolOutcome};
use endstop::model::{ModelErrorKind, ModelRequest, ScriptedModel, ScriptedResponse};
use endstop::observe::{Observation, Observer, RunInfo};
use endstop::tool::Tool;
use proptest::prelude::*;
use serde_json::json;

use crate::kit::*;
use crate::support::*;

/// No more input than a request has bytes.
fn input_of(request: &ModelRequest<'_>) -> u64 {
    request.messages.iter().map(Message::token_bound).sum::<u64>() + request.system.len() as u64
}

/// Every number comes from a seed and a count, so that a failure can be seen again.
fn random(seed: u64, count: u64) -> u64 {
    let mixed =
        (seed ^ count.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 29)
}

/// The values of each run's core and node of the ledger at its end.
#[derive(Clone, Default)]
struct Books(Arc<Mutex<BTreeMap<String, Book>>>);

#[derive(Clone, Debug)]
struct Book {
    parent: Option<String>,
    settled: Amounts,
    own: [u64; 4],
    total: [u64; 4],
}

const GAUGES: [&str; 4] = ["steps", "attempts", "tool_calls", "tokens"];

impl Observer for Books {
    fn observe(&self, _: &Observation<'_>) {}

    fn run_ended(&self, info: &RunInfo, run: &Run, budget: &Budget) {
        let read = |prefix: &str| {
            GAUGES.map(|gauge| run.gauge(&format!("{prefix}{gauge}")).unwrap_or(u64::MAX))
        };
        let parent = info.parent.as_ref().map(ToString::to_string);
        let book = Book { parent, settled: budget.settled(), own: read("own."), total: read("") };
        self.0.lock().unwrap().insert(info.id.to_string(), book);
    }
}

impl Books {
    /// The total of every run is its own share and the totals of its children, and what its budget settled.
    fn check(&self) -> usize {
        let all = self.0.lock().unwrap();
        for (id, book) in all.iter() {
            let children = all.values().filter(|b| b.parent.as_ref() == Some(id));
            let mut sum = book.own;
            for child in children {
                sum.iter_mut().zip(child.total).for_each(|(sum, total)| *sum += total);
            }
            assert_eq!(sum, book.total, "{id}");
            let Amounts { steps, attempts, tool_calls, tokens, .. } = book.settled;
            assert_eq!([steps, attempts, tool_calls, tokens], book.total, "{id}");
        }
        all.len()
    }
}

/// A model that uses as much as it may, or less, and calls whatever there is to call.
fn spender(seed: u64, width: u64, finished: &Arc<AtomicU64>) -> Arc<ScriptedModel> {
    let spent = Arc::clone(finished);
    priced(move |request, count| {
        let roll = random(seed, count);
        let cap = request.max_output_tokens.unwrap_or(4_096);
        let output = if roll.is_multiple_of(3) { cap } else { cap.min(1 + roll % 400) };
        // A tokenizer makes of the same bytes the same tokens.
        let input = (input_of(request) * (1 + seed % 100) / 100).max(1);
        spent.fetch_add(input + output, Ordering::SeqCst);
        let mut reply = ScriptedResponse::text("More.").delay(Duration::from_millis(roll % 7));
        for call in 0..(1 + roll % width) {
            let tools = request.tools;
            if let Some(tool) = tools.get((roll as usize + call as usize) % tools.len().max(1)) {
                reply = reply.tool_call(tool.name.clone(), json!({ "task": "more" }));
            }
        }
        reply.usage(input, output)
    })
}

/// A tree: the root calls agents of the next level, and so on; the last level works.
fn tree(model: &Arc<ScriptedModel>, depth: u64, rules: &str) -> AgentBuilder {
    let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
    for level in 0..depth {
        let name = format!("level{level}");
        let child = AgentLoop::builder(name).model(model.clone()).tools(tools.clone());
        let child = child.tool(any_tool()).stop_when(condition("steps >= 7 or tokens >= 6k"));
        tools.push(child.build().unwrap().as_tool("Works."));
    }
    under(model, rules).tools(tools).tool(any_tool())
}

/// Takes what sub-agents take.
fn any_tool() -> endstop::tool::FunctionTool {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Task {
        task: String,
    }
    endstop::tool::FunctionTool::new("work", "Works.", |work: Task, _| async move {
        Ok::<_, endstop::tool::ToolError>(work.task)
    })
}

fn block<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().start_paused(true).build().unwrap();
    runtime.block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn no_limit_of_money_or_tokens_is_overshot_and_all_books_agree(
        seed in any::<u64>(), depth in 0u64..4, width in 1u64..5, milli in 1u64..120, tokens in 100u64..30_000,
        by_money in any::<bool>(), wraps_up in any::<bool>(),
    ) {
        let limit = if by_money { format!("cost >= ${}.{milli:03}", 0) } else { format!("tokens >= {tokens}") };
        let finish = if by_money { "cost >= $0.02" } else { "tokens >= 2k" };
        let finish = if wraps_up { format!("[finish]\nwrap = \"{finish}\"\n") } else { String::new() };
        let rules = format!("[stop]\nlimit = \"{limit} or steps >= 60\"\n{finish}");
        let spent = Arc::new(AtomicU64::new(0));
        let model = spender(seed, width, &spent);
        let (books, budget) = (Books::default(), Budget::root(Limits::unlimited()));
        let agent = tree(&model, depth, &rules).observer(books.clone()).budget(budget.clone());
        let state = block(agent.build().unwrap().run("Go.")).unwrap();
        let settled = budget.settled();
        if by_money {
            prop_assert!(settled.cost <= usd(&format!("0.{milli:03}")), "{rules}: {settled:?}");
        } else {
            prop_assert!(settled.tokens <= tokens, "{rules}: {settled:?}");
        }
        prop_assert!(settled.steps <= 60);
        prop_assert_eq!(budget.held(), Amounts::ZERO);
        prop_assert_eq!(state.usage().total(), settled.tokens);
        prop_assert_eq!(settled.tokens, spent.load(Ordering::SeqCst));
        prop_assert_eq!(settled.attempts, model.calls());
        prop_assert_eq!(state.cost(), Some(settled.cost));
        prop_assert_eq!(state.step_count(), settled.steps);
        let own: u64 = state.steps().iter().map(|step| step.usage.total()).sum();
        prop_assert!(own <= settled.tokens);
        books.check();
        assert_all_answered(&state);
    }
}

#[tokio::test(start_paused = true)]
async fn the_output_cap_is_lowered_to_what_fits_and_below_sixteen_the_call_is_refused() {
    // Answers with the most that it may, until nothing fits.
    let model = priced(|request, _| {
        ScriptedResponse::call("look", json!({}))
            .usage(100, request.max_output_tokens.unwrap().min(500))
    });
    let agent = under(&model, "[stop]\nlimit = \"output_tokens >= 1_210 or steps >= 50\"\n");
    let state = agent
        .tool(ok_tool("look"))
        .max_output_tokens(600)
        .build()
        .unwrap()
        .run("Go.")
        .await
        .unwrap();
    let caps: Vec<u64> = model.requests().iter().map(|r| r.max_output_tokens.unwrap()).collect();
    assert_eq!(caps, [600, 600, 210], "{}", state.explain());
    assert_eq!(state.usage().output, 1_210);
    assert_eq!(state.stop_reason(), Some(StopReason::TokenLimitReached));

    let model = priced(|request, _| {
        ScriptedResponse::call("look", json!({}))
            .usage(100, request.max_output_tokens.unwrap().min(500))
    });
    let agent = under(&model, "[stop]\nlimit = \"output_tokens >= 515 or steps >= 50\"\n");
    let state = agent
        .tool(ok_tool("look"))
        .max_output_tokens(600)
        .build()
        .unwrap()
        .run("Go.")
        .await
        .unwrap();
    // 15 are left, which is too little.
    assert_eq!((model.calls(), state.usage().output), (1 + u64::from(model.calls() > 1), 500));
    assert_eq!(model.calls(), 1, "{}", state.explain());
    let trip_record = state.execution.trip_record.as_ref().unwrap();
    let leaf = &trip_record.rules[0].tree.parts[0];
    assert_eq!(leaf.projected.as_deref(), Some("516"), "{}", state.explain());
    assert!(trip_record.refused.as_deref().unwrap().contains("model request"));
    assert_eq!(state.stop_reason(), Some(StopReason::TokenLimitReached));
}

#[tokio::test(start_paused = true)]
async fn a_refused_call_shows_the_leaf_of_money_with_its_projected_value() {
    let model = priced(|_, _| ScriptedResponse::call("look", json!({})).usage(100, 10));
    let agent =
        under(&model, "[stop]\nlimit = \"cost >= $0.0001 or steps >= 50\"\n").tool(ok_tool("look"));
    let state = agent.build().unwrap().run("Go.").await.unwrap();
    assert_eq!((model.calls(), state.cost()), (0, Some(usd("0"))));
    let trip_record = state.execution.trip_record.as_ref().unwrap();
    let leaf = &trip_record.rules[0].tree.parts[0];
    assert!(leaf.text.contains("cost") && leaf.projected.is_some(), "{}", state.explain());
    assert_eq!(trip_record.rule.as_deref(), Some("limit"));
    assert_eq!(state.stop_reason(), Some(StopReason::CostLimitReached));
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_charges_more_is_settled_in_full_shown_as_overshoot_and_ends_the_run() {
    for shared in [true, false] {
        let model = priced(|_, _| {
            ScriptedResponse::call("look", json!({})).usage(100, 10).cost(usd("0.90"))
        });
        let limits = Limits { cost: Some(usd("0.50")), ..Limits::unlimited() };
        let budget = Budget::root(if shared { limits } else { Limits::unlimited() });
        let rules = if shared {
            "[stop]\nlimit = \"steps >= 50\"\n"
        } else {
            "[stop]\nlimit = \"cost >= $0.50\"\n"
        };
        let agent = under(&model, rules).tool(ok_tool("look")).budget(budget.clone());
        let state = agent.build().unwrap().run("Go.").await.unwrap();
        assert_eq!((model.calls(), state.cost()), (1, Some(usd("0.90"))), "{}", state.explain());
        assert_eq!(budget.settled().cost, usd("0.90"));
        assert_eq!(state.stop_reason(), Some(StopReason::CostLimitReached));
        if shared {
            assert_eq!(budget.overshoot().cost, usd("0.40"));
        }
        assert_eq!(budget.held(), Amounts::ZERO);
        assert_all_answered(&state);
    }
}

#[tokio::test(start_paused = true)]
async fn a_model_without_a_price_stops_under_a_money_rule_unless_the_policy_says_otherwise() {
    let run = async |more: &str| {
        let model = caller("look");
        let rules = format!("{more}\n[stop]\nlimit = \"cost >= $0.01 or steps >= 9\"\n");
        let agent = under(&model, &rules).tool(ok_tool("look")).max_output_tokens(100);
        let state = agent.build().unwrap().run("Go.").await.unwrap();
        (model.calls(), state)
    };
    let (calls, state) = run("").await;
    assert_eq!(calls, 0, "{}", state.explain());
    assert_eq!(state.stop_reason(), Some(StopReason::CostLimitReached));
    let (calls, state) = run("on_unpriced = \"ignore\"").await;
    assert_eq!(calls, 9);
    assert_eq!(state.stop_reason(), Some(StopReason::StepsLimitReached));
    // 100 tokens in and 10 out: $0.002 a call.
    let (calls, state) = run("on_unpriced = { input = \"$10/M\", output = \"$100/M\" }").await;
    assert!((1..=5).contains(&calls), "{calls}: {}", state.explain());
    assert_eq!(state.stop_reason(), Some(StopReason::CostLimitReached));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_thousand_runs_at_once_a_shared_budget_lets_exactly_its_hundred_calls_go() {
    let sent = Sent::default();
    let probe = answerer("Done.");
    let small = |model: &Arc<ScriptedModel>| agent(model, "steps >= 5").max_output_tokens(16);
    let rooms = Budget::root(Limits { tokens: Some(1_000_000), ..Limits::unlimited() });
    small(&probe).budget(rooms).observer(sent.clone()).build().unwrap().run("Go.").await.unwrap();
    let worst = sent.worst()[0];
    let of_worst = Limits { tokens: Some(100 * worst + 5), ..Limits::unlimited() };
    let of_attempts = Limits { attempts: Some(100), ..Limits::unlimited() };
    let of_steps = Limits { steps: Some(100), ..Limits::unlimited() };
    for limits in [of_worst, of_attempts, of_steps] {
        let reply =
            ScriptedResponse::text("Done.").usage(worst - 16, 16).delay(Duration::from_millis(2));
        let model = Arc::new(ScriptedModel::new("scripted").reply(reply).repeat_last());
        let budget = Budget::root(limits);
        let agent = small(&model).budget(budget.clone()).build().unwrap();
        let runs: Vec<_> = (0..1_000)
            .map(|_| {
                let agent = agent.clone();
                tokio::spawn(async move { agent.run("Go.").await.unwrap().status() })
            })
            .collect();
        let mut completed = 0;
        for run in runs {
            completed += usize::from(run.await.unwrap() == Status::Completed);
        }
        assert_eq!((model.calls(), completed), (100, 100), "{limits:?}");
        assert_eq!(budget.overshoot(), Amounts::ZERO);
        assert_eq!(budget.held(), Amounts::ZERO);
        assert_eq!((budget.settled().attempts, budget.settled().tokens), (100, 100 * worst));
    }
}

/// Runs under one guard; what the model was asked.
async fn guarded(stop: &str, reply: ScriptedResponse) -> (u64, AgentState) {
    let model = replies([reply]);
    let retry = RetryPolicy { max_attempts: 20, ..RetryPolicy::default() };
    let child = agent(&answerer("Helped."), "steps >= 5").build();
    let child = child.unwrap();
    let helper =
        AgentLoop::builder("helper").model(answerer("Helped.")).tools([child.as_tool("x")]);
    let helper = helper.stop_when(condition("steps >= 5")).build().unwrap().as_tool("Helps.");
    let agent = agent(&model, &format!("{stop} or steps >= 30")).retry(retry).tools([helper]);
    let state = agent.tool(ok_tool("look")).build().unwrap().run("Go.").await.unwrap();
    assert_all_answered(&state);
    (model.calls(), state)
}

#[tokio::test(start_paused = true)]
async fn every_guard_admits_exactly_its_number() {
    let look = || ScriptedResponse::call("look", json!({})).usage(90, 10);
    for n in 0u64..5 {
        let (calls, state) = guarded(&format!("steps >= {n}"), look()).await;
        assert_eq!((calls, state.step_count()), (n, n), "steps");
        let (calls, _) = guarded(&format!("attempts >= {n}"), look()).await;
        assert_eq!(calls, n, "attempts");
        let (_, state) = guarded(&format!("tool_calls >= {n}"), look()).await;
        let ran = outcomes(&state).iter().filter(|o| o.was_executed()).count() as u64;
        assert_eq!(ran, n, "tool_calls");
        let (calls, state) = guarded(&format!("subagents >= {n}"), {
            ScriptedResponse::call("helper", json!({ "task": "x" })).usage(90, 10)
        })
        .await;
        let began = outcomes(&state).iter().filter(|o| **o == ToolOutcome::Succeeded).count();
        assert_eq!(began as u64, n, "subagents: {calls} {}", state.explain());
        // The user's message, then a reply and a result in each step.
        let (calls, _) = guarded(&format!("messages >= {n}"), look()).await;
        assert_eq!(calls, n / 2, "messages >= {n}");
        let (calls, state) =
            guarded(&format!("active >= {n}s"), look().delay(Duration::from_secs(1))).await;
        assert_eq!((calls, state.execution.at_ms), (n, n * 1_000), "{}", state.explain());
        if n > 0 {
            let failing = ScriptedResponse::error(ModelErrorKind::Unavailable);
            let (calls, _) = guarded(&format!("max_retries({n})"), failing).await;
            assert_eq!(calls, n + 1, "retries");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_is_reached_exactly_is_no_overshoot_and_one_less_stops_before() {
    // The provider charges exactly $0.01 a call; input and output are bounded by far less.
    let dollars =
        || replies([ScriptedResponse::call("look", json!({})).usage(10, 10).cost(usd("0.01"))]);
    for (limit, calls) in [("0.03", 3), ("0.0300001", 4), ("0.0299999", 3), ("0.00", 0)] {
        let model = dollars();
        let rules = format!(
            "on_unpriced = \"ignore\"\n[stop]\nlimit = \"cost >= ${limit}\"\nmore = \"steps >= 9\"\n"
        );
        let agent = under(&model, &rules).tool(ok_tool("look"));
        agent.build().unwrap().run("Go.").await.unwrap();
        assert_eq!(model.calls(), calls, "{limit}");
    }
    for (limit, calls) in [(300u64, 3), (301, 4), (299, 3), (0, 0)] {
        let model = replies([ScriptedResponse::call("look", json!({})).usage(90, 10)]);
        let stop = format!("input_tokens + output_tokens >= {limit}");
        let stop = stop.replace("input_tokens + output_tokens", "tokens");
        // Small bounds: a worst case that fits lets every call go that the settled amount lets go.
        let agent = agent(&model, &format!("{stop} or steps >= 9")).tool(ok_tool("look"));
        let state = agent.max_output_tokens(16).build().unwrap().run("Go.").await.unwrap();
        assert!(model.calls() <= calls, "{limit}: {}", state.explain());
        assert!(state.usage().total() <= limit);
    }
}

#[tokio::test(start_paused = true)]
async fn a_depth_limit_refuses_the_deeper_agent_with_a_typed_result() {
    for (limit, refused) in [(0u64, 1), (1, 1), (2, 0)] {
        let model = Arc::new(ScriptedModel::from_fn("scripted", |request, _| {
            match (request.tools.first(), replies_so_far(request)) {
                (Some(tool), 0) => {
                    ScriptedResponse::call(tool.name.clone(), json!({ "task": "go" }))
                }
                _ => ScriptedResponse::text("Done."),
            }
        }));
        let leaf =
            AgentLoop::builder("leaf").model(model.clone()).stop_when(condition("steps >= 9"));
        let leaf = leaf.build().unwrap().as_tool("Deep.");
        let middle = AgentLoop::builder("middle").model(model.clone()).tools([leaf]);
        let middle = middle.stop_when(condition("steps >= 9")).build().unwrap().as_tool("Deeper.");
        let stop = condition(&format!("depth >= {limit} or steps >= 30"));
        let root = AgentLoop::builder("root").model(model.clone()).tools([middle]).stop_when(stop);
        let state = root.build().unwrap().run("Go.").await.unwrap();
        // Root and each agent that began take two steps, except for the leaf, which has nothing to call.
        let expected = match limit {
            0 => 2,
            1 => 4,
            _ => 5,
        };
        assert_eq!(model.calls(), expected, "{limit} {refused}: {}", state.explain());
        assert_eq!(state.status(), Status::Completed, "a depth limit stops no run");
        assert_all_answered(&state);
    }
}

#[tokio::test(start_paused = true)]
async fn a_child_can_only_narrow() {
    for (parents, childs, of_child) in [(10u64, 2u64, 2u64), (4, 50, 3), (4, 3, 3)] {
        let child_model = caller("look");
        let child = AgentLoop::builder("helper").model(child_model.clone()).tool(ok_tool("look"));
        let child = child.stop_when(condition(&format!("steps >= {childs}"))).build().unwrap();
        let model = replies([
            ScriptedResponse::call("helper", json!({ "task": "x" })),
            ScriptedResponse::text("Done."),
        ]);
        let parent = agent(&model, &format!("steps >= {parents}")).tools([child.as_tool("Helps.")]);
        let state = parent.build().unwrap().run("Go.").await.unwrap();
        assert_eq!(child_model.calls(), of_child, "{parents} {childs}: {}", state.explain());
        assert!(state.step_count() <= parents);
        let is_done = state.status() == Status::Completed;
        assert_eq!(is_done, parents > 1 + of_child, "{}", state.explain());
        assert_all_answered(&state);
    }
}

#[tokio::test]
async fn a_reported_cost_below_that_of_the_price_table_does_not_count() {
    // The model has a price: 1,000 tokens of input.
    let reported = |cost: &'static str| {
        priced(move |_, _| ScriptedResponse::text("Done.").usage(1_000_000, 10).cost(usd(cost)))
    };
    let cost_of = async |cost: &'static str| {
        let agent = agent(&reported(cost), "steps >= 2").build().unwrap();
        agent.run("Go.").await.unwrap().cost().unwrap()
    };
    let by_table = cost_of("0").await;
    assert!(by_table > usd("0.01"), "{by_table}");
    assert_eq!(cost_of("0.000001").await, by_table);
    assert_eq!(cost_of("900").await, usd("900"));
}

#[tokio::test]
async fn max_usd_prices_calls_without_a_price_as_the_model_that_it_names() {
    let stop = |named: &str| format!("max_usd(0.01, model=\"{named}\") or steps >= 9");
    // A thousand tokens of input, at $2.50 a million, and a hundred of output at $10.
    let reply = ScriptedResponse::call("look", json!({})).usage(1_000, 100);
    let model = Arc::new(ScriptedModel::new("of-my-own").reply(reply).repeat_last());
    let state = agent(&model, &stop("gpt-4o")).tool(ok_tool("look")).max_output_tokens(100);
    let state = state.build().unwrap().run("Go.").await.unwrap();
    assert_eq!(state.stop_reason(), Some(StopReason::CostLimitReached), "{}", state.explain());
    assert_eq!((state.step_count(), state.cost()), (3, Some(usd("0.0105"))));
    let error = agent(&model, &stop("no-such-model")).build().unwrap_err().to_string();
    assert!(error.contains("no price for model `no-such-model`"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_policy_says_the_least_output_that_a_call_is_sent_for() {
    // The first call costs $0.40, and its output is $0.10 of input of the second: $0.10 is left for 10,000 tokens of output.
    let calls_under = async |accounting: &str| {
        let model = priced(|request, count| {
            let cap = request.max_output_tokens.unwrap();
            let output = if count == 0 { 40_000 } else { cap };
            ScriptedResponse::call("work", json!({})).usage(100, output.min(cap))
        });
        let text = format!("{accounting}\n[stop]\nwhen = \"cost >= $0.60\"\n");
        let agent = under(&model, &text).max_output_tokens(40_000).tool(ok_tool("work"));
        let state = agent.build().unwrap().run("Go.").await.unwrap();
        assert_eq!(state.stop_reason(), Some(StopReason::CostLimitReached), "{}", state.explain());
        assert!(state.cost().unwrap() <= usd("0.60"), "{}", state.explain());
        model.requests().iter().map(|it| it.max_output_tokens.unwrap()).collect::<Vec<u64>>()
    };
    let lowered = calls_under("").await;
    assert!(lowered[1..].iter().all(|cap| (16..10_000).contains(cap)), "{lowered:?}");
    assert!(lowered.len() > 1, "{lowered:?}");
    let refused = calls_under("[accounting]\nmin_output_tokens = 20000\n").await;
    assert_eq!(refused, [40_000]);
}
