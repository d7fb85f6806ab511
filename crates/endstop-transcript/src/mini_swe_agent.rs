//! mini-SWE-agent trajectories (`mini-swe-agent-1`, `-1.1`): one JSON document per run.
//!
//! - An assistant message is one model call. The amount that the response reports as billed (`usage.cost`) is its
//!   cost; without it the price table computes the cost. The tool's own figures (`extra.cost`, `instance_cost`) are
//!   not read: it knows neither cached tokens nor price changes.
//! - A response with exactly one bash block is one call of the tool `bash`; any other number is not executed:
//!   one refused call. `-1.1` lists the executed commands in `extra.actions`.
//! - A command with a non-zero exit code has still given the model something; it is a failed call only if it was
//!   killed for time or the shell could not run it (codes 126 and 127).

use endstop_price::UsageShape;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Number, Value};

use super::builder::RunBuilder;
use super::call_charge::ModelCall;
use super::openai_chat::{ChatChoice, finish_of_first};
use super::reading::Reading;
use super::step::{Full, ModelResponse, Step};
use super::text::{Text, text_or_json, word};
use super::time::{Time, of_seconds};
use super::timeline::TimelineEntry;
use super::{Head, RunSink};

/// The one tool.
const BASH: &str = "bash";

/// How the observation of a command that was killed for time begins.
const TIMED_OUT: &str = "The last command";

/// The codes by which a shell says that it could not run the command.
const NOT_RUN: [i64; 2] = [126, 127];

pub(crate) fn detect(head: &Head<'_>) -> bool {
    let keys = head.object();
    let has_place = keys.is_some_and(|keys| keys.have(&["info"]) || keys.have(&["messages"]));
    has_place && (head.mentions("\"mini-swe-agent-1") || head.mentions("\"mini_version\""))
}

pub(crate) fn read(reading: Reading<'_>, sink: &mut dyn RunSink) {
    let mut id = None;
    // The tool writes it behind the messages.
    reading.look_for(&["instance_id"], &mut |_, value| {
        id = word(Some(value)).map(Text::into_owned);
    });
    let mut run = RunBuilder::new(reading, sink).named(id);
    let mut index = 0;
    reading.each_item(&["messages"], &mut |item| {
        let wrong = format_args!("message {index} is not of this format");
        if let Some(message) = reading.parse::<MiniSweMessage<'_>>(item, wrong) {
            let added = take(&mut run, message, index);
            run.check(added);
        }
        index += 1;
    });
    run.end();
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct MiniSweMessage<'a> {
    role: Text<'a>,
    content: Option<&'a RawValue>,
    extra: Option<Extra<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Extra<'a> {
    response: Option<MiniSweResponse<'a>>,
    /// The commands that were executed, in `-1.1`.
    actions: Option<Vec<Action>>,
    timestamp: Option<Number>,
    returncode: Option<i64>,
    exception_info: Option<Value>,
}

#[derive(Deserialize)]
struct Action {
    command: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct MiniSweResponse<'a> {
    model: Option<Text<'a>>,
    provider: Option<Text<'a>>,
    service_tier: Option<Text<'a>>,
    created: Option<Number>,
    choices: Option<Vec<ChatChoice<'a>>>,
    usage: Option<Value>,
}

fn take(run: &mut RunBuilder<'_, '_>, message: MiniSweMessage<'_>, index: u64) -> Result<(), Full> {
    let extra = message.extra.unwrap_or_default();
    let text = text_or_json(message.content);
    match &*message.role {
        "assistant" => {
            let response = extra.response.unwrap_or_default();
            let time = response.created.as_ref().or(extra.timestamp.as_ref()).and_then(of_seconds);
            let reply = price(run.reading, response, time, index);
            add_calls(run.reply(time, reply), text, extra.actions, time)
        }
        "user" | "tool" | "exit" => observation(run, &message.role, &extra, text),
        _ => Ok(()),
    }
}

fn price(
    reading: Reading<'_>,
    response: MiniSweResponse<'_>,
    time: Time,
    index: u64,
) -> ModelResponse {
    let usage = response.usage.filter(|usage| !usage.is_null());
    let providers = &[response.provider.as_deref(), None];
    let call = usage.as_ref().map(|usage| ModelCall {
        service_tier: response.service_tier.as_deref(),
        ..ModelCall::new(UsageShape::OpenAiChat, usage).of(providers).at(time)
    });
    let reply = reading.reply(response.model, call, format_args!("usage of message {index}"));
    ModelResponse { finish: finish_of_first(response.choices), ..reply }
}

fn observation(
    run: &mut RunBuilder<'_, '_>,
    role: &str,
    extra: &Extra<'_>,
    text: String,
) -> Result<(), Full> {
    let time = extra.timestamp.as_ref().and_then(of_seconds);
    match run.step() {
        Some(step) if step.waits() => {
            let failed = has_failed(extra, &text);
            let added = step.next_result(time, text, failed).map(|_| ());
            run.seen(time);
            return added;
        }
        // The words that refuse a response without exactly one command, or the run's own closing note.
        Some(step) if step.has_refused() => {}
        // A task is not an act of the agent.
        _ if role == "user" => run.push(TimelineEntry::User(time)),
        _ => {}
    }
    Ok(())
}

fn add_calls(
    step: &mut Step,
    text: String,
    actions: Option<Vec<Action>>,
    time: Time,
) -> Result<(), Full> {
    let commands = match actions {
        Some(actions) => actions.into_iter().map(|a| a.command.unwrap_or_default()).collect(),
        None => match bash_blocks(&text)[..] {
            [command] => vec![command.to_owned()],
            _ => Vec::new(),
        },
    };
    step.say(time, text)?;
    if commands.is_empty() {
        return step.refuse(time, BASH);
    }
    commands.into_iter().try_for_each(|command| step.call(time, None::<String>, BASH, command))
}

/// The texts between a line that ends in three backticks and `bash`, and three backticks on a line's start.
fn bash_blocks(text: &str) -> Vec<&str> {
    let mut blocks = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("```bash") {
        rest = after;
        let body = after.trim_start();
        let has_line_feed = after.get(..after.len() - body.len()).is_some_and(|s| s.contains('\n'));
        if !has_line_feed {
            continue;
        }
        let Some((block, after)) = body.split_once("\n```") else { break };
        blocks.push(block);
        rest = after;
    }
    blocks
}

fn has_failed(extra: &Extra<'_>, text: &str) -> bool {
    let stated =
        text.strip_prefix("<returncode>").and_then(|rest| rest.split_once("</returncode>"));
    let code = extra.returncode.or_else(|| stated?.0.trim().parse().ok());
    let was_killed = text.starts_with(TIMED_OUT) && text.contains("timed out");
    let has_exception = match &extra.exception_info {
        Some(Value::String(text)) => !text.is_empty(),
        Some(value) => !value.is_null(),
        None => false,
    };
    was_killed || has_exception || code.is_some_and(|code| NOT_RUN.contains(&code))
}

#[cfg(test)]
mod tests;
