//! What a call may spend and what it did spend, where provider, price or reply are not as expected.

use std::sync::Arc;
use std::time::Duration;

use endstop::agent::AgentLoop;
use endstop::core::signal::StopReason;
use endstop::ledger::{Amounts, Budget, Limits};
use endstop::message::Message;
use endstop::model::{Reply, ScriptedModel};
use endstop::tool::{FunctionTool, ToolError};
use serde_json::json;

use crate::kit::*;
use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_provider_that_counts_more_than_the_bytes_is_believed() {
    // A template that is not seen: 4,000 tokens for a few bytes.
    let model = replies([Reply::call("look", json!({})).usage(4_000, 10)]);
    let builder = agent(&model, "tokens >= 5k or steps >= 9").tool(ok_tool("look"));
    let state = builder.build().unwrap().run("Go.").await.unwrap();
    assert_eq!((model.calls(), state.usage().total()), (1, 4_010), "{}", state.explain());
    assert_eq!(state.stop_reason(), Some(StopReason::TokenLimitReached));
    // Also after a save, where a hook sends other messages, and where another model answers.
    let short = |context: &mut endstop::agent::HookContext<'_>| {
        context.send_instead(vec![Message::user("Go.")]);
        Ok(())
    };
    let model = replies([Reply::call("look", json!({})).usage(4_000, 10)]);
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
        Reply::call("look", json!({})).usage(10, 5),
        Reply::text("I cannot do that.").usage(10, 5),
    ]);
    // A token for each byte.
    let other = replies([Reply::text("Here it is.").usage(3_000, 5)]);
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
                return Reply::text("Done.").usage(10, output).delay(Duration::from_secs(1));
            } else {
                Reply::text("All of you.").usage(100, 10)
            };
            let call = |reply: Reply, _| reply.tool_call("helper", json!({ "task": "x" }));
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
