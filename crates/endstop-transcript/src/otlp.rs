//! Spans of OpenTelemetry with GenAI attributes, as OTLP/JSON: one export request, or one on each line, as
//! the collector's file exporter writes them.
//!
//! - A trace is a run, named by its trace id. Its spans are put in the order of their starts; a file may
//!   hold the spans of many traces in any order.
//! - A span of a model call is a step. `execute_tool` spans that follow it within the same agent are its
//!   tool calls; calls and results that stand only in recorded messages count too. A model call within
//!   another is the same call, told twice.
//! - `invoke_agent` spans below another are sub-agents.
//! - A span that failed is a failed attempt or a failed tool call. The run failed if a topmost agent did;
//!   that it did not is no success.
//! - Input tokens hold the cached ones. Some exporters send Anthropic's count, without them: where the
//!   cached ones are more than the input, it is taken as that, with a warning.
//! - Older names are read too: `gen_ai.system`, `gen_ai.usage.prompt_tokens`, those of OpenInference,
//!   OpenLLMetry and the AI SDK. Costs that an instrumentation computed are not: the price table does that.

mod lanes;
mod messages;
mod span;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use std::borrow::Cow;

use super::document::{Element, Wanted, each_element};
use super::groups::{Ends, MAX_HELD_BYTES, Open};
use super::head::ends_of;
use super::lines::JsonLines;
use super::part::Part;
use super::warning::{WarningKind, Warnings};
use super::{Format, Head, RunSink, Source, Supplies};
use span::Span;

/// Where spans are.
const PATH: [&str; 3] = ["resourceSpans", "scopeSpans", "spans"];

/// One of these is in every file with model calls.
const MARKS: [&str; 4] =
    ["\"gen_ai.", "\"llm.token_count.", "\"openinference.span.kind\"", "\"ai.operationId\""];

/// The format.
pub(super) struct Otlp;

impl Format for Otlp {
    fn id(&self) -> &'static str {
        "otlp"
    }

    fn describe(&self) -> &'static str {
        "OpenTelemetry spans with GenAI attributes, OTLP/JSON documents or lines"
    }

    fn kept(&self) -> &'static str {
        "where the collector's file exporter writes"
    }

    fn detect(&self, head: &Head<'_>) -> bool {
        let mut keys = head.document().into_iter().chain(head.lines());
        let has_spans = keys.any(|keys| keys.have(&["resourceSpans"]));
        has_spans && MARKS.iter().any(|mark| head.mentions(mark))
    }

    fn supplies(&self) -> Supplies {
        Supplies {
            tokens: true,
            money: true,
            time: true,
            tool_failures: true,
            retries: true,
            finish: true,
            subagents: true,
            interventions: false,
        }
    }

    fn read(&self, source: &Source<'_>, sink: &mut dyn RunSink) {
        let mut warnings = Warnings::default();
        let is_lines = is_lines(source.main);
        let mut ends = Ends::default();
        // The second pass gives the warnings.
        each_span(source.main, is_lines, &mut Warnings::default(), &mut |span, _| {
            if let Some(trace) = trace_of(span) {
                ends.note(&trace);
            }
        });
        let mut open = Open::new(MAX_HELD_BYTES);
        each_span(source.main, is_lines, &mut warnings, &mut |raw, warnings| {
            let Some(trace) = trace_of(raw) else {
                let message = || "a span without a trace id".to_owned();
                return warnings.add(WarningKind::Malformed, source.main.name(), None, message);
            };
            take(raw, &trace, source.main, &mut open, warnings);
            if ends.is_last(&trace) {
                lanes::play(&trace, open.close(&trace), source, sink, warnings);
            }
        });
        warnings.send(sink);
    }
}

fn take(raw: &RawValue, trace: &str, part: &Part, open: &mut Open<Span>, warnings: &mut Warnings) {
    match Span::read(raw) {
        Ok(Some(span)) => {
            if !open.add(trace, span, raw.get().len()) {
                let message =
                    || "the traces that are open at once hold more than is kept".to_owned();
                warnings.add(WarningKind::TooLarge, part.name(), None, message);
            }
        }
        Ok(None) => {}
        Err(error) => {
            let message = || format!("not a span: {error}");
            warnings.add(WarningKind::Malformed, part.name(), None, message);
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Trace<'a> {
    #[serde(borrow)]
    trace_id: Cow<'a, str>,
}

fn trace_of(span: &RawValue) -> Option<Cow<'_, str>> {
    let trace: Trace<'_> = serde_json::from_str(span.get()).ok()?;
    Some(trace.trace_id).filter(|id| !id.is_empty())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    #[serde(borrow, default)]
    resource_spans: Vec<ResourceSpans<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceSpans<'a> {
    #[serde(borrow, default)]
    scope_spans: Vec<ScopeSpans<'a>>,
}

#[derive(Deserialize)]
struct ScopeSpans<'a> {
    #[serde(borrow, default)]
    spans: Vec<&'a RawValue>,
}

fn each_span(
    part: &Part,
    is_lines: bool,
    warnings: &mut Warnings,
    take: &mut dyn FnMut(&RawValue, &mut Warnings),
) {
    if !is_lines {
        let wanted = Wanted { list: &PATH, beside: &[] };
        return each_element(part, wanted, warnings, &mut |element, warnings| {
            if let Element::Item(span) = element {
                take(span, warnings);
            }
        });
    }
    let mut lines = JsonLines::open(part, warnings);
    while lines.advance(warnings) {
        let Some(request) = lines.parse::<Request<'_>>(warnings) else { continue };
        let scopes = request.resource_spans.iter().flat_map(|resource| &resource.scope_spans);
        for span in scopes.flat_map(|scope| &scope.spans) {
            take(span, warnings);
        }
    }
}

/// Whether there is a request on each line: the first line is a whole value, or is none at all.
fn is_lines(part: &Part) -> bool {
    // A file that cannot be opened is told of when it is read.
    let (head, _) = ends_of(part).unwrap_or_default();
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&head).trim_ascii_start();
    let first = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let begins = matches!(first.first(), Some(b'{' | b'['));
    let is_list = first.first() == Some(&b'[');
    // Nothing at all is a document that was cut.
    (!begins && !text.is_empty())
        || (!is_list && serde_json::from_slice::<IgnoredAny>(first).is_ok())
}
