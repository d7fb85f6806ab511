//! The databases of Cursor. `globalStorage/state.vscdb` has one run for each conversation (`composerData:<id>`), whose
//! messages are `bubbleId:<conversation>:<message>`. Earlier versions keep conversations in `state.vscdb` of each workspace,
//! in a list.
//!
//! - A message of type 1 is a user turn. Messages of type 2 hold text, thoughts or one tool call each; the end of a
//!   model call is not recorded. A call continues with tools of the same `modelCallId`, and otherwise until a tool
//!   was called.
//! - `tokenCount` is zero in most versions, which is unknown. Money and cached tokens are not recorded.
//! - Earlier versions have the messages in the conversation itself. In later versions the list of a workspace only names
//!   conversations: those are no runs.

use endstop_price::UsageShape;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Number, Value, json};

use super::builder::RunBuilder;
use super::call_charge::ModelCall;
use super::reading::Reading;
use super::sqlite::{Database, is_with};
use super::step::{Full, ModelResponse};
use super::text::{Text, compact, present, text_or_json, word};
use super::time::{Time, parse_time};
use super::{Head, RunSink};

const TABLE: &str = "cursorDiskKV";

/// The messages are looked up by their keys; the keys of conversations stand together in the index.
const CONVERSATIONS: &str = "SELECT value FROM cursorDiskKV \
     WHERE key >= 'composerData:' AND key < 'composerData;' ORDER BY key";
const MESSAGE: &str = "SELECT value FROM cursorDiskKV WHERE key = ?1";

/// The table and the key of a workspace.
const WORKSPACE_TABLE: &str = "ItemTable";
const LIST: &str = "SELECT value FROM ItemTable WHERE key = 'composer.composerData'";

pub(crate) fn detect(head: &Head<'_>) -> bool {
    is_with(head, &[TABLE]) || is_with(head, &[WORKSPACE_TABLE, "composer.composerData"])
}

pub(crate) fn read(reading: Reading<'_>, sink: &mut dyn RunSink) {
    let Some(database) = Database::open(reading, &[&[TABLE, WORKSPACE_TABLE]]) else { return };
    if !database.has_table(TABLE) {
        return read_workspace(&database, reading, sink);
    }
    database.each(CONVERSATIONS, [], &mut |row| {
        let Some(text) = database.text(row, 0) else { return Ok(()) };
        let wrong = "not a conversation of this format";
        if let Some(composer) = reading.parse_text::<Composer<'_>>(&text, wrong) {
            read_conversation(&database, reading, composer, sink);
        }
        Ok(())
    });
}

fn read_workspace(database: &Database<'_>, reading: Reading<'_>, sink: &mut dyn RunSink) {
    database.each(LIST, [], &mut |row| {
        let text = database.text(row, 0).unwrap_or_default();
        let wrong = "not a list of conversations";
        let workspace = reading.parse_text::<Workspace<'_>>(&text, wrong);
        for composer in workspace.and_then(|list| list.all_composers).into_iter().flatten() {
            let composer =
                reading.parse::<Composer<'_>>(composer, "not a conversation of this format");
            let said =
                composer.filter(|it| it.conversation.as_ref().is_some_and(|it| !it.is_empty()));
            if let Some(composer) = said {
                read_conversation(database, reading, composer, sink);
            }
        }
        Ok(())
    });
}

fn read_conversation(
    database: &Database<'_>,
    reading: Reading<'_>,
    composer: Composer<'_>,
    sink: &mut dyn RunSink,
) {
    let id = composer.composer_id.unwrap_or_default();
    let run = RunBuilder::new(reading, sink).named(Some(&*id));
    let model = composer.model_config.and_then(|config| config.model_name);
    let mut chat = CursorChat { run, model, call: None };
    let wrong = "not a message of this format";
    for raw in composer.conversation.into_iter().flatten() {
        if let Some(bubble) = reading.parse::<Bubble<'_>>(raw, wrong) {
            chat.message(bubble);
        }
    }
    for header in composer.full_conversation_headers_only.into_iter().flatten() {
        let key = format!("bubbleId:{}:{}", &*id, &*header.bubble_id.unwrap_or_default());
        database.each(MESSAGE, [key], &mut |row| {
            if let Some(text) = database.text(row, 0)
                && let Some(bubble) = reading.parse_text::<Bubble<'_>>(&text, wrong)
            {
                chat.message(bubble);
            }
            Ok(())
        });
    }
    chat.run.end();
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Workspace<'a> {
    all_composers: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Composer<'a> {
    composer_id: Option<Text<'a>>,
    model_config: Option<ModelName>,
    full_conversation_headers_only: Option<Vec<Header<'a>>>,
    conversation: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Header<'a> {
    bubble_id: Option<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ModelName {
    model_name: Option<String>,
}

/// A message.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Bubble<'a> {
    #[serde(rename = "type")]
    kind: Option<Number>,
    text: Option<Text<'a>>,
    thinking: Option<&'a RawValue>,
    created_at: Option<&'a RawValue>,
    model_info: Option<ModelName>,
    token_count: Option<&'a RawValue>,
    tool_former_data: Option<Tool<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Tool<'a> {
    name: Option<Text<'a>>,
    tool_call_id: Option<Text<'a>>,
    model_call_id: Option<Text<'a>>,
    raw_args: Option<&'a RawValue>,
    params: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    status: Option<Text<'a>>,
}

/// A model call whose messages are read.
#[derive(Default)]
struct CursorOpenCall {
    /// It called a tool.
    has_tool: bool,
    /// The name by which its tools refer to it.
    id: Option<String>,
    /// It has a response with usage.
    has_usage: bool,
}

struct CursorChat<'s, 'w> {
    run: RunBuilder<'s, 'w>,
    model: Option<String>,
    call: Option<CursorOpenCall>,
}

impl CursorChat<'_, '_> {
    fn message(&mut self, bubble: Bubble<'_>) {
        let time = time_of(bubble.created_at);
        let added = match bubble.kind.as_ref().and_then(Number::as_u64) {
            Some(1) => {
                self.call = None;
                self.run.user(time);
                Ok(())
            }
            Some(2) => self.said(bubble, time),
            _ => Ok(()),
        };
        self.run.check(added);
    }

    fn said(&mut self, bubble: Bubble<'_>, time: Time) -> Result<(), Full> {
        let text = bubble.text.filter(|text| !text.is_empty());
        let tool = bubble.tool_former_data.filter(|tool| tool.name.is_some());
        if text.is_none() && tool.is_none() && present(bubble.thinking).is_none() {
            return Ok(());
        }
        let usage = usage_of(self.run.reading, bubble.token_count);
        let model = bubble.model_info.and_then(|info| info.model_name);
        let model = model.filter(|model| model != "default").or_else(|| self.model.clone());
        let id = tool.as_ref().and_then(|tool| tool.model_call_id.clone()).map(Text::into_owned);
        let goes_on = self.call.as_ref().is_some_and(|call| {
            !call.has_tool || (tool.is_some() && id.is_some() && call.id == id)
        });
        let mut reply = ModelResponse::of_model(model.as_deref());
        if let Some(usage) = &usage {
            let shape = ModelCall::new(UsageShape::OpenAiChat, usage);
            let charge = self.run.reading.price(&mut reply, &shape, "tokenCount");
            // Cached input is not recorded, and costs much less.
            reply =
                ModelResponse { usage: charge.usage, ..ModelResponse::of_model(model.as_deref()) };
        }
        if !goes_on {
            self.call = Some(CursorOpenCall::default());
            self.run.reply(time, reply);
        } else if usage.is_some()
            && self.call.as_ref().is_some_and(|call| !call.has_usage)
            && let Some(step) = self.run.step()
        {
            step.answer(time, reply);
        }
        if let Some(call) = &mut self.call {
            call.has_usage |= usage.is_some();
            call.has_tool |= tool.is_some();
            call.id = id.or(call.id.take());
        }
        self.run.seen(time);
        let step = self.run.step_or_begin(time);
        step.say(time, text.unwrap_or_default())?;
        let Some(tool) = tool else { return Ok(()) };
        let arguments =
            [tool.raw_args, tool.params].into_iter().find(|raw| present(*raw).is_some());
        let arguments = arguments.flatten();
        let arguments = word(arguments).map_or_else(|| compact(arguments), Text::into_owned);
        let id = tool.tool_call_id.as_deref();
        step.call(time, id, tool.name.unwrap_or_default(), arguments)?;
        let failed = tool.status.as_deref() == Some("error");
        let told = if failed { tool.error.or(tool.result) } else { tool.result };
        if failed || (tool.status.as_deref() == Some("completed")) {
            let result = text_or_json(told);
            step.result(id, None, result, failed)?;
        }
        Ok(())
    }
}

/// A time as text, or in milliseconds.
fn time_of(raw: Option<&RawValue>) -> Time {
    let text = word(raw).and_then(|text| parse_time(&text));
    text.or_else(|| serde_json::from_str::<u64>(raw?.get()).ok())
}

/// The recorded tokens; zeros mean unknown.
fn usage_of(reading: Reading<'_>, raw: Option<&RawValue>) -> Option<Value> {
    let tokens = reading.usage::<Value>(raw, "tokenCount")?;
    let count = |name: &str| tokens.get(name).cloned().unwrap_or_else(|| json!(0));
    let (input, output) = (count("inputTokens"), count("outputTokens"));
    if [&input, &output].iter().all(|count| count.as_u64() == Some(0)) {
        return None;
    }
    Some(json!({ "prompt_tokens": input, "completion_tokens": output }))
}
