//! The loop against a real HTTP server, in real time.

use std::time::{Duration, Instant};

use endstop::agent::{AgentBuilder, AgentLoop, RetryPolicy};
use endstop::cancel::{CancelToken, Urgency};
use endstop::core::run::Status;
use endstop::core::signal::{StopReason, StopSignal};
use endstop::ledger::{Amounts, Budget, Limits};
use endstop::model::ProviderModel;
use serde_json::{Value, json};

use crate::support::*;

#[expect(dead_code, reason = "the tests of models use all of it")]
#[path = "../support/server.rs"]
mod server;
#[expect(dead_code, reason = "the tests of models use all of it")]
#[path = "../support/server_shapes.rs"]
mod server_shapes;

use server::{Answer, Server};
use server_shapes::{chat, messages};

fn client(server: &Server, provider: &str) -> ProviderModel {
    let model = ProviderModel::builder("a-model").provider(provider).base_url(server.url("/v1"));
    model.key("sk-canary").environment(|_| None).build().unwrap()
}

fn asking(server: &Server, provider: &str, stop: &str) -> AgentBuilder {
    let quick = RetryPolicy { first_wait: Duration::from_millis(10), ..RetryPolicy::default() };
    let agent = AgentLoop::builder("tested").model(client(server, provider)).tool(ok_tool("look"));
    agent.stop_when(condition(stop)).retry(quick)
}

/// An answer in words: 100 tokens in, 20 out.
fn words(provider: &str) -> Vec<String> {
    match provider {
        "anthropic" => [
            vec![messages::start(json!({ "input_tokens": 100, "output_tokens": 1 }))],
            messages::text(0, &["All ", "done."]),
            messages::end("end_turn", json!({ "output_tokens": 20 })),
        ]
        .concat(),
        _ => chat::answer(&["All ", "done."]),
    }
}

/// An answer that calls a tool: 100 tokens in, 20 out.
fn call(provider: &str) -> Vec<String> {
    match provider {
        "anthropic" => [
            vec![messages::start(json!({ "input_tokens": 100, "output_tokens": 1 }))],
            messages::tool_use(0, "a", "look", &["{", "}"]),
            messages::end("tool_use", json!({ "output_tokens": 20 })),
        ]
        .concat(),
        _ => vec![
            chat::call(0, Some("a"), Some("look"), "{}"),
            chat::finish("tool_calls"),
            chat::usage(chat::some_usage()),
            chat::DONE.to_owned(),
        ],
    }
}

const SHAPES: [&str; 2] = ["openai", "anthropic"];

#[tokio::test]
async fn a_limit_of_three_calls_over_a_tool_loop_makes_the_server_count_three() {
    for shape in SHAPES {
        let server = Server::start(vec![Answer::events(call(shape))]).await;
        let budget = Budget::root(Limits::unlimited());
        let agent = asking(&server, shape, "steps >= 3").budget(budget.clone()).build().unwrap();
        let state = agent.run("Go.").await.unwrap();
        assert_eq!(
            (server.seen().len(), state.step_count()),
            (3, 3),
            "{shape}: {}",
            state.explain()
        );
        assert_eq!(state.usage().total(), 360, "{shape}");
        assert_eq!((budget.settled().attempts, budget.settled().tokens), (3, 360));
        assert_eq!(outcomes(&state).len(), 3);
        assert_all_answered(&state);
    }
}

#[tokio::test]
async fn a_tool_is_called_and_its_result_goes_back_to_the_provider() {
    for shape in SHAPES {
        let answers = [call(shape), words(shape)].map(Answer::events);
        let server = Server::start(answers.to_vec()).await;
        let state = asking(&server, shape, "steps >= 9").build().unwrap().run("Go.").await.unwrap();
        assert_eq!(state.final_response(), Some("All done."), "{shape}: {}", state.explain());
        assert_eq!((state.usage().total(), state.execution.is_estimate), (240, false));
        let told = server.last_body()["messages"].to_string();
        assert!(told.contains("\"ok\"") && told.contains("\"a\""), "{shape}: {told}");
    }
}

#[tokio::test]
async fn a_stream_without_usage_is_counted_here_and_marked() {
    let frames =
        vec![chat::piece("All "), chat::piece("done."), chat::finish("stop"), chat::DONE.into()];
    let server = Server::start(vec![Answer::events(frames)]).await;
    let state = asking(&server, "openai", "steps >= 9").build().unwrap().run("Go.").await.unwrap();
    assert_eq!(state.final_response(), Some("All done."), "{}", state.explain());
    assert!(state.execution.is_estimate && state.steps()[0].is_estimate);
    assert!(state.usage().input > 0 && state.usage().output > 0, "{:?}", state.usage());
}

#[tokio::test]
async fn a_cut_stream_is_charged_and_asked_again() {
    for shape in SHAPES {
        let cut = Answer::events(words(shape)[..2].to_vec()).reset();
        let server = Server::start(vec![cut, Answer::events(words(shape))]).await;
        let state = asking(&server, shape, "steps >= 9").build().unwrap().run("Go.").await.unwrap();
        assert_eq!(state.final_response(), Some("All done."), "{shape}: {}", state.explain());
        assert_eq!((server.seen().len(), state.steps()[0].attempts, state.step_count()), (2, 2, 1));
        assert!(state.usage().total() > 120, "{shape}: {:?}", state.usage());
    }
}

/// The provider reports the input and one token of output before it makes the rest.
#[tokio::test]
async fn a_preliminary_report_of_a_stream_that_fails_confirms_no_output() {
    let begun = vec![messages::start(json!({ "input_tokens": 100, "output_tokens": 1 }))];
    let said = [begun.clone(), messages::text(0, &["words ".repeat(100).as_str()])].concat();
    let failed = [said.clone(), vec![messages::error("overloaded_error", "busy")]].concat();
    for cut in [
        Answer::events(begun.clone()).reset(),
        Answer::events(said).reset(),
        Answer::events(failed),
        // Whole, but the report of its output never comes.
        Answer::events(
            [begun, messages::text(0, &["All done."]), messages::end("end_turn", json!({}))]
                .concat(),
        ),
    ] {
        let server = Server::start(vec![cut.clone()]).await;
        let once = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
        let agent = asking(&server, "anthropic", "steps >= 9 or tokens >= 20k");
        let agent = agent.retry(once).max_output_tokens(300).build().unwrap();
        let state = agent.run("Go.").await.unwrap();
        // Whatever came in how little time: the report of the input is believed, that of the output is not.
        let usage = state.usage();
        assert_eq!(usage.total_input(), 100, "{usage:?} {cut:?}");
        assert!(usage.output > 9, "{usage:?} {cut:?}");
        assert!(state.steps()[0].is_estimate, "{cut:?}");
    }
}

/// The run ends in the middle of an answer whose input was reported.
#[tokio::test]
async fn the_reported_input_of_an_aborted_answer_is_confirmed() {
    let begun = vec![messages::start(json!({ "input_tokens": 100, "output_tokens": 1 }))];
    let silent = Answer::events([begun, messages::text(0, &["All STOP "])].concat()).silent();
    let server = Server::start(vec![silent]).await;
    let agent = asking(&server, "anthropic", "steps >= 9 or tokens >= 20k or said(\"STOP\")");
    let state = agent.max_output_tokens(300).build().unwrap().run("Go.").await.unwrap();
    assert_eq!(state.stop_reason(), Some(StopReason::ConditionMet), "{}", state.explain());
    assert_eq!(state.usage().total_input(), 100, "{:?}", state.usage());
}

#[tokio::test]
async fn too_many_requests_and_server_errors_are_asked_again_as_the_server_says() {
    for shape in SHAPES {
        let error = |status| Answer::json(status, &json!({ "error": { "message": "not now" } }));
        let answers =
            vec![error(429).header("retry-after", "1"), error(500), Answer::events(words(shape))];
        let (server, begun) = (Server::start(answers).await, Instant::now());
        let state = asking(&server, shape, "steps >= 9").build().unwrap().run("Go.").await.unwrap();
        assert_eq!(state.final_response(), Some("All done."), "{shape}: {}", state.explain());
        assert_eq!((server.seen().len(), state.steps()[0].attempts), (3, 3));
        assert!(begun.elapsed() >= Duration::from_secs(1));
        // The server is no provider's own API, so what its 500 cost is unknown and charged; its 429 is free.
        let (usage, step) = (state.usage(), &state.steps()[0]);
        assert!(usage.total() > 120 && usage.output == 20, "{shape}: {usage:?}");
        assert_eq!((step.is_estimate, step.errors.len()), (true, 2), "{shape}");
        // A request that no retry can fix is sent once.
        let server = Server::start(vec![error(401)]).await;
        let state = asking(&server, shape, "steps >= 9").build().unwrap().run("Go.").await.unwrap();
        assert_eq!((server.seen().len(), state.status()), (1, Status::Failed));
        assert!(!state.to_json().contains("sk-canary"));
    }
}

#[tokio::test]
async fn a_hard_cancellation_closes_the_connection_and_charges_what_came() {
    for shape in SHAPES {
        let silent = Answer::events(words(shape)[..3].to_vec()).silent();
        let server = Server::start(vec![silent]).await;
        let (token, budget) = (CancelToken::new(), Budget::root(Limits::unlimited()));
        let agent = asking(&server, shape, "steps >= 9").cancel_token(token.clone());
        let agent = agent.budget(budget.clone()).build().unwrap();
        let run = tokio::spawn(async move { agent.run("Go.").await.unwrap() });
        let reached = async {
            while server.seen().is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            server::all_that_is_on_its_way().await;
        };
        reached.await;
        assert_eq!(server.left_so_far(), 0, "the connection is open");
        let signal = StopSignal::new(StopReason::UserRequested).with_message("enough");
        token.cancel(signal, Urgency::Now);
        assert_eq!(server.left(1).await, [3], "{shape}");
        let state = run.await.unwrap();
        assert_eq!(state.stop_reason(), Some(StopReason::UserRequested), "{}", state.explain());
        assert_eq!((server.seen().len(), state.step_count()), (1, 1));
        assert!(state.usage().output > 0 && state.execution.is_estimate, "{:?}", state.usage());
        assert_eq!(budget.settled().tokens, state.usage().total());
        assert_eq!(budget.held(), Amounts::ZERO);
        assert_eq!(state.current_response().map(|text| "All done.".starts_with(text)), Some(true));
    }
}

#[tokio::test]
async fn a_limit_in_time_closes_the_connection_of_a_provider_that_says_nothing() {
    let check = async |shape| {
        let silent = Answer::events(words(shape)[..1].to_vec()).silent();
        let server = Server::start(vec![silent]).await;
        // Long enough for the request to be there, however busy the machine is.
        let agent = asking(&server, shape, "active >= 2s").build().unwrap();
        let state =
            tokio::time::timeout(server::PATIENCE, agent.run("Go.")).await.unwrap().unwrap();
        assert_eq!(state.stop_reason(), Some(StopReason::TimeLimitReached), "{}", state.explain());
        assert_eq!(server.left(1).await.len(), 1);
        assert_eq!(server.seen().len(), 1);
    };
    futures_util::future::join_all(SHAPES.into_iter().map(check)).await;
}

#[tokio::test]
async fn the_lowered_cap_is_what_the_provider_gets() {
    for shape in SHAPES {
        let server = Server::start(vec![Answer::events(words(shape))]).await;
        let agent =
            asking(&server, shape, "output_tokens >= 50 or steps >= 9").max_output_tokens(900);
        agent.build().unwrap().run("Go.").await.unwrap();
        let body = server.last_body();
        let caps = [&body["max_tokens"], &body["max_completion_tokens"]];
        assert!(caps.contains(&&Value::from(50)), "{shape}: {body}");
    }
}
