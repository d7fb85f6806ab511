//! Requests of the models of providers: conversations, tools and caps in the form of each protocol, and items that a
//! provider wants back.
#![cfg(feature = "models")]
#![expect(clippy::expect_used, reason = "helpers of tests fail as tests do")]

#[path = "support/server.rs"]
#[expect(dead_code, reason = "only the requests are checked")]
mod server;
#[path = "support/server_shapes.rs"]
#[expect(dead_code, reason = "only some frames are needed")]
mod server_shapes;

use endstop::message::{Message, ToolCall, ToolOutcome};
use endstop::model::{Model, ModelEnd, ModelEvent, ModelRequest, ProviderModel, ToolChoice};
use endstop::tool::ToolSpec;
use futures_util::StreamExt;
use serde_json::{Value, json};
use server::{Answer, Seen, Server};
use server_shapes::{chat, gemini, messages, responses};

fn model(server: &Server, provider: &str, name: &str) -> ProviderModel {
    let built = ProviderModel::builder(name)
        .provider(provider)
        .base_url(server.url("/v1"))
        .key("sk-canary")
        .environment(|_| None)
        .build();
    built.expect("a model")
}

fn answer(provider: &str) -> Answer {
    Answer::events(match provider {
        "anthropic" => {
            let mut frames = vec![messages::start(json!({ "input_tokens": 1 }))];
            frames.extend(messages::text(0, &["ok"]));
            frames.extend(messages::end("end_turn", json!({ "output_tokens": 1 })));
            frames
        }
        "google" => {
            vec![gemini::frame(json!([{ "text": "ok" }]), json!("STOP"), gemini::some_usage())]
        }
        "openai-responses" => vec![responses::end("response.completed", "completed", json!({}))],
        _ => chat::answer(&["ok"]),
    })
}

/// Sends a request and gives back what the server saw.
async fn sent(provider: &str, name: &str, request: ModelRequest<'_>) -> Seen {
    let server = Server::start(vec![answer(provider)]).await;
    let model = model(&server, provider, name);
    let mut stream = model.stream(request);
    while let Some(event) = stream.next().await {
        event.expect("an answer");
    }
    server.seen().pop().expect("a request")
}

fn call(id: &str, arguments: &str) -> ToolCall {
    ToolCall { id: id.into(), tool: "add".into(), arguments: arguments.into() }
}

fn assistant(calls: Vec<ToolCall>, opaque: Vec<Value>) -> Message {
    Message::Assistant { text: "let me see".into(), tool_calls: calls, opaque }
}

fn result(id: &str, outcome: ToolOutcome, text: &str) -> Message {
    Message::Tool { id: id.into(), tool: "add".into(), outcome, text: text.into() }
}

fn conversation() -> Vec<Message> {
    vec![
        Message::system("speak English"),
        Message::user("add"),
        assistant(vec![call("a", "{\"n\":1}"), call("b", "oops")], Vec::new()),
        result("a", ToolOutcome::Succeeded, "2"),
        result("b", ToolOutcome::Invalid, "no JSON"),
        Message::system("two steps are left"),
        Message::assistant(""),
        Message::user("go on"),
    ]
}

fn tools() -> Vec<ToolSpec> {
    let parameters = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    vec![ToolSpec { name: "add".into(), description: "adds".into(), parameters }]
}

fn request<'a>(messages: &'a [Message], tools: &'a [ToolSpec]) -> ModelRequest<'a> {
    ModelRequest {
        system: "be brief",
        messages,
        tools,
        tool_choice: ToolChoice::Auto,
        max_output_tokens: Some(77),
    }
}

#[tokio::test]
async fn a_conversation_is_told_to_chat_completions() {
    let (said, tools) = (conversation(), tools());
    let seen = sent("openai", "gpt-4o", request(&said, &tools)).await;
    assert_eq!(seen.path, "/v1/chat/completions");
    assert_eq!(seen.header("authorization"), Some("Bearer sk-canary"));
    let body = &seen.body;
    assert_eq!((&body["model"], &body["max_tokens"]), (&json!("gpt-4o"), &json!(77)));
    assert_eq!(body["stream"], true);
    assert_eq!(body["stream_options"], json!({ "include_usage": true }), "usage is requested");
    assert_eq!(body["tools"][0]["function"]["name"], "add");
    assert_eq!(body.get("tool_choice"), None, "the model decides by default");
    let told = body["messages"].as_array().expect("messages");
    let roles: Vec<_> = told.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "tool", "user", "user"]);
    assert_eq!(told[0]["content"], "be brief\n\nspeak English");
    assert_eq!(told[2]["content"], "let me see");
    assert_eq!(told[2]["tool_calls"][0]["id"], "a");
    assert_eq!(told[2]["tool_calls"][0]["function"]["arguments"], "{\"n\":1}");
    assert_eq!(told[2]["tool_calls"][1]["function"]["arguments"], "\"oops\"");
    assert_eq!(told[4]["tool_call_id"], "b");
    assert_eq!(told[5]["content"], "[two steps are left]", "no system message in the middle");
}

#[tokio::test]
async fn a_conversation_is_told_to_anthropic() {
    let (said, tools) = (conversation(), tools());
    let seen = sent("anthropic", "claude-x", request(&said, &tools)).await;
    assert_eq!(seen.path, "/v1/messages");
    assert_eq!(seen.header("x-api-key"), Some("sk-canary"));
    let body = &seen.body;
    assert_eq!(
        body["system"], "be brief\n\nspeak English",
        "a note does not move to the beginning"
    );
    assert_eq!(body["max_tokens"], 77);
    assert_eq!(body["tools"][0]["input_schema"]["type"], "object");
    let told = body["messages"].as_array().expect("messages");
    assert_eq!(told[1]["content"][1]["input"], json!({ "n": 1 }));
    assert_eq!(told[1]["content"][2]["input"], json!({ "arguments": "oops" }), "an object it is");
    let results = told[2]["content"].as_array().expect("results");
    assert_eq!(results.len(), 2, "the results of one reply go together");
    assert_eq!(results[0].get("is_error"), None);
    assert_eq!(results[1]["is_error"], true);
    assert_eq!(results[1]["content"], "no JSON");
    let last = told.len() - 2;
    assert_eq!(told[last], json!({ "role": "user", "content": "[two steps are left]" }));
}

#[tokio::test]
async fn a_conversation_is_told_to_gemini_and_responses() {
    let (said, tools) = (conversation(), tools());
    let seen = sent("google", "gemini-2.5-pro", request(&said, &tools)).await;
    assert_eq!(seen.path, "/v1/models/gemini-2.5-pro:streamGenerateContent?alt=sse");
    assert_eq!(seen.header("x-goog-api-key"), Some("sk-canary"));
    assert_eq!(seen.body["generationConfig"]["maxOutputTokens"], 77);
    let told = seen.body["contents"].as_array().expect("contents");
    assert_eq!(told[2]["parts"].as_array().map(Vec::len), Some(2));
    assert_eq!(told[2]["parts"][0]["functionResponse"]["name"], "add");
    assert_eq!(told[1]["parts"][2]["functionCall"]["args"], json!({ "arguments": "oops" }));

    let seen = sent("openai-responses", "gpt-5-test", request(&said, &tools)).await;
    assert_eq!(seen.path, "/v1/responses");
    assert_eq!(seen.body["instructions"], "be brief\n\nspeak English");
    assert_eq!(seen.body["max_output_tokens"], 77);
    assert_eq!(seen.body["store"], false);
    assert_eq!(seen.body["include"], json!(["reasoning.encrypted_content"]));
    let input = seen.body["input"].as_array().expect("input");
    let outputs = input.iter().filter(|item| item["type"] == "function_call_output").count();
    assert_eq!(outputs, 2);

    let seen = sent("openai-responses", "gpt-4o", request(&said, &tools)).await;
    assert_eq!(seen.body.get("include"), None, "refused by models that do not reason");
}

#[tokio::test]
async fn a_wrap_up_calls_no_tool() {
    let said = conversation();
    let seen = sent("openai", "gpt-4o", request(&said, &[])).await;
    assert_eq!((seen.body.get("tools"), seen.body.get("tool_choice")), (None, None));
    // Anthropic refuses tool calls in a conversation without the tools.
    let seen = sent("anthropic", "claude-x", request(&said, &[])).await;
    assert_eq!(seen.body["tools"][0]["name"], "add");
    assert_eq!(seen.body["tool_choice"]["type"], "none");
    for (choice, word) in [(ToolChoice::None, "none"), (ToolChoice::Required, "required")] {
        let tools = tools();
        let request = ModelRequest { tool_choice: choice, ..request(&said, &tools) };
        assert_eq!(sent("openai", "gpt-4o", request).await.body["tool_choice"], word);
    }
}

#[tokio::test]
async fn the_cap_of_the_model_is_sent_where_the_request_has_none() {
    let server = Server::start(vec![answer("openai")]).await;
    let built = ProviderModel::builder("m").provider("openai").base_url(server.url("/v1"));
    let model = built.max_output_tokens(50).environment(|_| None).build().expect("a model");
    assert_eq!(model.max_output_tokens(), Some(50));
    let said = [Message::user("x")];
    let request = ModelRequest { max_output_tokens: None, ..request(&said, &[]) };
    model.stream(request).collect::<Vec<_>>().await;
    assert_eq!(server.last_body()["max_tokens"], 50);
}

/// Asks with frames, then continues with the reply and returns the second request.
async fn round_trip(provider: &str, frames: Vec<String>) -> (ModelEnd, Value) {
    let server = Server::start(vec![Answer::events(frames), answer(provider)]).await;
    let model = model(&server, provider, "gemini-2.5-pro");
    let mut said = vec![Message::user("x")];
    let (mut text, mut tool_calls, mut end) = (String::new(), Vec::new(), None);
    {
        let mut stream = model.stream(request(&said, &[]));
        while let Some(event) = stream.next().await {
            match event.expect("an answer") {
                ModelEvent::Text(piece) => text += &piece,
                ModelEvent::ToolCall(call) => tool_calls.push(call),
                ModelEvent::End(ended) => end = Some(*ended),
                _ => {}
            }
        }
    }
    let end = end.expect("an end");
    // As a state that was saved and read again has it.
    let saved = serde_json::to_string(&end.opaque).expect("JSON");
    let opaque = serde_json::from_str(&saved).expect("JSON");
    let id = tool_calls.first().map(|call: &ToolCall| call.id.clone());
    said.push(Message::Assistant { text, tool_calls, opaque });
    said.extend(id.map(|id| result(&id, ToolOutcome::Succeeded, "2")));
    let tools = tools();
    model.stream(request(&said, &tools)).collect::<Vec<_>>().await;
    (end, server.last_body())
}

#[tokio::test]
async fn signed_thinking_of_anthropic_goes_back_unchanged() {
    let signed = |text: &str, signature: &str| {
        vec![
            json!({ "type": "thinking_delta", "thinking": text }),
            json!({ "type": "signature_delta", "signature": signature }),
        ]
    };
    let thinking = json!({ "type": "thinking", "thinking": "" });
    let redacted = json!({ "type": "redacted_thinking", "data": "zz" });
    let mut frames = vec![messages::start(json!({ "input_tokens": 1 }))];
    frames.extend(messages::block(0, thinking.clone(), &signed("first", "sig-1")));
    frames.extend(messages::block(1, redacted.clone(), &[]));
    frames.extend(messages::block(2, thinking, &signed("second", "sig-2")));
    frames.extend(messages::text(3, &["let me add"]));
    frames.extend(messages::tool_use(4, "a", "add", &["{\"n\":1}"]));
    frames.extend(messages::end("tool_use", json!({ "output_tokens": 1 })));
    let (_, body) = round_trip("anthropic", frames).await;
    let block = |text: &str, signature: &str| json!({ "type": "thinking", "thinking": text, "signature": signature });
    let back = body["messages"][1]["content"].as_array().expect("blocks");
    assert_eq!(back[..3], [block("first", "sig-1"), redacted, block("second", "sig-2")]);
    assert_eq!(back[3], json!({ "type": "text", "text": "let me add" }));
    assert_eq!(back[4]["type"], "tool_use");
}

#[tokio::test]
async fn thought_signatures_of_gemini_go_back_with_their_calls() {
    let part = json!([{
        "functionCall": { "name": "add", "args": { "n": 1 } }, "thoughtSignature": "sig-1",
    }]);
    let frames = vec![gemini::frame(part, json!("STOP"), gemini::some_usage())];
    let (_, body) = round_trip("google", frames).await;
    let back = &body["contents"][1]["parts"][0];
    assert_eq!(back["thoughtSignature"], "sig-1", "{body:#}");
    assert_eq!(back["functionCall"]["args"], json!({ "n": 1 }));
}

#[tokio::test]
async fn encrypted_reasoning_of_responses_goes_back() {
    let reasoning =
        json!({ "type": "reasoning", "id": "rs", "encrypted_content": "zz", "summary": [] });
    let call =
        json!({ "type": "function_call", "call_id": "a", "name": "add", "arguments": "{\"n\":1}" });
    let mut frames = responses::item(0, reasoning.clone());
    frames.extend(responses::item(1, call));
    frames.push(responses::end("response.completed", "completed", json!({})));
    let (end, body) = round_trip("openai-responses", frames).await;
    assert_eq!(end.opaque, [reasoning], "all of it is kept");
    let input = body["input"].as_array().expect("input");
    let back = input.iter().find(|item| item["type"] == "reasoning").expect("reasoning");
    assert_eq!(back["encrypted_content"], "zz");
}

#[tokio::test]
async fn details_of_reasoning_go_back_whole() {
    let detail = |text: &str, signature: Value| {
        let detail = json!({
            "type": "reasoning.text", "index": 0, "text": text, "signature": signature,
        });
        chat::frame(json!({ "reasoning_details": [detail] }), Value::Null, None)
    };
    let mut frames = vec![detail("first ", Value::Null), detail("second", json!("sig"))];
    frames.extend(chat::answer(&["ok"]));
    let (_, body) = round_trip("openrouter", frames).await;
    let whole = json!([{
        "type": "reasoning.text", "index": 0, "text": "first second", "signature": "sig",
    }]);
    assert_eq!(body["messages"][2]["reasoning_details"], whole, "{body:#}");
}

#[tokio::test]
async fn what_one_provider_wants_back_is_not_told_to_another() {
    let block = json!({ "type": "thinking", "thinking": "canary", "signature": "canary" });
    let said = [Message::user("x"), assistant(Vec::new(), vec![block]), Message::user("go on")];
    for provider in ["openai", "openai-responses", "google", "openrouter"] {
        let seen = sent(provider, "gemini-2.5-pro", request(&said, &[])).await;
        assert!(!seen.body.to_string().contains("canary"), "{provider}");
    }
}
