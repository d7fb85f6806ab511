//! Lists of Anthropic messages: bare, under `messages` as a request has them, or one per line. A line with `messages`
//! is a separate run.
//!
//! - An assistant message is one model call, and so are several in a row with the same message id.
//! - A user message with `tool_result` blocks answers it and is no user turn; `is_error` is a failure.
//! - There is no time in them. Where assistant messages are the responses of the API, with `usage`, the file
//!   is of the format `anthropic-responses`, which can tell tokens and money; the messages alone are
//!   `anthropic-messages`, which cannot.

pub(crate) mod message;

use endstop_core::units::Cost;
use endstop_price::UsageShape;
use serde_json::Value;
use serde_json::value::RawValue;

use self::message::{AnthropicMessage, ContentBlock, MessageContent};
use super::builder::RunBuilder;
use super::call_charge::ModelCall;
use super::head::{Keys, first_keys};
use super::layout::{Layout, ListLine, Names, are_of_anthropic, is_of_another_format};
use super::reading::Reading;
use super::step::{Full, ModelResponse};
use super::text::{Text, whole_text};
use super::warning::WarningKind;
use super::{Head, RunSink};

/// Whether these are messages alone.
pub(crate) fn detect_messages(head: &Head<'_>) -> bool {
    has_messages(head) && !has_usage(head)
}

/// Whether these are messages of which the model's are complete responses.
pub(crate) fn detect_responses(head: &Head<'_>) -> bool {
    has_messages(head) && has_usage(head)
}

fn has_messages(head: &Head<'_>) -> bool {
    let Some(keys) = head.document() else { return false };
    let is_line = head.lines().any(is_message);
    let has_messages =
        if keys.in_list { is_message(keys) } else { is_line || keys.have(&["messages"]) };
    has_messages && !is_of_another_format(keys) && are_of_anthropic(head)
}

fn has_usage(head: &Head<'_>) -> bool {
    head.mentions("\"usage\"") && head.mentions("\"output_tokens\"")
}

pub(crate) fn read(reading: Reading<'_>, sink: &mut dyn RunSink) {
    match Layout::of(reading.part) {
        Layout::Lines => read_lines(reading, sink),
        Layout::OneLine if first_keys(reading.part).as_ref().is_some_and(is_message) => {
            read_lines(reading, sink);
        }
        Layout::OneLine | Layout::Document => {
            let mut list = MessageList::new(reading, Names::of(reading.part), None, sink);
            reading.each_item(&["messages"], &mut |item| list.item(item));
            list.finish();
        }
    }
}

fn is_message(keys: &Keys) -> bool {
    keys.have(&["role", "content"])
}

fn read_lines(reading: Reading<'_>, sink: &mut dyn RunSink) {
    let mut lines = reading.lines();
    let mut run = MessageList::new(reading, Names::default(), None, &mut *sink);
    let mut has_lists = false;
    while !has_lists && lines.advance() {
        let Some(message) = lines.parse::<AnthropicMessage<'_>>() else { continue };
        has_lists = message.messages.is_some();
        if !has_lists {
            run.run.at_line(lines.number());
            run.message(message);
        }
    }
    run.finish();
    // If one line is a list, each is a separate run.
    while has_lists {
        if let Some(list) = lines.parse::<ListLine<'_>>() {
            let number = lines.number();
            let id = format!("{}/{number}", reading.part.stem());
            let mut run =
                MessageList::new(reading.at(Some(number)), list.names(), Some(id), &mut *sink);
            list.messages.into_iter().flatten().for_each(|item| run.item(item));
            run.finish();
        }
        has_lists = lines.advance();
    }
}

/// A run, written while it is read.
struct MessageList<'s, 'w> {
    run: RunBuilder<'s, 'w>,
    /// The message whose step is open, and its data.
    open: Option<(Option<String>, ModelResponse)>,
}

impl<'s, 'w> MessageList<'s, 'w> {
    fn new(
        reading: Reading<'s>,
        names: Names,
        otherwise: Option<String>,
        sink: &'w mut dyn RunSink,
    ) -> Self {
        let run = RunBuilder::new(reading, sink).named(names.id.or(otherwise));
        Self { run: run.with_model(names.model), open: None }
    }

    fn item(&mut self, item: &RawValue) {
        let wrong = "not a message of this format";
        if let Some(message) = self.run.reading.parse::<AnthropicMessage<'_>>(item, wrong) {
            self.message(message);
        }
    }

    fn message(&mut self, message: AnthropicMessage<'_>) {
        let reading = self.run.reading;
        let content = match MessageContent::read(message.content) {
            Ok(content) => content,
            Err(error) => {
                return reading.warn(WarningKind::Malformed, || {
                    format!("content is not of this format: {error}")
                });
            }
        };
        let added = match message.role.as_deref() {
            Some("assistant") => self.reply(message, content),
            Some("user") => self.user(content),
            _ => Ok(()),
        };
        self.run.check(added);
    }

    fn reply(
        &mut self,
        message: AnthropicMessage<'_>,
        content: MessageContent<'_>,
    ) -> Result<(), Full> {
        let id = message.id.as_deref();
        let goes_on =
            self.open.as_ref().is_some_and(|(open, _)| id.is_some() && open.as_deref() == id);
        if !goes_on {
            self.close();
        }
        let model = message.model.as_deref().or(self.run.model());
        let told = reply_of(self.run.reading, model, message.usage);
        let step = self.run.step_or_begin(None);
        let (_, reply) = self
            .open
            .get_or_insert_with(|| (message.id.map(Text::into_owned), ModelResponse::default()));
        let finish = message.stop_reason.map(Text::into_owned).or(reply.finish.take());
        if told.cost.is_some() || reply.cost.is_none() {
            *reply = told;
        }
        reply.finish = finish;
        content.add_to(step, None)
    }

    fn user(&mut self, content: MessageContent<'_>) -> Result<(), Full> {
        let blocks = match content {
            MessageContent::Blocks(blocks) if blocks.iter().any(ContentBlock::is_result) => blocks,
            content => {
                if !content.is_empty() {
                    self.close();
                    self.run.user(None);
                }
                return Ok(());
            }
        };
        blocks.into_iter().filter(ContentBlock::is_result).try_for_each(|block| {
            let (result, failed) = (whole_text(block.content), block.is_error == Some(true));
            self.run.result(block.tool_use_id.as_deref(), None, result, failed)
        })
    }

    fn close(&mut self) {
        let Some((_, reply)) = self.open.take() else { return };
        if let Some(step) = self.run.step() {
            step.answer(None, reply);
        }
        self.run.close();
    }

    fn finish(mut self) {
        self.close();
        self.run.end();
    }
}

/// The response's report of itself; nothing if it has none.
fn reply_of(reading: Reading<'_>, model: Option<&str>, usage: Option<&RawValue>) -> ModelResponse {
    let mut reply = ModelResponse::of_model(model);
    if usage.is_some_and(|usage| usage.get() != "null") {
        reply.cost = Some(Cost::Unpriced);
    }
    if let Some(usage) = reading.usage::<Value>(usage, "usage") {
        let providers = &[Some("anthropic"), None];
        let call = ModelCall::new(UsageShape::Anthropic, &usage).of(providers);
        reading.price(&mut reply, &call, "usage");
    }
    reply
}

#[cfg(test)]
mod tests;
