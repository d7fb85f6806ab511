//! What a call may spend and what it did spend, where provider, price or reply are not as expected.

use endstop::core::signal::StopReason;
use endstop::message::Message;
use endstop::model::Reply;
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
