//! Lists of Anthropic messages: bare, under `messages` as a request has them, or one a line. A line with
//! `messages` is a run of its own.
//!
//! - An assistant message is one model call, and so are several in a row with the same message id.
//! - A user message with `tool_result` blocks answers it and is no user turn; `is_error` is a failure.
//! - There is no time in them. Where assistant messages are the responses of the API, with `usage`, the file
//!   is of the format `anthropic-responses`, which can tell tokens and money; the messages alone are
//!   `anthropic-messages`, which cannot.

mod message;

use std::borrow::Cow;

use endstop_core::units::Cost;
use serde_json::Value;
use serde_json::value::RawValue;

use self::message::{Block, Message, add_block, blocks_of, result_text};
use super::act::{Act, Full, Reply, Step};
use super::bill::{ModelCall, bill};
use super::document::{Element, Wanted, each_element};
use super::head::{Keys, ends_of};
use super::layout::{Layout, ListLine, Names};
use super::lines::JsonLines;
use super::openai_chat::OTHERS;
use super::part::Part;
use super::player::Player;
use super::warning::{WarningKind, Warnings};
use super::writer::Closing;
use super::{Format, Head, RunHeader, RunSink, Source, Supplies};
use endstop_price::UsageShape;

/// Messages alone.
pub(super) static MESSAGES: AnthropicMessages = AnthropicMessages { has_usage: false };

/// Messages of which the model's are whole responses.
pub(super) static RESPONSES: AnthropicMessages = AnthropicMessages { has_usage: true };

/// What only files of this provider mention.
const OURS: [&str; 5] = [
    "\"tool_use\"",
    "\"tool_result\"",
    "\"input_schema\"",
    "\"stop_reason\"",
    "\"redacted_thinking\"",
];

/// What files in the form of OpenAI mention, which may look alike otherwise.
const THEIRS: [&str; 4] =
    ["\"tool_calls\"", "\"tool_call_id\"", "\"function_call\"", "\"finish_reason\""];

/// The two formats.
pub(super) struct AnthropicMessages {
    has_usage: bool,
}

/// Whether messages are in the form of Anthropic rather than in that of OpenAI.
pub(super) fn is_ours(head: &Head<'_>) -> bool {
    let mentions = |words: &[&str]| words.iter().any(|word| head.mentions(word));
    let has_thoughts = head.mentions("\"thinking\"") && head.mentions("\"signature\"");
    (mentions(&OURS) || has_thoughts) && !mentions(&THEIRS)
}

impl Format for AnthropicMessages {
    fn id(&self) -> &'static str {
        if self.has_usage { "anthropic-responses" } else { "anthropic-messages" }
    }

    fn describe(&self) -> &'static str {
        if self.has_usage {
            "lists of Anthropic messages with API responses, as JSON or one a line"
        } else {
            "lists of Anthropic messages, bare, as {\"messages\": [...]}, or one a line"
        }
    }

    fn detect(&self, head: &Head<'_>) -> bool {
        let Some(keys) = head.document() else { return false };
        let is_other = OTHERS.iter().any(|other| keys.have(&[other]));
        let is_line = head.lines().any(is_message);
        let has_messages =
            if keys.in_list { is_message(keys) } else { is_line || keys.have(&["messages"]) };
        let has_usage = head.mentions("\"usage\"") && head.mentions("\"output_tokens\"");
        has_messages && !is_other && is_ours(head) && has_usage == self.has_usage
    }

    fn supplies(&self) -> Supplies {
        Supplies {
            tokens: self.has_usage,
            money: self.has_usage,
            finish: self.has_usage,
            tool_failures: true,
            ..Supplies::default()
        }
    }

    fn read(&self, source: &Source<'_>, sink: &mut dyn RunSink) {
        let mut warnings = Warnings::default();
        match Layout::of(source.main) {
            Layout::Lines => self.lines(source, sink, &mut warnings),
            Layout::OneLine if is_one_message(source.main) => {
                self.lines(source, sink, &mut warnings);
            }
            Layout::OneLine | Layout::Document => self.document(source, sink, &mut warnings),
        }
        warnings.send(sink);
    }
}

fn is_message(keys: &Keys) -> bool {
    keys.have(&["role", "content"])
}

fn is_one_message(part: &Part) -> bool {
    // A file that cannot be opened is told of when it is read.
    let (head, _) = ends_of(part).unwrap_or_default();
    Head::new(&head, b"").document().is_some_and(is_message)
}

impl AnthropicMessages {
    fn document(&self, source: &Source<'_>, sink: &mut dyn RunSink, warnings: &mut Warnings) {
        let names = Names::of(source.main);
        let mut run = Run::new(self, source, &names, source.main.stem(), sink);
        let wanted = Wanted { list: &["messages"], beside: &[] };
        each_element(source.main, wanted, warnings, &mut |element, warnings| {
            if let Element::Item(item) = element {
                run.item(item, None, warnings);
            }
        });
        run.finish();
    }

    fn lines(&self, source: &Source<'_>, sink: &mut dyn RunSink, warnings: &mut Warnings) {
        let mut lines = JsonLines::open(source.main, warnings);
        let names = Names::default();
        let mut run = Run::new(self, source, &names, source.main.stem(), &mut *sink);
        let mut has_lists = false;
        while !has_lists && lines.advance(warnings) {
            let Some(message) = lines.parse::<Message<'_>>(warnings) else { continue };
            has_lists = message.messages.is_some();
            if !has_lists {
                run.message(message, Some(lines.number()), warnings);
            }
        }
        run.finish();
        // Where one line is a list, each is a run of its own.
        while has_lists {
            if let Some(list) = lines.parse::<ListLine<'_>>(warnings) {
                let (number, names) = (lines.number(), list.names());
                let id = format!("{}/{number}", source.main.stem());
                let mut run = Run::new(self, source, &names, &id, &mut *sink);
                for item in list.messages.into_iter().flatten() {
                    run.item(item, Some(number), warnings);
                }
                run.finish();
            }
            has_lists = lines.advance(warnings);
        }
    }
}

/// A run, played while it is read.
struct Run<'s, 'h> {
    format: &'s AnthropicMessages,
    source: &'s Source<'s>,
    player: Player<'h, 's>,
    /// The model that is named for all messages.
    model: Option<&'s str>,
    open: Option<Open>,
}

/// The step that is being gathered.
struct Open {
    message: Option<String>,
    step: Step,
    reply: Reply,
}

impl<'s, 'h> Run<'s, 'h> {
    fn new(
        format: &'s AnthropicMessages,
        source: &'s Source<'s>,
        names: &'s Names,
        otherwise: &'s str,
        sink: &'h mut dyn RunSink,
    ) -> Self {
        let model = names.model.as_deref();
        let id = names.id.as_deref().unwrap_or(otherwise);
        let header = RunHeader { id, format: format.id(), file: source.main.name(), model };
        Self { format, source, player: Player::new(sink, header), model, open: None }
    }

    fn item(&mut self, item: &RawValue, line: Option<u64>, warnings: &mut Warnings) {
        match serde_json::from_str::<Message<'_>>(item.get()) {
            Ok(message) => self.message(message, line, warnings),
            Err(error) => self.warn(WarningKind::Malformed, line, warnings, || {
                format!("not a message of this format: {error}")
            }),
        }
    }

    fn warn(
        &self,
        kind: WarningKind,
        line: Option<u64>,
        warnings: &mut Warnings,
        message: impl FnOnce() -> String,
    ) {
        warnings.add(kind, self.source.main.name(), line, message);
    }

    fn message(&mut self, message: Message<'_>, line: Option<u64>, warnings: &mut Warnings) {
        let role = message.role.clone().unwrap_or_default();
        let blocks = match blocks_of(message.content) {
            Ok(blocks) => blocks,
            Err(error) => {
                return self.warn(WarningKind::Malformed, line, warnings, || {
                    format!("content is not of this format: {error}")
                });
            }
        };
        let taken = match &*role {
            "assistant" => self.reply(message, blocks, line, warnings),
            "user" => self.user(blocks),
            _ => Ok(()),
        };
        if taken == Err(Full) {
            self.warn(WarningKind::TooLarge, line, warnings, || {
                "a step holds more than is kept; the rest of it is dropped".to_owned()
            });
        }
    }

    fn reply(
        &mut self,
        message: Message<'_>,
        blocks: Vec<Block<'_>>,
        line: Option<u64>,
        warnings: &mut Warnings,
    ) -> Result<(), Full> {
        let id = message.id.as_deref();
        let goes_on =
            self.open.as_ref().is_some_and(|o| id.is_some() && o.message.as_deref() == id);
        if !goes_on {
            self.close();
        }
        let model = message.model.as_deref().or(self.model).map(str::to_owned);
        let mut told = Reply { model, ..Reply::default() };
        self.bill(&mut told, message.usage, line, warnings);
        let open = self.open.get_or_insert_with(|| Open {
            message: message.id.map(Cow::into_owned),
            step: Step::begin(None),
            reply: Reply::default(),
        });
        let finish = message.stop_reason.map(Cow::into_owned).or(open.reply.finish.take());
        if told.cost.is_some() || open.reply.cost.is_none() {
            open.reply = told;
        }
        open.reply.finish = finish;
        for block in blocks {
            add_block(&mut open.step, block)?;
        }
        Ok(())
    }

    /// What the response reports of itself; nothing where it reports nothing.
    fn bill(
        &self,
        reply: &mut Reply,
        usage: Option<&RawValue>,
        line: Option<u64>,
        warnings: &mut Warnings,
    ) {
        let Some(usage) = usage.filter(|usage| usage.get() != "null") else { return };
        let tell = |problem: String, warnings: &mut Warnings| {
            self.warn(WarningKind::BadNumber, line, warnings, || format!("usage: {problem}"));
        };
        reply.cost = Some(Cost::Unpriced);
        let usage: Value = match serde_json::from_str(usage.get()) {
            Ok(usage) => usage,
            Err(error) => return tell(error.to_string(), warnings),
        };
        let call = ModelCall {
            providers: &[Some("anthropic"), None],
            model: reply.model.as_deref(),
            shape: UsageShape::Anthropic,
            usage: &usage,
            service_tier: None,
            time: None,
        };
        let bill = bill(&call, self.source.prices);
        if let Some(problem) = bill.problem {
            tell(problem, warnings);
        }
        (reply.usage, reply.cost, reply.source) = (bill.usage, Some(bill.cost), bill.source);
    }

    fn user(&mut self, blocks: Vec<Block<'_>>) -> Result<(), Full> {
        let is_result = |block: &Block<'_>| block.kind.as_deref() == Some("tool_result");
        if !blocks.iter().any(is_result) {
            if !blocks.is_empty() {
                self.close();
                self.player.act(Act::User(None));
            }
            return Ok(());
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        for block in blocks.into_iter().filter(is_result) {
            let (result, failed) = (result_text(block.content), block.is_error == Some(true));
            match block.tool_use_id.as_deref() {
                Some(id) => open.step.result_of(id, None, result, failed)?,
                None => open.step.next_result(None, result, failed)?,
            };
        }
        Ok(())
    }

    fn close(&mut self) {
        if let Some(Open { mut step, reply, .. }) = self.open.take() {
            step.answer(None, reply);
            self.player.act(Act::Step(Box::new(step)));
        }
    }

    fn finish(mut self) {
        self.close();
        self.player.end(Closing { has_money: self.format.has_usage, ..Closing::default() });
    }
}

#[cfg(test)]
#[path = "anthropic_tests.rs"]
mod tests;
