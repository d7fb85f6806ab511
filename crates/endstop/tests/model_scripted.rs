//! The scripted model: what it says, how it ends, what it counts.
#![expect(clippy::panic, reason = "helpers of tests fail as tests do")]

use std::sync::Arc;
use std::time::Duration;

use endstop::core::units::{Money, TokenUsage};
use endstop::message::{Message, ToolCall};
use endstop::model::{
    Model, ModelEnd, ModelError, ModelErrorKind, ModelEvent, ModelRequest, ScriptedModel,
    ScriptedResponse, ToolChoice,
};
use futures_util::StreamExt;
use serde_json::json;
use tokio::time::Instant;

fn request(messages: &[Message]) -> ModelRequest<'_> {
    ModelRequest {
        system: "be brief",
        messages,
        tools: &[],
        tool_choice: ToolChoice::Auto,
        max_output_tokens: Some(64),
    }
}

async fn ask(model: &ScriptedModel, messages: &[Message]) -> Vec<Result<ModelEvent, ModelError>> {
    model.stream(request(messages)).collect().await
}

fn end(events: &[Result<ModelEvent, ModelError>]) -> ModelEnd {
    match events.last() {
        Some(Ok(ModelEvent::End(end))) => (**end).clone(),
        other => panic!("no end but {other:?}"),
    }
}

fn text(events: &[Result<ModelEvent, ModelError>]) -> Vec<&str> {
    let texts = events.iter().filter_map(|event| match event {
        Ok(ModelEvent::Text(text)) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

#[tokio::test(start_paused = true)]
async fn replies_come_in_order_and_end_in_an_error() {
    let model = ScriptedModel::new("m")
        .reply(ScriptedResponse::text("one").usage(10, 2))
        .reply(
            ScriptedResponse::call("add", json!({ "a": 1 }))
                .tool_call("add", json!({ "a": 2 }))
                .cost(Money::from_picos(7))
                .answered_by("m-1"),
        )
        .reply(
            ScriptedResponse::text("three").finish("length").opaque(json!({ "signature": "x" })),
        );
    let first = ask(&model, &[]).await;
    assert_eq!(text(&first), ["one"]);
    let used = TokenUsage { input: 10, output: 2, ..<_>::default() };
    assert_eq!(end(&first).usage, Some(used.into()));
    assert_eq!(end(&first).finish.as_deref(), Some("stop"));

    let second = ask(&model, &[]).await;
    let call = |id: &str, arguments: &str| ToolCall {
        id: id.into(),
        tool: "add".into(),
        arguments: arguments.into(),
    };
    assert_eq!(second[0], Ok(ModelEvent::ToolCall(call("call_1", "{\"a\":1}"))));
    assert_eq!(second[1], Ok(ModelEvent::ToolCall(call("call_2", "{\"a\":2}"))));
    assert_eq!(end(&second).finish.as_deref(), Some("tool_calls"));
    assert_eq!(end(&second).usage.and_then(|usage| usage.billed), Some(Money::from_picos(7)));
    assert_eq!(end(&second).model.as_deref(), Some("m-1"));

    let third = ask(&model, &[]).await;
    assert_eq!(end(&third).finish.as_deref(), Some("length"));
    assert_eq!(end(&third).opaque, [json!({ "signature": "x" })]);

    let beyond = ask(&model, &[]).await;
    let [Err(error)] = &beyond[..] else { panic!("{beyond:?}") };
    assert_eq!(error.kind, ModelErrorKind::Rejected);
    assert_eq!(error.message, "the script has 3 responses and no more");
    assert_eq!((model.calls(), model.finished(), model.failed()), (4, 3, 1));
    assert_eq!(model.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_last_reply_repeats_and_a_list_can_begin_later() {
    let model = ScriptedModel::new("m")
        .reply(ScriptedResponse::text("a"))
        .reply(ScriptedResponse::text("b"))
        .repeat_last()
        .starting_at(1);
    for _ in 0..3 {
        assert_eq!(text(&ask(&model, &[]).await), ["b"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_function_answers_what_it_is_asked() {
    let model = ScriptedModel::from_fn("m", |request, index| {
        ScriptedResponse::text(format!(
            "{index}: {}",
            request.messages.last().map_or("", Message::text)
        ))
    })
    .remember(1);
    ask(&model, &[Message::user("x")]).await;
    assert_eq!(text(&ask(&model, &[Message::user("y")]).await), ["1: y"]);
    let seen = model.requests();
    assert_eq!(seen.len(), 1, "older requests are dropped");
    assert_eq!(seen[0].messages, [Message::user("y")]);
    assert_eq!((seen[0].system.as_str(), seen[0].max_output_tokens), ("be brief", Some(64)));
}

#[tokio::test(start_paused = true)]
async fn without_a_usage_the_bytes_are_counted() {
    let model = ScriptedModel::new("m")
        .reply(ScriptedResponse::text("12345678"))
        .reply(ScriptedResponse::default())
        .reply(ScriptedResponse::text("silent").without_usage().without_finish());
    let messages = [Message::user("1234")];
    let used =
        |events: &[_]| end(events).usage.map(|usage| (usage.tokens.input, usage.tokens.output));
    assert_eq!(used(&ask(&model, &messages).await), Some((3, 2)), "8 + 4 bytes asked, 8 answered");
    assert_eq!(used(&ask(&model, &[]).await), Some((2, 1)), "never less than one");
    let silent = ask(&model, &[]).await;
    assert_eq!((used(&silent), end(&silent).finish), (None, None));
}

#[tokio::test(start_paused = true)]
async fn texts_are_cut_between_characters() {
    let model = ScriptedModel::new("m")
        .reply(ScriptedResponse::text("aé漢b").reasoning("hmm").pieces_of(2))
        .reply(ScriptedResponse::text("漢字").pieces_of(1));
    let events = ask(&model, &[]).await;
    assert_eq!(events[0], Ok(ModelEvent::Reasoning("hm".into())));
    assert_eq!(text(&events), ["a", "é", "漢", "b"]);
    assert_eq!(text(&ask(&model, &[]).await), ["漢", "字"]);
}

#[tokio::test(start_paused = true)]
async fn delays_are_those_of_a_paused_clock() {
    let (delay, piece) = (Duration::from_secs(30), Duration::from_secs(1));
    let model = ScriptedModel::new("m")
        .reply(ScriptedResponse::text("abcd").pieces_of(2).delay(delay).piece_delay(piece));
    let begun = Instant::now();
    let mut stream = model.stream(request(&[]));
    assert_eq!(model.calls(), 0, "nothing is sent before the first poll");
    stream.next().await;
    assert_eq!(begun.elapsed(), delay);
    assert_eq!((model.calls(), model.in_flight()), (1, 1));
    stream.next().await;
    stream.next().await;
    assert_eq!(begun.elapsed(), delay + piece * 2, "the ending waits too");
    assert_eq!(stream.next().await, None);
    assert_eq!(model.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_stalled_call_ends_only_when_it_is_dropped() {
    let model =
        Arc::new(ScriptedModel::new("m").reply(ScriptedResponse::text("so").stall()).repeat_last());
    let asked = Arc::clone(&model);
    let task = tokio::spawn(async move { ask(&asked, &[]).await });
    let waited = tokio::time::timeout(Duration::from_secs(3_600), ask(&model, &[])).await;
    assert!(waited.is_err());
    assert_eq!((model.in_flight(), model.dropped(), model.most_in_flight()), (1, 1, 2));
    task.abort();
    assert!(task.await.is_err());
    assert_eq!((model.in_flight(), model.dropped(), model.finished()), (0, 2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_script_fails_and_cuts() {
    let wait = Some(Duration::from_secs(3));
    let model = ScriptedModel::new("m")
        .reply(ScriptedResponse::text("half").cut())
        .reply(ScriptedResponse::text("half").fail(ModelErrorKind::RateLimited, wait));
    let cut = ask(&model, &[]).await;
    assert_eq!(cut, [Ok(ModelEvent::Text("half".into()))]);
    let failed = ask(&model, &[]).await;
    let [Ok(_), Err(error)] = &failed[..] else { panic!("{failed:?}") };
    assert_eq!((error.kind, error.retry_after), (ModelErrorKind::RateLimited, wait));
    assert_eq!((model.failed(), model.dropped(), model.in_flight()), (2, 0, 0));
}

#[tokio::test]
async fn a_reply_may_report_its_input_first_and_a_model_may_be_bounded() {
    let early = TokenUsage { input: 10, ..<_>::default() };
    let model = ScriptedModel::new("m")
        .output_bound(8)
        .reply(ScriptedResponse::text("one").reports_early(early).usage(10, 2));
    assert_eq!(model.max_output_tokens(), Some(8));
    let events = ask(&model, &[]).await;
    let Some(Ok(ModelEvent::Usage(reported))) = events.first() else { panic!("{events:?}") };
    assert_eq!((&**reported, text(&events)), (&early.into(), vec!["one"]));
}
