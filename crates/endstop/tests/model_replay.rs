//! Recorded runs that answer: every format that the readers know.
#![expect(clippy::expect_used, clippy::panic, reason = "helpers of tests fail as tests do")]

use std::path::{Path, PathBuf};

use endstop::core::units::TokenUsage;
use endstop::message::{Message, ToolCall};
use endstop::model::{
    Model, ModelEnd, ModelErrorKind, ModelEvent, ModelRequest, ReplayModel, ReplayModelError,
    ToolChoice, UNRECORDED_TOOL,
};
use endstop_transcript::{FORMATS, Part, Transcript, format, sample, walk};
use futures_util::StreamExt;
use serde_json::{Value, json};

fn request() -> ModelRequest<'static> {
    static ASKED: [Message; 0] = [];
    ModelRequest {
        system: "",
        messages: &ASKED,
        tools: &[],
        tool_choice: ToolChoice::Auto,
        max_output_tokens: None,
    }
}

struct Heard {
    text: String,
    calls: Vec<ToolCall>,
    end: ModelEnd,
}

async fn ask(model: &ReplayModel) -> Option<Heard> {
    let (mut text, mut calls) = (String::new(), Vec::new());
    let mut stream = model.stream(request());
    while let Some(event) = stream.next().await {
        match event {
            Ok(ModelEvent::Text(piece)) => text += &piece,
            Ok(ModelEvent::ToolCall(call)) => calls.push(call),
            Ok(ModelEvent::End(end)) => return Some(Heard { text, calls, end: *end }),
            Ok(other) => panic!("{other:?}"),
            Err(error) => {
                assert_eq!(error.kind, ModelErrorKind::Rejected, "{error}");
                assert!(error.message.contains("responses and no more"), "{error}");
                return None;
            }
        }
    }
    panic!("the stream ended without its end");
}

fn chat(id: &str, messages: Value) -> Transcript {
    let bytes = messages.to_string().into_bytes();
    let main = Part::bytes(format!("{id}.json"), bytes);
    let format = format("openai-chat").expect("the format");
    Transcript { format, main, children: Vec::new() }
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../endstop-transcript/tests/data")
}

#[tokio::test]
async fn every_format_answers_from_its_example() {
    let found = walk(&[examples()]).expect("the examples");
    let mut answered = std::collections::BTreeMap::<&str, usize>::new();
    for transcript in &found.transcripts {
        let Ok(model) = ReplayModel::read(transcript, None) else { continue };
        let mut heard = 0;
        while ask(&model).await.is_some() {
            heard += 1;
        }
        assert_eq!(heard, model.replies(), "{}", transcript.main.name());
        *answered.entry(transcript.format.id()).or_default() += heard;
    }
    for format in FORMATS {
        assert!(answered.get(format.id()).is_some_and(|count| *count > 0), "{}", format.id());
    }
}

#[tokio::test]
async fn words_calls_and_arguments_come_back_and_then_an_error() {
    let call = |id: &str, name: &str, arguments: &str| json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } });
    let model = ReplayModel::read(
        &chat(
            "two",
            json!([
                { "role": "user", "content": "go" },
                { "role": "assistant", "content": "first", "tool_calls": [
                    call("a", "add", "{\"n\":1}"), call("b", "say", "not json"),
                ] },
                { "role": "tool", "tool_call_id": "a", "content": "1" },
                { "role": "tool", "tool_call_id": "b", "content": "said" },
                { "role": "assistant", "content": "second" },
            ]),
        ),
        None,
    )
    .expect("a model");
    assert_eq!((model.replies(), model.calls()), (2, 0));
    let first = ask(&model).await.expect("a reply");
    assert_eq!(first.text, "first");
    let calls: Vec<_> =
        first.calls.iter().map(|call| (&*call.id, &*call.tool, &*call.arguments)).collect();
    assert_eq!(calls, [("call_1", "add", "{\"n\":1}"), ("call_2", "say", "not json")]);
    assert_eq!(first.end.usage, None, "unknown, not zero");
    assert_eq!(ask(&model).await.expect("a reply").text, "second");
    assert!(ask(&model).await.is_none());
    assert!(ask(&model).await.is_none(), "and again");
    assert_eq!(model.calls(), 4);
}

#[tokio::test]
async fn usage_is_that_of_the_transcript_and_a_computed_cost_is_not() {
    let session = sample().into_iter().find(|found| found.format.id() == "claude-code");
    let model = ReplayModel::read(&session.expect("the sample"), None).expect("a model");
    let mut used = TokenUsage::default();
    while let Some(heard) = ask(&model).await {
        let usage = heard.end.usage.clone().expect("the format records tokens").tokens;
        used = used.checked_add(&usage).expect("a sum");
        assert_eq!(
            heard.end.usage.and_then(|usage| usage.billed),
            None,
            "the provider billed nothing here"
        );
        assert!(heard.end.model.is_some_and(|name| name.starts_with("claude")));
    }
    assert!(used.output > 0 && model.name().starts_with("claude"));
}

#[tokio::test]
async fn a_run_can_be_named_and_begun_later() {
    let file = examples().join("../../data/sample/agents.jsonl");
    let unknown = ReplayModel::open(&file, Some("nobody")).expect_err("no such run");
    let ReplayModelError::NoSuchRun { known, .. } = &unknown else { panic!("{unknown}") };
    let name = known.split(", ").last().expect("a run").trim_matches('`').to_owned();
    let model = ReplayModel::open(&file, Some(&name)).expect("a model");
    assert_eq!(model.run(), name);
    let last = u64::try_from(model.replies() - 1).expect("small");
    let model = model.starting_at(last);
    assert!(ask(&model).await.is_some());
    assert!(ask(&model).await.is_none());
}

#[test]
fn what_cannot_answer_says_why() {
    let silent = chat("silent", json!([{ "role": "user", "content": "hello?" }]));
    let error = ReplayModel::read(&silent, None).expect_err("nobody answered");
    assert_eq!(error.to_string(), "`silent.json` has no model response");
    let error = ReplayModel::open(Path::new("no/such/file"), None).expect_err("no file");
    assert!(error.to_string().starts_with("no/such/file: cannot be read: "), "{error}");
    assert_ne!(UNRECORDED_TOOL, "");
}

#[tokio::test]
async fn recorded_runs_of_every_tool_answer_to_their_end() {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    if !traces.is_dir() {
        println!("skipped: no recorded runs here");
        return;
    }
    let found = walk(&[traces.join("swe-agent"), traces.join("gemini-cli")]).expect("traces");
    let mut replies = 0;
    for transcript in &found.transcripts {
        let Ok(model) = ReplayModel::read(transcript, None) else { continue };
        while ask(&model).await.is_some() {
            replies += 1;
        }
    }
    assert!(replies > 100, "{replies}");
}
