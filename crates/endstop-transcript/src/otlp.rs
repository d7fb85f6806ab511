//! Spans of OpenTelemetry with GenAI attributes, as OTLP/JSON: one export request, or one on each line, as
//! the collector's file exporter writes them.
//!
//! - A trace is a run, named by its trace id. Its spans are put in the order of their starts; a file may
//!   hold the spans of many traces in any order.
//! - A span of a model call is a step. `execute_tool` spans that follow it within the same agent are its tool calls;
//!   calls and results that appear only in recorded messages count too. A model call within another is the same call,
//!   recorded twice.
//! - `invoke_agent` spans below another are sub-agents.
//! - A span that failed is a failed attempt or a failed tool call. The run failed if a topmost agent did; the absence
//!   of a failure does not mean success.
//! - Input tokens hold the cached ones. Some exporters send Anthropic's count, without them: where the
//!   cached ones are more than the input, it is taken as that, with a warning.
//! - Older names are read too: `gen_ai.system`, `gen_ai.usage.prompt_tokens`, those of OpenInference,
//!   OpenLLMetry and the AI SDK. Costs that an instrumentation computed are not: the price table does that.
//!
//! More than 250 lines because spans come in any order under four naming conventions, and are put together to agents by
//! their parents.

mod agents;
mod attributes;
mod messages;
mod span;

use serde::Deserialize;
use serde_json::value::RawValue;

use self::span::Span;
use super::groups::Grouped;
use super::layout::Layout;
use super::reading::Reading;
use super::text::Text;
use super::{Head, RunSink};

/// Where spans are.
const PATH: [&str; 3] = ["resourceSpans", "scopeSpans", "spans"];

/// One of these is in every file with model calls.
const MARKS: [&str; 4] =
    ["\"gen_ai.", "\"llm.token_count.", "\"openinference.span.kind\"", "\"ai.operationId\""];

pub(crate) fn detect(head: &Head<'_>) -> bool {
    let mut keys = head.document().into_iter().chain(head.lines());
    let has_spans = keys.any(|keys| keys.have(&["resourceSpans"]));
    has_spans && MARKS.iter().any(|mark| head.mentions(mark))
}

pub(crate) fn read(reading: Reading<'_>, sink: &mut dyn RunSink) {
    let is_lines = Layout::of(reading.part) == Layout::Lines;
    let spans = Grouped {
        each: &|reading, take| each_span(reading, is_lines, take),
        run_of: trace_of,
        record: Span::read,
        words: ("a span", "traces"),
        nameless: Some("a span without a trace id"),
    };
    spans.read(reading, &mut |trace, spans| agents::read_trace(trace, spans, reading, sink));
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Trace<'a> {
    trace_id: Text<'a>,
}

fn trace_of(span: &RawValue) -> Option<Text<'_>> {
    let trace: Trace<'_> = serde_json::from_str(span.get()).ok()?;
    Some(trace.trace_id).filter(|id| !id.is_empty())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct OtlpRequest<'a> {
    #[serde(default)]
    resource_spans: Vec<ResourceSpans<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct ResourceSpans<'a> {
    #[serde(default)]
    scope_spans: Vec<ScopeSpans<'a>>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct ScopeSpans<'a> {
    #[serde(default)]
    spans: Vec<&'a RawValue>,
}

fn each_span(reading: Reading<'_>, is_lines: bool, take: &mut dyn FnMut(&RawValue)) {
    if !is_lines {
        return reading.each_item(&PATH, take);
    }
    let mut lines = reading.lines();
    while lines.advance() {
        let Some(request) = lines.parse::<OtlpRequest<'_>>() else { continue };
        let scopes = request.resource_spans.iter().flat_map(|resource| &resource.scope_spans);
        scopes.flat_map(|scope| &scope.spans).for_each(|span| take(span));
    }
}
