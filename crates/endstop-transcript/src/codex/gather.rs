//! Gathers the lines of a rollout to acts.

use std::borrow::Cow;
use std::collections::VecDeque;

use endstop_core::units::Cost;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::record::{EventMsg, Item, Record, SessionMeta, TurnContext, output_of, text_of};
use super::usage::Totals;
use crate::act::{Act, Full, Reply, Step, Time, parse_time};
use crate::bill::{ModelCall, bill};
use crate::lines::JsonLines;
use crate::warning::{WarningKind, Warnings};
use endstop_price::{PriceTable, UsageShape};

/// A report and the items written within this time after it, in milliseconds, are of one call: a model
/// takes longer for its first word.
const SAME_CALL_MILLIS: u64 = 250;

/// Lines of a copied session follow one another within this time, in milliseconds; a model takes longer.
const BURST_MILLIS: u64 = 500;

/// The provider where the session names none.
const DEFAULT_PROVIDER: &str = "openai";

pub(super) struct Gather<'s> {
    prices: &'s PriceTable,
    session: Option<String>,
    provider: Option<String>,
    model: Option<String>,
    totals: Totals,
    open: Option<Open>,
    /// A report without a call yet.
    pending: Option<Report>,
    copied: Copied,
    /// A user turn at the end of the copy, which is the session's own if a reply to it follows.
    copied_turn: Option<Time>,
    first: Option<Time>,
    last: Time,
    ready: VecDeque<Act>,
}

/// Whether the file is still in the copy of another session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Copied {
    Unknown,
    /// Until a line is later than `since` and does not follow `last` at once.
    Within {
        since: Time,
        last: Time,
    },
    Over,
}

struct Open {
    step: Step,
    time: Time,
    report: Option<Report>,
}

struct Report {
    usage: Value,
    time: Time,
    line: u64,
}

impl<'s> Gather<'s> {
    pub(super) fn new(prices: &'s PriceTable) -> Self {
        Self {
            prices,
            session: None,
            provider: None,
            model: None,
            totals: Totals::default(),
            open: None,
            pending: None,
            copied: Copied::Unknown,
            copied_turn: None,
            first: None,
            last: None,
            ready: VecDeque::new(),
        }
    }

    pub(super) fn next(&mut self) -> Option<Act> {
        self.ready.pop_front()
    }

    pub(super) fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    pub(super) fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// The time of the first record that counts.
    pub(super) fn first(&self) -> Time {
        self.first.flatten()
    }

    pub(super) fn take(
        &mut self,
        record: &Record<'_>,
        lines: &JsonLines<'_>,
        warnings: &mut Warnings,
    ) {
        let time = record.timestamp.as_deref().and_then(parse_time);
        let taken = match &*record.kind {
            "session_meta" => payload(record).map(|meta| self.meta(&meta, time)),
            "turn_context" => payload(record).map(|turn: TurnContext<'_>| {
                self.model = turn.model.map(Cow::into_owned).or(self.model.take());
            }),
            "event_msg" => payload(record).map(|event| self.event(&event, time, lines, warnings)),
            "response_item" => payload(record).map(|item| {
                if !self.is_copy(time) && self.item(item, time, lines, warnings) == Err(Full) {
                    lines.warn(WarningKind::TooLarge, warnings, || {
                        "a step holds more than is kept; the rest of it is dropped".to_owned()
                    });
                }
            }),
            _ => Ok(()),
        };
        if let Err(error) = taken {
            lines.warn_of(&error, warnings);
        }
    }

    pub(super) fn finish(&mut self, lines: &JsonLines<'_>, warnings: &mut Warnings) {
        self.close(lines, warnings);
        self.flush_pending(lines, warnings);
    }

    fn meta(&mut self, meta: &SessionMeta<'_>, time: Time) {
        // A second one is that of a copied session.
        if self.copied != Copied::Unknown {
            return;
        }
        self.session = meta.id.as_deref().map(str::to_owned);
        self.provider = meta.model_provider.as_deref().map(str::to_owned);
        let since = meta.timestamp.as_deref().and_then(parse_time).or(time);
        self.copied = match meta.copies_another() {
            true => Copied::Within { since, last: time },
            false => Copied::Over,
        };
    }

    /// Whether a line of this time belongs to the copy that the file begins with.
    fn is_copy(&mut self, time: Time) -> bool {
        let Copied::Within { since, last } = self.copied else { return false };
        let is_old = time.is_none() || time <= since;
        let pause = time.unwrap_or(0).saturating_sub(last.unwrap_or(0));
        if is_old || pause < BURST_MILLIS {
            self.copied = Copied::Within { since, last: last.max(time) };
            return true;
        }
        self.copied = Copied::Over;
        if let Some(turn) = self.copied_turn.take() {
            self.note(turn);
            self.last = turn.or(self.last);
            self.ready.push_back(Act::User(turn));
        }
        false
    }

    fn event(
        &mut self,
        event: &EventMsg<'_>,
        time: Time,
        lines: &JsonLines<'_>,
        warnings: &mut Warnings,
    ) {
        match &*event.kind {
            "user_message" if self.is_copy(time) => self.copied_turn = Some(time),
            "user_message" => {
                self.note(time);
                self.close(lines, warnings);
                self.flush_pending(lines, warnings);
                self.last = time.or(self.last);
                self.ready.push_back(Act::User(time));
            }
            "token_count" => {
                // Copied reports move the totals, too.
                let usage = self.totals.usage(event.info, lines, warnings);
                let Some(usage) = usage else { return };
                if self.is_copy(time) {
                    self.copied_turn = None;
                } else {
                    let line = lines.number();
                    self.report(Report { usage, time, line }, lines, warnings);
                }
            }
            _ => {}
        }
    }

    fn report(&mut self, report: Report, lines: &JsonLines<'_>, warnings: &mut Warnings) {
        self.note(report.time);
        match &mut self.open {
            Some(open) if open.report.is_none() => {
                open.time = open.time.max(report.time);
                open.report = Some(report);
            }
            _ => {
                self.close(lines, warnings);
                self.flush_pending(lines, warnings);
                self.pending = Some(report);
            }
        }
    }

    fn item(
        &mut self,
        item: Item<'_>,
        time: Time,
        lines: &JsonLines<'_>,
        warnings: &mut Warnings,
    ) -> Result<(), Full> {
        match (&*item.kind, item.role.as_deref()) {
            ("message", Some("assistant")) => {
                let text = text_of(item.content);
                self.open_step(time, lines, warnings).say(time, text)
            }
            // A search is made by the provider, within the call.
            ("reasoning" | "web_search_call", _) => {
                self.open_step(time, lines, warnings);
                Ok(())
            }
            ("function_call" | "custom_tool_call" | "local_shell_call", _) => {
                let arguments = text_of(item.arguments.or(item.input).or(item.action));
                let tool = item.name.map_or_else(|| item.kind.into_owned(), Cow::into_owned);
                let id = item.call_id.map(Cow::into_owned);
                self.open_step(time, lines, warnings).call(time, id, tool, arguments)
            }
            ("function_call_output" | "custom_tool_call_output" | "local_shell_call_output", _) => {
                let (Some(open), Some(id)) = (&mut self.open, item.call_id.as_deref()) else {
                    return Ok(());
                };
                let (result, failed) = output_of(item.output);
                self.last = time.or(self.last);
                open.step.result_of(id, time, result, failed).map(|_| ())
            }
            _ => Ok(()),
        }
    }

    /// The step that an item of the model belongs to.
    fn open_step(
        &mut self,
        time: Time,
        lines: &JsonLines<'_>,
        warnings: &mut Warnings,
    ) -> &mut Step {
        self.note(time);
        let is_next = |open: &Open| match &open.report {
            // Old versions write the report first and the call's items at once after it.
            Some(report) => open.step.has_result() || !follows(report.time, time),
            None => open.step.has_result(),
        };
        if self.open.as_ref().is_some_and(is_next) {
            self.close(lines, warnings);
        }
        if self.pending.as_ref().is_some_and(|report| !follows(report.time, time)) {
            self.flush_pending(lines, warnings);
        }
        let begun = self.last.or(time);
        let report = self.pending.take();
        self.last = time.or(self.last);
        let open = self.open.get_or_insert_with(|| Open { step: Step::begin(begun), time, report });
        open.time = open.time.max(time);
        &mut open.step
    }

    /// A report whose call left no items is a call all the same.
    fn flush_pending(&mut self, lines: &JsonLines<'_>, warnings: &mut Warnings) {
        if let Some(report) = self.pending.take() {
            let (step, time) = (Step::begin(self.last.or(report.time)), report.time);
            self.open = Some(Open { step, time, report: Some(report) });
            self.close(lines, warnings);
        }
    }

    fn close(&mut self, lines: &JsonLines<'_>, warnings: &mut Warnings) {
        let Some(mut open) = self.open.take() else { return };
        let mut reply =
            Reply { model: self.model.clone(), cost: Some(Cost::Unpriced), ..Reply::default() };
        if let Some(report) = open.report {
            let call = ModelCall {
                providers: &[Some(self.provider.as_deref().unwrap_or(DEFAULT_PROVIDER))],
                model: reply.model.as_deref(),
                shape: UsageShape::OpenAiResponses,
                usage: &report.usage,
                service_tier: None,
                time: report.time,
            };
            let bill = bill(&call, self.prices);
            if let Some(problem) = bill.problem {
                lines.warn_at(report.line, WarningKind::BadNumber, warnings, || {
                    format!("usage: {problem}")
                });
            }
            (reply.usage, reply.cost, reply.source) = (bill.usage, Some(bill.cost), bill.source);
        }
        self.last = open.time.max(self.last);
        open.step.answer(open.time, reply);
        self.ready.push_back(Act::Step(Box::new(open.step)));
    }

    fn note(&mut self, time: Time) {
        let first = self.first.get_or_insert(time);
        *first = first.or(time);
    }
}

fn follows(before: Time, time: Time) -> bool {
    match (before, time) {
        (Some(before), Some(time)) => time.saturating_sub(before) <= SAME_CALL_MILLIS,
        _ => false,
    }
}

fn payload<'a, T: Deserialize<'a>>(record: &Record<'a>) -> Result<T, serde_json::Error> {
    serde_json::from_str(record.payload.map_or("{}", RawValue::get))
}
