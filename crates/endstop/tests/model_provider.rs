//! Models of providers against a real HTTP server: shapes, usage in every position, failures, cancellation.
#![cfg(feature = "models")]
#![expect(clippy::expect_used, clippy::panic, reason = "helpers of tests fail as tests do")]

#[path = "support/server.rs"]
mod server;
#[path = "support/server_shapes.rs"]
mod server_shapes;
#[path = "support/tls_relay.rs"]
mod tls_relay;

use std::time::Duration;

use endstop::core::units::{Money, TokenUsage};
use endstop::message::{Message, ToolCall};
use endstop::model::{
    Model, ModelEnd, ModelError, ModelErrorKind, ModelEvent, ModelRequest, ProviderModel,
    ReportedUsage, Timeouts, ToolChoice,
};
use endstop::tool::ToolSpec;
use futures_util::StreamExt;
use serde_json::{Value, json};
use server::{Answer, Server};
use server_shapes::{chat, gemini, messages, responses};
use tls_relay::TlsRelay;

const NO_VARIABLES: fn(&str) -> Option<String> = |_| None;

fn model(server: &Server, provider: &str) -> ProviderModel {
    model_with(server, provider, Timeouts::default())
}

fn model_with(server: &Server, provider: &str, timeouts: Timeouts) -> ProviderModel {
    let name = if provider == "openai-responses" { "gpt-5-test" } else { "a-model" };
    let built = ProviderModel::builder(name)
        .provider(provider)
        .base_url(server.url("/v1"))
        .key("sk-canary")
        .environment(NO_VARIABLES)
        .timeouts(timeouts)
        .build();
    built.expect("a model")
}

fn request<'a>(messages: &'a [Message], tools: &'a [ToolSpec]) -> ModelRequest<'a> {
    ModelRequest {
        system: "be brief",
        messages,
        tools,
        tool_choice: ToolChoice::Auto,
        max_output_tokens: Some(256),
    }
}

#[derive(Debug, Default)]
struct Heard {
    text: String,
    reasoning: String,
    calls: Vec<ToolCall>,
    /// The last report before the end.
    reported: Option<ReportedUsage>,
    end: Option<ModelEnd>,
    error: Option<ModelError>,
}

async fn hear(model: &ProviderModel, messages: &[Message], tools: &[ToolSpec]) -> Heard {
    let mut heard = Heard::default();
    let mut stream = model.stream(request(messages, tools));
    while let Some(event) = stream.next().await {
        assert!(heard.end.is_none() && heard.error.is_none(), "nothing follows the end");
        match event {
            Ok(ModelEvent::Text(text)) => heard.text += &text,
            Ok(ModelEvent::Reasoning(text)) => heard.reasoning += &text,
            Ok(ModelEvent::ToolCall(call)) => heard.calls.push(call),
            Ok(ModelEvent::Usage(reported)) => heard.reported = Some(*reported),
            Ok(ModelEvent::End(end)) => heard.end = Some(*end),
            Ok(other) => panic!("{other:?}"),
            Err(error) => heard.error = Some(error),
        }
    }
    heard
}

async fn ask(provider: &str, answer: Answer) -> Heard {
    let server = Server::start(vec![answer]).await;
    hear(&model(&server, provider), &[Message::user("hello")], &[]).await
}

fn end(heard: Heard) -> ModelEnd {
    match heard.end {
        Some(end) => end,
        None => panic!("{heard:?}"),
    }
}

/// The tokens of a report.
fn tokens(end: &ModelEnd) -> Option<TokenUsage> {
    end.usage.as_ref().map(|usage| usage.tokens)
}

/// The values of [`chat::some_usage`].
const USED: TokenUsage =
    TokenUsage { input: 36, cache_read: 64, cache_write: 0, cache_write_1h: 0, output: 20 };

fn gemini_answer() -> Vec<String> {
    vec![
        gemini::frame(json!([{ "text": "so", "thought": true }]), Value::Null, Value::Null),
        gemini::frame(json!([{ "text": "Hé" }]), Value::Null, gemini::some_usage()),
        gemini::frame(json!([{ "text": "漢o" }]), json!("STOP"), gemini::some_usage()),
    ]
}

fn responses_answer() -> Vec<String> {
    let summary = json!({ "output_index": 0, "delta": "so" });
    vec![
        responses::event("response.reasoning_summary_text.delta", summary),
        responses::piece("Hé"),
        responses::piece("漢o"),
        responses::end("response.completed", "completed", json!({})),
    ]
}

fn messages_answer() -> Vec<String> {
    let input = json!({
        "input_tokens": 30, "cache_read_input_tokens": 64, "cache_creation_input_tokens": 6,
        "cache_creation": { "ephemeral_5m_input_tokens": 4, "ephemeral_1h_input_tokens": 2 },
        "output_tokens": 1,
    });
    let thinking = [
        json!({ "type": "thinking_delta", "thinking": "so" }),
        json!({ "type": "signature_delta", "signature": "sig-1" }),
    ];
    let mut frames = vec![messages::start(input), messages::ping()];
    frames.extend(messages::block(0, json!({ "type": "thinking", "thinking": "" }), &thinking));
    frames.extend(messages::block(1, json!({ "type": "redacted_thinking", "data": "zz" }), &[]));
    frames.extend(messages::text(2, &["Hé", "漢o"]));
    frames.extend(messages::end("end_turn", json!({ "output_tokens": 20 })));
    frames
}

fn chat_answer() -> Vec<String> {
    let reasoning = chat::frame(json!({ "reasoning_content": "so" }), Value::Null, None);
    let mut frames = vec![reasoning];
    frames.extend(chat::answer(&["Hé", "漢o"]));
    frames
}

fn ollama_answer() -> Vec<String> {
    let line = |key: &str, text: &str| {
        json!({ "model": "qwen-test-1", "message": { key: text }, "done": false }).to_string()
    };
    let end = json!({
        "model": "qwen-test-1", "message": { "content": "" }, "done": true, "done_reason": "stop",
        "prompt_eval_count": 100, "eval_count": 20,
    });
    vec![line("thinking", "so"), line("content", "Hé"), line("content", "漢o"), end.to_string()]
}

#[tokio::test]
async fn every_protocol_gives_words_usage_finish_and_model() {
    let anthropic =
        TokenUsage { input: 30, cache_read: 64, cache_write: 4, cache_write_1h: 2, output: 20 };
    let local = TokenUsage { input: 100, output: 20, ..TokenUsage::default() };
    let table = [
        ("openai", chat_answer(), USED, Some(5), "stop", "gpt-test-1"),
        ("openrouter", chat_answer(), USED, Some(5), "stop", "gpt-test-1"),
        ("openai-responses", responses_answer(), USED, Some(5), "completed", "gpt-test-2"),
        ("anthropic", messages_answer(), anthropic, None, "end_turn", "claude-test-1"),
        ("google", gemini_answer(), USED, Some(5), "STOP", "gemini-test-1"),
        ("ollama", ollama_answer(), local, None, "stop", "qwen-test-1"),
    ];
    for (provider, frames, usage, reasoning, finish, answered) in table {
        let whole = Answer::events(&frames);
        let mut answers = vec![whole.clone(), whole.clone().byte_by_byte()];
        if provider != "ollama" {
            answers.push(whole.crlf());
        }
        for answer in answers {
            let heard = ask(provider, answer).await;
            assert_eq!(heard.text, "Hé漢o", "{provider}");
            assert_eq!(heard.reasoning, "so", "{provider}: reasoning is no text");
            let end = end(heard);
            assert_eq!(tokens(&end), Some(usage), "{provider}");
            let reported = end.usage.expect("a report");
            assert_eq!(reported.reasoning, reasoning, "{provider}");
            assert_eq!(end.finish.as_deref(), Some(finish), "{provider}");
            assert_eq!(end.model.as_deref(), Some(answered), "{provider}");
            assert_eq!(reported.billed, None, "{provider}");
        }
    }
}

#[tokio::test]
async fn usage_is_found_wherever_it_stands_and_is_unknown_where_it_is_not() {
    let words = || chat::piece("Hello");
    let stop = || chat::finish("stop");
    let done = || chat::DONE.to_owned();
    let with = |usage| chat::frame(json!({ "content": "Hello" }), Value::Null, Some(usage));
    let early = json!({ "prompt_tokens": 100, "completion_tokens": 0 });
    let table = [
        ("absent", vec![words(), stop(), done()], None),
        ("null", vec![with(Value::Null), stop(), done()], None),
        ("in the first chunk", vec![with(chat::some_usage()), stop(), done()], Some(USED)),
        (
            "in a chunk before the last",
            vec![words(), chat::frame(json!({}), json!("stop"), Some(chat::some_usage())), done()],
            Some(USED),
        ),
        (
            "after the finish",
            vec![words(), stop(), chat::usage(chat::some_usage()), done()],
            Some(USED),
        ),
        (
            "twice, the same",
            vec![
                words(),
                chat::frame(json!({}), json!("stop"), Some(chat::some_usage())),
                chat::usage(chat::some_usage()),
                done(),
            ],
            Some(USED),
        ),
        (
            "twice, growing",
            vec![with(early), stop(), chat::usage(chat::some_usage()), done()],
            Some(USED),
        ),
        (
            "real, then null",
            vec![with(chat::some_usage()), stop(), chat::usage(Value::Null), done()],
            Some(USED),
        ),
        (
            "real, then zero",
            vec![
                with(chat::some_usage()),
                stop(),
                chat::usage(json!({ "prompt_tokens": 0, "completion_tokens": 0 })),
                done(),
            ],
            Some(USED),
        ),
        ("after the end", vec![words(), stop(), done(), chat::usage(chat::some_usage())], None),
        (
            "no number",
            vec![words(), stop(), chat::usage(json!({ "prompt_tokens": "x" })), done()],
            None,
        ),
    ];
    for (name, frames, usage) in table {
        let heard = ask("openai", Answer::events(frames)).await;
        assert_eq!(heard.text, "Hello", "{name}");
        assert_eq!(tokens(&end(heard)), usage, "{name}");
    }
}

#[tokio::test]
async fn reasoning_that_is_counted_beside_the_output_is_output() {
    let usage = json!({
        "prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 130,
        "completion_tokens_details": { "reasoning_tokens": 100 },
    });
    let frames = [chat::piece("x"), chat::finish("stop"), chat::usage(usage), chat::DONE.into()];
    let end = end(ask("x-ai", Answer::events(frames)).await);
    assert_eq!(tokens(&end).map(|usage| usage.output), Some(120));
}

#[tokio::test]
async fn the_cost_that_a_provider_reports_is_taken_over() {
    let mut usage = chat::some_usage();
    usage["cost"] = json!(0.000_012_5);
    let frames = [chat::piece("x"), chat::finish("stop"), chat::usage(usage), chat::DONE.into()];
    let server = Server::start(vec![Answer::events(frames)]).await;
    let heard = hear(&model(&server, "openrouter"), &[Message::user("hi")], &[]).await;
    assert_eq!(
        end(heard).usage.and_then(|usage| usage.billed),
        Some(Money::from_picos(12_500_000))
    );
    assert_eq!(server.last_body()["usage"], json!({ "include": true }), "it is requested");
}

#[tokio::test]
async fn tool_calls_come_whole_with_the_text_of_their_arguments() {
    let odd = "{ \"n\": 12345678901234567890123 }";
    let (start, rest) = odd.split_at(9);
    let chat_frames = vec![
        chat::call(0, Some("a"), Some("add"), start),
        chat::call(1, Some("b"), Some("say"), "{\"x\":"),
        chat::call(0, None, None, rest),
        chat::call(1, None, None, "oops"),
        chat::finish("tool_calls"),
        chat::DONE.into(),
    ];
    let input = json!({ "input_tokens": 1, "output_tokens": 1 });
    let mut message_frames = vec![messages::start(input.clone())];
    message_frames.extend(messages::tool_use(0, "a", "add", &[start, rest]));
    message_frames.extend(messages::tool_use(1, "b", "say", &["{\"x\":", "oops"]));
    message_frames.extend(messages::end("tool_use", input));
    let item = |id: &str, name: &str, arguments: &str| json!({ "type": "function_call", "call_id": id, "name": name, "arguments": arguments });
    let mut response_frames = responses::item(0, item("a", "add", odd));
    response_frames.extend(responses::item(1, item("b", "say", "{\"x\":oops")));
    response_frames.push(responses::end("response.completed", "completed", json!({})));
    for (provider, frames, is_exact) in [
        ("openai", chat_frames, true),
        ("anthropic", message_frames, true),
        ("openai-responses", response_frames, false),
    ] {
        let heard = ask(provider, Answer::events(frames)).await;
        let calls: Vec<_> = heard.calls.iter().map(|call| (&*call.id, &*call.tool)).collect();
        assert_eq!(calls, [("a", "add"), ("b", "say")], "{provider}: {heard:?}");
        if is_exact {
            assert_eq!(heard.calls[0].arguments, odd, "{provider}");
        }
        assert_eq!(heard.calls[1].arguments, "{\"x\":oops", "{provider}: whatever it wrote");
    }
}

#[tokio::test]
async fn tool_calls_of_a_chat_need_no_index_and_no_room_for_it() {
    let call = |index: Option<u32>, id: &str, name: &str| {
        let mut call = json!({ "id": id, "function": { "name": name, "arguments": "{}" } });
        if let Some(index) = index {
            call["index"] = json!(index);
        }
        chat::frame(json!({ "tool_calls": [call] }), Value::Null, None)
    };
    for (name, indices) in [
        ("absent", [None, None]),
        ("equal", [Some(0), Some(0)]),
        ("huge", [Some(0), Some(u32::MAX)]),
    ] {
        let mut frames = vec![call(indices[0], "a", "add"), call(indices[1], "b", "say")];
        frames.extend([chat::finish("tool_calls"), chat::DONE.to_owned()]);
        let heard = ask("openai", Answer::events(frames)).await;
        let calls: Vec<_> =
            heard.calls.iter().map(|call| (&*call.id, &*call.tool, &*call.arguments)).collect();
        assert_eq!(calls, [("a", "add", "{}"), ("b", "say", "{}")], "{name}");
        assert!(heard.end.is_some());
    }
}

#[tokio::test]
async fn words_are_not_lost_where_a_line_end_comes_apart() {
    let heard = ask("openai", Answer::events(chat_answer()).crlf().byte_by_byte()).await;
    assert_eq!(heard.text, "Hé漢o");
    let heard = ask("anthropic", Answer::events(messages_answer()).crlf().byte_by_byte()).await;
    assert_eq!(heard.error.expect("an error").kind, ModelErrorKind::Malformed);
}

#[tokio::test]
async fn a_stream_that_ends_without_its_end_is_truncated() {
    let table = [
        ("openai", vec![chat::piece("Hel")]),
        ("anthropic", messages_answer()[..9].to_vec()),
        ("openai-responses", vec![responses::piece("Hel")]),
        ("google", gemini_answer()[..2].to_vec()),
        ("ollama", ollama_answer()[..2].to_vec()),
        ("openai", Vec::new()),
    ];
    for (provider, frames) in table {
        let heard = ask(provider, Answer::events(&frames)).await;
        let error = heard.error.expect("an error");
        assert_eq!(error.kind, ModelErrorKind::Truncated, "{provider}");
        assert!(heard.end.is_none(), "{provider}");
        if provider == "google" {
            // It counts up to its end: more may have been generated.
            let reported = heard.reported.map(|reported| reported.tokens);
            assert_eq!((error.usage, reported), (None, Some(USED)));
        }
    }
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_no_silent_answer() {
    let body = json!({
        "choices": [{ "message": { "content": "Hello" }, "finish_reason": "stop" }],
        "usage": chat::some_usage(),
    });
    let heard = ask("openai", Answer::json(200, &body)).await;
    assert_eq!(heard.error.expect("an error").kind, ModelErrorKind::Truncated);
}

#[tokio::test]
async fn a_finish_reason_is_an_end_where_the_last_frame_is_left_out() {
    let frames = vec![chat::call(0, Some("a"), Some("add"), "{}"), chat::finish("tool_calls")];
    let heard = ask("openai", Answer::events(frames)).await;
    assert_eq!(heard.calls.len(), 1);
    assert_eq!(end(heard).finish.as_deref(), Some("tool_calls"));
}

#[tokio::test]
async fn an_answer_that_is_cut_for_length_says_so() {
    let more = json!({ "incomplete_details": { "reason": "max_output_tokens" } });
    let frames =
        vec![responses::piece("Hel"), responses::end("response.incomplete", "incomplete", more)];
    let end = end(ask("openai-responses", Answer::events(frames)).await);
    assert_eq!(end.finish.as_deref(), Some("max_output_tokens"));
    assert_eq!(tokens(&end), Some(USED));
}

#[tokio::test]
async fn a_connection_that_breaks_is_told_from_an_end() {
    let heard = ask("openai", Answer::events([chat::piece("Hel")]).reset()).await;
    assert_eq!(heard.text, "Hel");
    assert_eq!(heard.error.expect("an error").kind, ModelErrorKind::Truncated);

    let nobody = ProviderModel::builder("m")
        .provider("openai")
        .base_url("http://127.0.0.1:1/v1")
        .environment(NO_VARIABLES)
        .build()
        .expect("a model");
    let heard = hear(&nobody, &[Message::user("x")], &[]).await;
    assert_eq!(heard.error.expect("an error").kind, ModelErrorKind::Connection);
}

async fn ask_over_tls(base_url: &str) -> Heard {
    let model = ProviderModel::builder("a-model")
        .provider("openai")
        .base_url(base_url)
        .key("sk-canary")
        .environment(NO_VARIABLES)
        .build()
        .expect("a model");
    hear(&model, &[Message::user("hello")], &[]).await
}

/// The environment says which certificates the system trusts, so a second process asks the trusted server.
#[tokio::test]
async fn a_server_is_called_over_tls_if_the_system_trusts_it() {
    const NAME: &str = "a_server_is_called_over_tls_if_the_system_trusts_it";
    const URL: &str = "ENDSTOP_TEST_TLS_URL";
    if let Ok(url) = std::env::var(URL) {
        let heard = ask_over_tls(&url).await;
        assert_eq!(heard.text, "Hé漢o", "{heard:?}");
        return;
    }
    let server = Server::start(vec![Answer::events(chat_answer())]).await;
    let relay = TlsRelay::start(server.url("").replace("http://", "")).await;
    let error = ask_over_tls(&relay.url("/v1")).await.error.expect("an error");
    assert_eq!(error.kind, ModelErrorKind::Connection, "{error}");
    assert_eq!(server.seen().len(), 0, "nothing is sent to a server that is not trusted");

    let output = tokio::process::Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", NAME])
        .env("SSL_CERT_FILE", relay.certificate())
        .env(URL, relay.url("/v1"))
        .output()
        .await
        .expect("the second process");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn failures_have_their_kind_status_wait_and_text() {
    use ModelErrorKind as Kind;
    let error = |kind: &str, text: &str| json!({ "error": { "type": kind, "message": text } });
    let secs = |secs| Some(Duration::from_secs(secs));
    let table = [
        (Answer::json(429, &error("rate_limit_error", "slow")), Kind::RateLimited, 429, None),
        (Answer::json(429, &json!({})).header("retry-after", "7"), Kind::RateLimited, 429, secs(7)),
        (
            Answer::json(429, &json!({})).header("retry-after-ms", "1500"),
            Kind::RateLimited,
            429,
            Some(Duration::from_millis(1_500)),
        ),
        (
            Answer::json(503, &json!({})).header("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT"),
            Kind::Unavailable,
            503,
            secs(0),
        ),
        (
            Answer::json(
                429,
                &json!({ "error": {
                "code": 429, "status": "RESOURCE_EXHAUSTED", "message": "slow",
                "details": [{ "retryDelay": "34s" }],
            } }),
            ),
            Kind::RateLimited,
            429,
            secs(34),
        ),
        (Answer::json(429, &error("insufficient_quota", "pay")), Kind::Rejected, 429, None),
        (Answer::json(500, &json!({})), Kind::Unavailable, 500, None),
        (Answer::json(529, &error("overloaded_error", "busy")), Kind::Unavailable, 529, None),
        (Answer::json(401, &error("authentication_error", "who")), Kind::Rejected, 401, None),
        (Answer::json(404, &error("not_found_error", "what")), Kind::Rejected, 404, None),
        (Answer::json(408, &json!({})), Kind::TimedOut, 408, None),
    ];
    for (answer, kind, status, wait) in table {
        for provider in ["openai", "openai-responses", "anthropic", "google", "ollama"] {
            let error = ask(provider, answer.clone()).await.error.expect("an error");
            assert_eq!((error.kind, error.status), (kind, Some(status)), "{provider}: {error}");
            assert_eq!(error.retry_after, wait, "{provider}: {error}");
        }
    }
}

/// The gateway reads the same samples in its test of the same name.
#[tokio::test]
async fn errors_of_providers_have_the_same_kind_in_the_loop_and_in_the_gateway() {
    for line in include_str!("../../endstop-runtime/tests/provider-errors.jsonl").lines() {
        let sample: Value = serde_json::from_str(line).expect("a sample");
        let status = sample["status"].as_u64().and_then(|status| u16::try_from(status).ok());
        let answer = Answer::json(status.expect("a status"), &sample["body"]);
        for provider in ["openai", "openai-responses", "anthropic", "google", "ollama"] {
            let error = ask(provider, answer.clone()).await.error.expect("an error");
            assert_eq!(Some(error.kind.name()), sample["kind"].as_str(), "{provider}: {line}");
        }
    }
}

#[tokio::test]
async fn errors_are_short_and_hold_no_key() {
    let body = json!({ "error": { "message": format!("no sk-canary {}", "x".repeat(9_000)) } });
    let error = ask("openai", Answer::json(400, &body)).await.error.expect("an error");
    assert!(error.message.starts_with("no [key] xxx"), "{error}");
    assert!(error.message.len() < 1_100, "{}", error.message.len());
    let server = Server::start(vec![Answer::json(400, &body)]).await;
    assert!(!format!("{:?}", model(&server, "openai")).contains("canary"));
}

#[tokio::test]
async fn an_error_in_the_stream_is_that_error() {
    use ModelErrorKind as Kind;
    let input = json!({ "input_tokens": 9, "output_tokens": 1 });
    let mut overloaded = vec![messages::start(input)];
    overloaded.extend(messages::text(0, &["Hel"]));
    overloaded.push(messages::error("overloaded_error", "busy"));
    let chat_error = "data: {\"error\":{\"code\":502,\"message\":\"upstream\"}}".to_owned();
    let failed = json!({ "error": { "code": "rate_limit_exceeded", "message": "slow" } });
    let failed = responses::end("response.failed", "failed", failed);
    let top = json!({ "code": "server_error", "message": "oops" });
    let top = responses::event("error", top);
    let broken = vec![chat::piece("Hel"), "data: {\"choices\":[".to_owned()];
    let table = [
        ("anthropic", overloaded, Kind::Unavailable, "busy"),
        ("openai", vec![chat::piece("Hel"), chat_error], Kind::Unavailable, "upstream"),
        ("openai-responses", vec![responses::piece("Hel"), failed], Kind::RateLimited, "slow"),
        ("openai-responses", vec![responses::piece("Hel"), top], Kind::Unavailable, "oops"),
        ("openai", broken, Kind::Malformed, "EOF"),
    ];
    for (provider, frames, kind, text) in table {
        let heard = ask(provider, Answer::events(frames)).await;
        let error = heard.error.expect("an error");
        assert_eq!(error.kind, kind, "{provider}: {error}");
        assert!(error.message.contains(text), "{provider}: {error}");
    }
}

#[tokio::test]
async fn silence_is_a_timeout_and_slowness_is_not() {
    let second = Duration::from_secs(1);
    let timeouts = |time| Timeouts { first: time, between: time };
    let words = || Answer::events(chat::answer(&["a", "b", "c", "d"]));
    let long = Duration::from_secs(60);
    // The slow answer takes longer than the timeout, and each of its waits is far from it on a busy machine too.
    let table = [
        ("no headers", words().late(long), second * 2, false),
        ("headers and nothing", words().hesitating(long), second * 2, false),
        ("silence in the middle", Answer::events([chat::piece("a")]).silent(), second * 2, false),
        ("slow", words().slowly(second), second * 5, true),
    ];
    let checks = table.map(async |(name, answer, time, is_answered)| {
        let server = Server::start(vec![answer]).await;
        let model = model_with(&server, "openai", timeouts(time));
        let heard = hear(&model, &[Message::user("x")], &[]).await;
        assert_eq!(heard.end.is_some(), is_answered, "{name}: {heard:?}");
        if !is_answered {
            assert_eq!(
                heard.error.map(|error| error.kind),
                Some(ModelErrorKind::TimedOut),
                "{name}"
            );
            server.left(1).await;
        }
    });
    futures_util::future::join_all(checks).await;
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    for (provider, frames) in [
        ("openai", chat::answer(&["word"; 200])),
        ("anthropic", messages_answer()),
        ("openai-responses", responses_answer()),
        ("google", gemini_answer()),
    ] {
        let slow = Answer::events(frames).slowly(Duration::from_millis(20)).silent();
        let server = Server::start(vec![slow]).await;
        let model = model(&server, provider);
        let said = [Message::user("x")];
        let mut stream = model.stream(request(&said, &[]));
        assert!(server.seen().is_empty(), "nothing is sent before the first poll");
        stream.next().await.expect("a piece").expect("a piece");
        assert_eq!(server.left_so_far(), 0);
        drop(stream);
        let pieces = server.left(1).await;
        assert!(pieces[0] < 100, "{provider}: the server wrote {pieces:?} pieces");
        let seen = server.seen();
        assert!(seen.len() == 1 && seen[0].path.starts_with("/v1/"), "{seen:?}");
    }
}
