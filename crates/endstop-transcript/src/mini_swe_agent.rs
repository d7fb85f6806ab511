//! mini-SWE-agent trajectories (`mini-swe-agent-1`, `-1.1`): one JSON document a run.
//!
//! - An assistant message is one model call. What the response says was billed (`usage.cost`) is its cost;
//!   without that the price table computes it. What the tool itself computed (`extra.cost`,
//!   `instance_cost`) is not read: it knows neither cached tokens nor price changes.
//! - A reply with exactly one bash block is one call of the tool `bash`; any other number is not executed:
//!   one refused call. `-1.1` lists the executed commands in `extra.actions`.
//! - A command that ends with a non-zero code has still told the model something; it is a failed call only
//!   if it was killed for time or the shell could not run it (codes 126 and 127).

use std::borrow::Cow;

use endstop_core::units::Cost;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Number, Value};

use super::act::{Act, Full, Reply, Step, Time};
use super::bill::{ModelCall, bill};
use super::document::{Element, Wanted, each_element, look_for};
use super::part::Part;
use super::player::Player;
use super::warning::{WarningKind, Warnings};
use super::writer::Closing;
use super::{Format, Head, RunHeader, RunSink, Source, Supplies};
use endstop_price::{PriceTable, UsageShape};

/// The one tool.
const BASH: &str = "bash";

/// How the observation of a command that was killed for time begins.
const TIMED_OUT: &str = "The last command";

/// The codes by which a shell says that it could not run the command.
const NOT_RUN: [i64; 2] = [126, 127];

/// The format.
pub(super) struct MiniSweAgent;

impl Format for MiniSweAgent {
    fn id(&self) -> &'static str {
        "mini-swe-agent"
    }

    fn describe(&self) -> &'static str {
        "mini-SWE-agent trajectories, `<instance>.traj.json`"
    }

    fn kept(&self) -> &'static str {
        "the file or folder of `--output`"
    }

    fn detect(&self, head: &Head<'_>) -> bool {
        let keys = head.document().filter(|keys| !keys.in_list);
        let has_place = keys.is_some_and(|keys| keys.have(&["info"]) || keys.have(&["messages"]));
        has_place && (head.mentions("\"mini-swe-agent-1") || head.mentions("\"mini_version\""))
    }

    fn supplies(&self) -> Supplies {
        Supplies {
            tokens: true,
            money: true,
            time: true,
            tool_failures: true,
            finish: true,
            ..Supplies::default()
        }
    }

    fn read(&self, source: &Source<'_>, sink: &mut dyn RunSink) {
        let mut warnings = Warnings::default();
        read_run(source, sink, &mut warnings);
        warnings.send(sink);
    }
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    extra: Option<Extra<'a>>,
}

#[derive(Default, Deserialize)]
struct Extra<'a> {
    #[serde(borrow)]
    response: Option<Response<'a>>,
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
struct Response<'a> {
    #[serde(borrow)]
    model: Option<Cow<'a, str>>,
    #[serde(borrow)]
    provider: Option<Cow<'a, str>>,
    #[serde(borrow)]
    service_tier: Option<Cow<'a, str>>,
    created: Option<Number>,
    #[serde(borrow)]
    choices: Option<Vec<Choice<'a>>>,
    usage: Option<Value>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    finish_reason: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

fn read_run(source: &Source<'_>, sink: &mut dyn RunSink, warnings: &mut Warnings) {
    let part = source.main;
    let mut id = None;
    // The tool writes it behind the messages.
    look_for(part, &["instance_id"], &mut |_, value| {
        id = serde_json::from_str::<Text<'_>>(value.get()).ok().map(|text| text.0.into_owned());
    });
    let header = RunHeader {
        id: id.as_deref().unwrap_or(part.stem()),
        format: MiniSweAgent.id(),
        file: part.name(),
        model: None,
    };
    let player = Player::new(sink, header);
    let mut gather = Gather { part, prices: source.prices, player, open: None, last: None };
    let wanted = Wanted { list: &["messages"], beside: &[] };
    let mut index = 0;
    each_element(part, wanted, warnings, &mut |element, warnings| {
        let Element::Item(message) = element else { return };
        match serde_json::from_str::<Message<'_>>(message.get()) {
            Ok(message) => gather.message(message, index, warnings),
            Err(error) => {
                let message = || format!("message {index} is not of this format: {error}");
                warnings.add(WarningKind::Malformed, part.name(), None, message);
            }
        }
        index += 1;
    });
    gather.close();
    gather.player.end(Closing { has_money: true, ..Closing::default() });
}

struct Gather<'s, 'h> {
    part: &'s Part,
    prices: &'s PriceTable,
    player: Player<'h, 's>,
    open: Option<Step>,
    last: Time,
}

impl Gather<'_, '_> {
    fn message(&mut self, message: Message<'_>, index: u64, warnings: &mut Warnings) {
        let extra = message.extra.unwrap_or_default();
        let text = text_of(message.content);
        let taken = match &*message.role {
            "assistant" => self.reply(extra, text, index, warnings),
            "user" | "tool" | "exit" => self.observation(&message.role, &extra, text),
            _ => Ok(()),
        };
        if taken == Err(Full) {
            warnings.add(WarningKind::TooLarge, self.part.name(), None, || {
                "a step holds more than is kept; the rest of it is dropped".to_owned()
            });
        }
    }

    fn reply(
        &mut self,
        extra: Extra<'_>,
        text: String,
        index: u64,
        warnings: &mut Warnings,
    ) -> Result<(), Full> {
        self.close();
        let response = extra.response.unwrap_or_default();
        let time = time_of(response.created.as_ref().or(extra.timestamp.as_ref()));
        let mut step = Step::begin(self.last.or(time));
        self.last = time.or(self.last);
        let reply = self.price(response, time, index, warnings);
        step.answer(time, reply);
        let taken = add_calls(&mut step, text, extra.actions, time);
        self.open = Some(step);
        taken
    }

    fn price(
        &self,
        response: Response<'_>,
        time: Time,
        index: u64,
        warnings: &mut Warnings,
    ) -> Reply {
        let mut reply = Reply {
            model: response.model.map(Cow::into_owned),
            finish: response
                .choices
                .and_then(|choices| choices.into_iter().next()?.finish_reason)
                .map(Cow::into_owned),
            cost: Some(Cost::Unpriced),
            ..Reply::default()
        };
        if let Some(usage) = response.usage.filter(|usage| !usage.is_null()) {
            let call = ModelCall {
                providers: &[response.provider.as_deref(), None],
                model: reply.model.as_deref(),
                shape: UsageShape::OpenAiChat,
                usage: &usage,
                service_tier: response.service_tier.as_deref(),
                time,
            };
            let bill = bill(&call, self.prices);
            if let Some(problem) = bill.problem {
                let message = || format!("usage of message {index}: {problem}");
                warnings.add(WarningKind::BadNumber, self.part.name(), None, message);
            }
            (reply.usage, reply.cost, reply.source) = (bill.usage, Some(bill.cost), bill.source);
        }
        reply
    }

    fn observation(&mut self, role: &str, extra: &Extra<'_>, text: String) -> Result<(), Full> {
        let time = time_of(extra.timestamp.as_ref());
        match &mut self.open {
            Some(step) if step.waits() => {
                self.last = time.or(self.last);
                step.next_result(time, text.clone(), has_failed(extra, &text)).map(|_| ())
            }
            // The words that refuse a reply without exactly one command, or the run's own closing note.
            Some(step) if step.has_refused() || role != "user" => Ok(()),
            _ if role == "user" => {
                self.close();
                self.player.act(Act::User(time));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn close(&mut self) {
        if let Some(step) = self.open.take() {
            self.player.act(Act::Step(Box::new(step)));
        }
    }
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
    if !text.is_empty() {
        step.say(time, text)?;
    }
    if commands.is_empty() {
        return step.refuse(time, BASH.to_owned());
    }
    commands.into_iter().try_for_each(|command| step.call(time, None, BASH.to_owned(), command))
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

/// Seconds since 1970, whole or with decimals.
fn time_of(seconds: Option<&Number>) -> Time {
    let text = seconds?.to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let millis: String = fraction.chars().chain("000".chars()).take(3).collect();
    whole.parse::<u64>().ok()?.checked_mul(1_000)?.checked_add(millis.parse().ok()?)
}

/// A text, or the texts of a list of parts.
fn text_of(raw: Option<&RawValue>) -> String {
    let Some(raw) = raw.map(RawValue::get).filter(|text| *text != "null") else {
        return String::new();
    };
    match serde_json::from_str::<Text<'_>>(raw) {
        Ok(text) => text.0.into_owned(),
        Err(_) => raw.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bash_blocks_are_counted_as_the_tool_counts_them() {
        for (text, count) in [
            ("", 0),
            ("```bash\nls\n```", 1),
            ("THOUGHT\n```bash\nls && cat a\n```\nmore", 1),
            ("```bash\nls\n```\n```bash\npwd\n```", 2),
            ("```bash ls```", 0),
            ("```python\nls\n```", 0),
            ("```bash\nls", 0),
            ("```bash\n\n```", 0),
            ("```bashful\nx\n```", 0),
        ] {
            assert_eq!(bash_blocks(text).len(), count, "{text}");
        }
    }

    #[test]
    fn seconds_become_milliseconds_exactly() {
        let time = |text: &str| time_of(serde_json::from_str(text).ok().as_ref());
        assert_eq!(time("1763510503"), Some(1_763_510_503_000));
        assert_eq!(time("1763510503.2519"), Some(1_763_510_503_251));
        assert_eq!(time("-1"), None);
        assert_eq!(time("1e300"), None);
    }
}
