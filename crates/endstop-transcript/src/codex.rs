//! Codex rollouts: JSON lines of `timestamp`, `type`, `payload`.
//!
//! - A model call is what the model wrote between two reports of usage (`token_count`). New versions write
//!   the report after the call's items, old ones just ahead of them. Without reports an item that comes
//!   after a tool's output begins the next call.
//! - A report's `last_token_usage` counts. If it is absent, the difference of the totals counts; totals may start
//!   over. A report with the same totals as the one before it is a repetition, unless its `last_token_usage` is zero and
//!   a call waits for its report: a stop response of Endstop used no tokens.
//! - A fork or a spawned thread begins with a copy of its parent's lines, restamped in one burst or with
//!   their own, older times. They were paid for in the parent's run and are not counted again.
//! - A tool failed if its output says so: an exit code other than 0, or `success` false.
//! - The model is that of the last `turn_context`.
//!
//! More than 250 lines because usage stands after calls or ahead of them by version, or as totals, and forks begin with a
//! copy of another session.

mod record;

use std::path::{Component, Path, PathBuf};

use endstop_price::UsageShape;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use self::record::{CodexItem, CodexRecord, EventMsg, SessionMeta, TurnContext, output_of};
use super::builder::RunBuilder;
use super::call_charge::ModelCall;
use super::lines::JsonLines;
use super::reading::Reading;
use super::step::{Full, Step};
use super::text::{Text, present, whole_text};
use super::time::{Time, parse_time};
use super::warning::WarningKind;
use super::{Head, RunSink};

/// The directory of archived sessions, and their directory before.
pub(crate) const ARCHIVE: &str = "archived_sessions";
pub(crate) const ACTIVE: &str = "sessions";

/// A report and the items written within this time after it, in milliseconds, are of one call: a model
/// takes longer for its first word.
const SAME_CALL_MILLIS: u64 = 250;

/// Lines of a copied session follow one another within this time, in milliseconds; a model takes longer.
const BURST_MILLIS: u64 = 500;

/// The provider if the session names none.
const DEFAULT_PROVIDER: &str = "openai";

/// The provider of sessions under `endstop run`: its gateway, in front of [`DEFAULT_PROVIDER`].
const GATEWAY: &str = "endstop";

pub(crate) fn detect(head: &Head<'_>) -> bool {
    head.lines().any(|keys| keys.have(&["timestamp", "type", "payload"]))
}

pub(crate) fn shadowed_by(path: &Path) -> Option<PathBuf> {
    let is_archive = |part: &Component<'_>| part.as_os_str() == ARCHIVE;
    let last = path.components().filter(is_archive).count().checked_sub(1)?;
    let mut seen = 0;
    let swap = |part: Component<'_>| {
        if !is_archive(&part) {
            return part.as_os_str().to_owned();
        }
        seen += 1;
        if seen == last + 1 { ACTIVE.into() } else { part.as_os_str().to_owned() }
    };
    Some(path.components().map(swap).collect())
}

pub(crate) fn read(reading: Reading<'_>, sink: &mut dyn RunSink) {
    let mut lines = reading.lines();
    let mut assembler = CodexAssembler {
        run: RunBuilder::new(reading, sink),
        provider: None,
        totals: Totals::default(),
        call: None,
        pending: None,
        copied: Copied::Unknown,
        copied_turn: None,
    };
    while lines.advance() {
        assembler.run.at_line(lines.number());
        if let Some(record) = lines.parse::<CodexRecord<'_>>() {
            assembler.record(&record, &lines);
        }
    }
    assembler.close();
    assembler.flush_pending();
    assembler.run.end();
}

struct CodexAssembler<'s, 'w> {
    run: RunBuilder<'s, 'w>,
    provider: Option<String>,
    totals: Totals,
    /// The model call whose step is open.
    call: Option<CodexOpenCall>,
    /// A report without a call yet.
    pending: Option<Report>,
    copied: Copied,
    /// A user turn at the end of the copy, which is the session's own if a response to it follows.
    copied_turn: Option<Time>,
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

struct CodexOpenCall {
    time: Time,
    report: Option<Report>,
}

struct Report {
    usage: Value,
    time: Time,
    line: u64,
}

impl CodexAssembler<'_, '_> {
    fn record(&mut self, record: &CodexRecord<'_>, lines: &JsonLines<'_>) {
        let time = record.timestamp.as_deref().and_then(parse_time);
        let taken = match &*record.kind {
            "session_meta" => payload(record).map(|meta| self.meta(&meta, time)),
            "turn_context" => payload(record).map(|turn: TurnContext<'_>| {
                self.run.set_model(turn.model.map(Text::into_owned));
            }),
            "event_msg" => payload(record).map(|event| self.event(&event, time, lines)),
            "response_item" => payload(record).map(|item| {
                if !self.is_copy(time) {
                    let added = self.item(item, time);
                    self.run.check(added);
                }
            }),
            _ => Ok(()),
        };
        if let Err(error) = taken {
            lines.warn_of(&error);
        }
    }

    fn meta(&mut self, meta: &SessionMeta<'_>, time: Time) {
        // A second one is that of a copied session.
        if self.copied != Copied::Unknown {
            return;
        }
        self.run.set_id(|| meta.id.as_deref().map(str::to_owned));
        let provider = meta.model_provider.as_deref().filter(|provider| *provider != GATEWAY);
        self.provider = provider.map(str::to_owned);
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
            self.run.user(turn);
        }
        false
    }

    fn event(&mut self, event: &EventMsg<'_>, time: Time, lines: &JsonLines<'_>) {
        match &*event.kind {
            "user_message" if self.is_copy(time) => self.copied_turn = Some(time),
            "user_message" => {
                self.close();
                self.flush_pending();
                self.run.user(time);
            }
            "token_count" => {
                // Copied reports move the totals, too.
                let awaited = self.call.as_ref().is_some_and(|call| call.report.is_none());
                let Some(usage) = self.totals.usage(event.info, awaited, lines) else { return };
                if self.is_copy(time) {
                    self.copied_turn = None;
                } else {
                    self.report(Report { usage, time, line: lines.number() });
                }
            }
            _ => {}
        }
    }

    fn report(&mut self, report: Report) {
        self.run.note(report.time);
        match &mut self.call {
            Some(call) if call.report.is_none() => {
                call.time = call.time.max(report.time);
                call.report = Some(report);
            }
            _ => {
                self.close();
                self.flush_pending();
                self.pending = Some(report);
            }
        }
    }

    fn item(&mut self, item: CodexItem<'_>, time: Time) -> Result<(), Full> {
        match (&*item.kind, item.role.as_deref()) {
            ("message", Some("assistant")) => self.step(time).piece(time, whole_text(item.content)),
            // A search is made by the provider, within the call.
            ("reasoning" | "web_search_call", _) => {
                self.step(time);
                Ok(())
            }
            ("function_call" | "custom_tool_call" | "local_shell_call", _) => {
                let arguments = whole_text(item.arguments.or(item.input).or(item.action));
                let tool = item.name.unwrap_or(item.kind);
                self.step(time).call(time, item.call_id, tool, arguments)
            }
            ("function_call_output" | "custom_tool_call_output" | "local_shell_call_output", _) => {
                let (Some(_), Some(id)) = (self.run.step(), item.call_id.as_deref()) else {
                    return Ok(());
                };
                let (result, failed) = output_of(item.output);
                self.run.result(Some(id), time, result, failed)
            }
            _ => Ok(()),
        }
    }

    /// The step that an item of the model belongs to.
    fn step(&mut self, time: Time) -> &mut Step {
        self.run.note(time);
        let has_result = self.run.step().is_some_and(|step| step.has_result());
        let is_next = |call: &CodexOpenCall| match &call.report {
            // Old versions write the report first and the call's items at once after it.
            Some(report) => has_result || !follows(report.time, time),
            None => has_result,
        };
        if self.call.as_ref().is_some_and(is_next) {
            self.close();
        }
        if self.pending.as_ref().is_some_and(|report| !follows(report.time, time)) {
            self.flush_pending();
        }
        let begun = self.run.last().or(time);
        let report = self.pending.take();
        self.run.seen(time);
        let call = self.call.get_or_insert(CodexOpenCall { time, report });
        call.time = call.time.max(time);
        self.run.step_or_begin(begun)
    }

    /// A report of a call that left no items is a call anyway.
    fn flush_pending(&mut self) {
        if let Some(report) = self.pending.take() {
            self.run.step_at(self.run.last().or(report.time));
            self.call = Some(CodexOpenCall { time: report.time, report: Some(report) });
            self.close();
        }
    }

    fn close(&mut self) {
        let Some(call) = self.call.take() else { return };
        let providers = &[Some(self.provider.as_deref().unwrap_or(DEFAULT_PROVIDER))];
        let priced = call.report.as_ref().map(|report| {
            ModelCall::new(UsageShape::OpenAiResponses, &report.usage).of(providers).at(report.time)
        });
        let line = call.report.as_ref().map(|report| report.line);
        let reply = self.run.reading.at(line).reply(self.run.model(), priced, "usage");
        self.run.seen(call.time.max(self.run.last()));
        if let Some(step) = self.run.step() {
            step.answer(call.time, reply);
        }
        self.run.close();
    }
}

fn follows(before: Time, time: Time) -> bool {
    match (before, time) {
        (Some(before), Some(time)) => time.saturating_sub(before) <= SAME_CALL_MILLIS,
        _ => false,
    }
}

fn payload<'a, T: Deserialize<'a>>(record: &CodexRecord<'a>) -> Result<T, serde_json::Error> {
    serde_json::from_str(record.payload.map_or("{}", RawValue::get))
}

/// The `info` of a `token_count`.
#[derive(Deserialize)]
struct TokenCountInfo {
    total_token_usage: Option<Value>,
    last_token_usage: Option<Value>,
}

/// The fields of a usage object that are counts.
const COUNTS: [&str; 5] = [
    "input_tokens",
    "cached_input_tokens",
    "cache_write_input_tokens",
    "output_tokens",
    "reasoning_output_tokens",
];

/// Follows the totals through a file.
#[derive(Debug, Default)]
struct Totals {
    last: Option<Value>,
}

impl Totals {
    /// The usage of the call that this report is about; `None` if it is about none. `awaited` is whether a call has no
    /// report yet.
    fn usage(
        &mut self,
        info: Option<&RawValue>,
        awaited: bool,
        lines: &JsonLines<'_>,
    ) -> Option<Value> {
        // Without `info` the report is about rate limits only.
        let info: TokenCountInfo = match serde_json::from_str(present(info)?) {
            Ok(info) => info,
            Err(error) => {
                lines.warn_of(&error);
                return None;
            }
        };
        let before = match &info.total_token_usage {
            Some(total) if self.last.as_ref() == Some(total) => {
                return info.last_token_usage.filter(|last| awaited && is_zero(last));
            }
            Some(total) => self.last.replace(total.clone()),
            None => None,
        };
        if let Some(last) = info.last_token_usage.filter(|last| !last.is_null()) {
            return Some(last);
        }
        let total = info.total_token_usage?;
        let used = difference(&total, before.as_ref());
        if used.is_none() {
            lines.warn(WarningKind::BadNumber, || {
                format!("totals of tokens are not counts: `{total}`")
            });
        }
        used
    }
}

/// Whether every count of a usage object is zero. A repetition has the usage of the call before.
fn is_zero(usage: &Value) -> bool {
    let mut counts = COUNTS.iter().filter_map(|key| usage.get(key));
    usage.is_object() && counts.all(|count| count.as_u64() == Some(0))
}

/// The usage since the totals were `before`. Totals that fell have started over.
fn difference(total: &Value, before: Option<&Value>) -> Option<Value> {
    let count = |usage: &Value, key: &str| match usage.get(key) {
        None | Some(Value::Null) => Some(0),
        Some(value) => value.as_u64(),
    };
    let fell = before
        .is_some_and(|before| COUNTS.iter().any(|key| count(total, key) < count(before, key)));
    let mut used = json!({});
    for key in COUNTS {
        let now = count(total, key)?;
        let then = before.filter(|_| !fell).and_then(|before| count(before, key)).unwrap_or(0);
        if total.get(key).is_some() {
            used.as_object_mut()?.insert(key.to_owned(), json!(now - then));
        }
    }
    Some(used)
}
