//! The data that reaches the exporters of an SDK.

#[path = "../../../../../tests/support/golden.rs"]
mod file;

use std::time::{Duration, SystemTime};

use endstop_core::expr::parse;
use endstop_core::policy::{Action, Rule};
use endstop_core::signal::{StopReason, StopSignal};
use endstop_core::units::Money;
use opentelemetry::Value;
use opentelemetry::metrics::MeterProvider;
use opentelemetry::trace::{SpanId, SpanKind, Status, TracerProvider};
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, SdkMeterProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};

use super::super::Detail;
use super::*;
use crate::message::{ToolCall, ToolOutcome};
use crate::model::{ModelError, ModelErrorKind};
use endstop_runtime::observe::play::{BEGAN, Play, policy};
use file::golden;

const BEGIN: EventKind<'static> = EventKind::RunBegin { agent: None, depth: 0 };
const ATTEMPT: EventKind<'static> = EventKind::AttemptBegin { next_cost: None };
const REQUEST: Detail<'static> = Detail::Request {
    model: "gpt-5.2",
    provider: "openai",
    max_output_tokens: Some(800),
    input_bound: 9,
};

struct Sdk {
    spans: InMemorySpanExporter,
    metrics: InMemoryMetricExporter,
    tracers: SdkTracerProvider,
    meters: SdkMeterProvider,
}

impl Sdk {
    fn new() -> Self {
        let spans = InMemorySpanExporter::default();
        let metrics = InMemoryMetricExporter::default();
        let tracers = SdkTracerProvider::builder().with_simple_exporter(spans.clone()).build();
        let meters = SdkMeterProvider::builder().with_periodic_exporter(metrics.clone()).build();
        Self { spans, metrics, tracers, meters }
    }

    fn observer(&self) -> OtelObserver {
        let tracer = BoxedTracer::new(Box::new(self.tracers.tracer("endstop")));
        OtelObserver::new(tracer, &self.meters.meter("endstop"))
    }

    fn spans(&self) -> Vec<SpanData> {
        self.spans.get_finished_spans().unwrap()
    }

    fn span(&self, name: &str) -> SpanData {
        let mut named = self.spans().into_iter().filter(|span| span.name == name);
        let span = named.next().unwrap_or_else(|| panic!("no span {name}"));
        assert!(named.next().is_none(), "{name} twice");
        span
    }

    /// The points of a metric: attributes as text, and the value; of a histogram the sum and the count.
    fn points(&self, name: &str) -> Vec<(String, String)> {
        self.meters.force_flush().unwrap();
        let finished = self.metrics.get_finished_metrics().unwrap();
        let last = finished.last().unwrap();
        let mut points = Vec::new();
        for metric in last.scope_metrics().flat_map(|scope| scope.metrics()) {
            if metric.name() == name {
                points.extend(points_of(metric.data()));
            }
        }
        points.sort();
        points
    }
}

fn points_of(data: &AggregatedMetrics) -> Vec<(String, String)> {
    match data {
        AggregatedMetrics::F64(data) => points_in(data),
        AggregatedMetrics::U64(data) => points_in(data),
        AggregatedMetrics::I64(data) => points_in(data),
    }
}

fn points_in<T: Copy + std::fmt::Display>(data: &MetricData<T>) -> Vec<(String, String)> {
    match data {
        MetricData::Sum(sum) => {
            sum.data_points().map(|p| (texts(p.attributes()), p.value().to_string())).collect()
        }
        MetricData::Gauge(gauge) => {
            gauge.data_points().map(|p| (texts(p.attributes()), p.value().to_string())).collect()
        }
        MetricData::Histogram(histogram) => {
            let points = histogram.data_points();
            points
                .map(|p| (texts(p.attributes()), format!("{} of {}", p.sum(), p.count())))
                .collect()
        }
        MetricData::ExponentialHistogram(_) => Vec::new(),
    }
}

fn texts<'a>(attributes: impl Iterator<Item = &'a opentelemetry::KeyValue>) -> String {
    let mut texts: Vec<String> = attributes.map(|kv| format!("{}={}", kv.key, kv.value)).collect();
    texts.sort();
    texts.join(" ")
}

fn attribute(span: &SpanData, key: &str) -> Option<Value> {
    span.attributes.iter().find(|kv| kv.key.as_str() == key).map(|kv| kv.value.clone())
}

fn text(span: &SpanData, key: &str) -> String {
    attribute(span, key).map(|value| value.to_string()).unwrap_or_default()
}

fn call(id: &str, tool: &str) -> ToolCall {
    ToolCall { id: id.to_owned(), tool: tool.to_owned(), arguments: "{\"secret\":1}".to_owned() }
}

const fn reply(is_estimate: bool) -> Detail<'static> {
    Detail::Reply {
        unconfirmed: Money::ZERO,
        text: "secret words",
        tool_calls: &[],
        is_estimate,
        reasoning_tokens: Some(7),
        first_piece_after: None,
        took: Duration::from_millis(1_500),
    }
}

const fn tool(call: &ToolCall, outcome: Option<ToolOutcome>) -> Detail<'_> {
    Detail::Tool { call, outcome, took: Duration::ZERO }
}

/// A step with one model call.
fn ask(play: &mut Play<'_>, tool_calls: u32, is_estimate: bool) {
    play.tell(1, EventKind::StepBegin, Detail::None);
    play.tell(0, ATTEMPT, REQUEST);
    play.reply((100, 20), tool_calls, reply(is_estimate));
}

fn tool_end(play: &mut Play<'_>, call: &ToolCall, outcome: ToolOutcome) {
    let kind = EventKind::ToolEnd {
        tool: &call.tool,
        arguments: &call.arguments,
        result: "secret result",
        failed: outcome.is_error(),
    };
    play.tell(1, kind, tool(call, Some(outcome)));
}

/// A parent whose model asks for two agents at once, each of which asks a model once.
fn family(observer: &OtelObserver) {
    let mut parent = Play::new(observer, "parent", policy("steps >= 9 or cost >= $1"));
    parent.tell(0, BEGIN, Detail::None);
    ask(&mut parent, 2, false);
    let calls = [call("c1", "writer"), call("c2", "critic")];
    for call in &calls {
        parent.tell(1, EventKind::ToolBegin { tool: &call.tool }, tool(call, None));
    }
    for (id, call) in ["kid1", "kid2"].into_iter().zip(&calls) {
        let mut child = parent.child(id, &call.tool, policy("steps >= 1"));
        child.tell(1, EventKind::RunBegin { agent: None, depth: 1 }, Detail::None);
        ask(&mut child, 0, true);
        child.tell(1, EventKind::StepEnd, Detail::None);
        child.end();
        for kind in [EventKind::StepBegin, EventKind::StepEnd] {
            parent.tell_of(1, kind, Detail::None, Source::Descendant);
        }
    }
    for call in calls.iter().rev() {
        tool_end(&mut parent, call, ToolOutcome::Succeeded);
    }
    parent.tell(1, EventKind::StepEnd, Detail::None);
    let signal = StopSignal::new(StopReason::StopRequested).with_message("enough");
    parent.tell(1, EventKind::StopRaised { signal: &signal }, Detail::None);
    parent.end();
}

#[test]
fn sub_agents_stand_below_the_tool_calls_that_began_them() {
    let sdk = Sdk::new();
    let observer = sdk.observer();
    family(&observer);
    let id = |name: &str| sdk.span(name).span_context.span_id();
    let root = sdk.span("invoke_agent main");
    assert_eq!(
        (root.parent_span_id, root.span_kind.clone()),
        (SpanId::INVALID, SpanKind::Internal)
    );
    for agent in ["writer", "critic"] {
        let tool = sdk.span(&format!("execute_tool {agent}"));
        assert_eq!(tool.parent_span_id, id("invoke_agent main"), "{agent}");
        let run = sdk.span(&format!("invoke_agent {agent}"));
        assert_eq!(run.parent_span_id, id(&format!("execute_tool {agent}")), "{agent}");
        assert_eq!(text(&run, "endstop.run.parent_id"), "parent");
        let own = run.span_context.span_id();
        let chats = sdk.spans().into_iter().filter(|span| span.parent_span_id == own);
        assert_eq!(chats.map(|span| span.name).collect::<Vec<_>>(), ["chat gpt-5.2"]);
    }
    let spans = sdk.spans();
    assert_eq!(spans.len(), 8);
    let trace = root.span_context.trace_id();
    assert!(spans.iter().all(|span| span.span_context.trace_id() == trace));
    assert!(observer.lock().is_empty());
}

#[test]
fn times_are_those_of_the_events() {
    let sdk = Sdk::new();
    let observer = sdk.observer();
    let mut play = Play::new(&observer, "r", policy("steps >= 1"));
    play.tell(5, BEGIN, Detail::None);
    ask(&mut play, 0, false);
    play.tell(4, EventKind::StepEnd, Detail::None);
    play.end();
    let at = |ms| SystemTime::UNIX_EPOCH + Duration::from_millis(BEGAN + ms);
    let chat = sdk.span("chat gpt-5.2");
    assert_eq!((chat.start_time, chat.end_time), (at(6), at(16)));
    let root = sdk.span("invoke_agent main");
    assert_eq!((root.start_time, root.end_time), (at(5), at(20)));
}

#[test]
fn a_model_call_tells_its_tokens_and_no_words() {
    let sdk = Sdk::new();
    family(&sdk.observer());
    let chats = sdk.spans().into_iter().filter(|span| span.name == "chat gpt-5.2");
    let chat = chats.last().unwrap();
    assert_eq!(chat.span_kind, SpanKind::Client);
    for (key, value) in [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "openai"),
        ("gen_ai.request.model", "gpt-5.2"),
        ("gen_ai.request.max_tokens", "800"),
        ("gen_ai.response.model", "gpt-5.2"),
        ("gen_ai.usage.input_tokens", "100"),
        ("gen_ai.usage.output_tokens", "20"),
        ("gen_ai.usage.reasoning.output_tokens", "7"),
        ("gen_ai.response.finish_reasons", "[\"stop\"]"),
        ("endstop.cost.usd", "0.001"),
        ("endstop.counting", "estimated"),
    ] {
        assert_eq!(text(&chat, key), value, "{key}");
    }
    assert!(!format!("{:?}", sdk.spans()).contains("secret"));
}

#[test]
fn words_are_exported_where_that_is_asked_for() {
    let sdk = Sdk::new();
    family(&sdk.observer().export_content(true));
    let tool = sdk.span("execute_tool writer");
    assert_eq!(text(&tool, "gen_ai.tool.call.arguments"), "{\"secret\":1}");
    assert_eq!(text(&tool, "gen_ai.tool.call.result"), "secret result");
    assert_eq!(text(&tool, "gen_ai.tool.call.id"), "c1");
    let chat = sdk.spans().into_iter().find(|span| span.name == "chat gpt-5.2").unwrap();
    assert!(text(&chat, "gen_ai.output.messages").contains("\"content\":\"secret words\""));
}

#[test]
fn words_are_exported_as_json_whatever_they_are() {
    let sdk = Sdk::new();
    let observer = sdk.observer().export_content(true);
    let mut play = Play::new(&observer, "r", policy("steps >= 9"));
    play.tell(0, BEGIN, Detail::None);
    play.tell(0, EventKind::StepBegin, Detail::None);
    play.tell(0, ATTEMPT, REQUEST);
    let said = "\"quoted\"\n{back\\slash}";
    let detail = Detail::Reply {
        unconfirmed: Money::ZERO,
        text: said,
        tool_calls: &[],
        is_estimate: false,
        reasoning_tokens: None,
        first_piece_after: None,
        took: Duration::ZERO,
    };
    play.reply((100, 20), 0, detail);
    let messages = text(&sdk.span("chat gpt-5.2"), "gen_ai.output.messages");
    let messages: serde_json::Value = serde_json::from_str(&messages).unwrap();
    assert_eq!(messages[0]["parts"][0]["content"], said);
    assert_eq!(messages[0]["finish_reason"], "stop");
}

#[test]
fn failures_have_a_type_and_a_status() {
    let sdk = Sdk::new();
    let observer = sdk.observer();
    let mut play = Play::new(&observer, "r", policy("steps >= 1 or errors >= 9"));
    play.tell(0, BEGIN, Detail::None);
    play.tell(0, EventKind::StepBegin, Detail::None);
    play.tell(0, ATTEMPT, REQUEST);
    let mut error = ModelError::new(ModelErrorKind::RateLimited, "slow down");
    error.status = Some(429);
    let took = Duration::from_secs(2);
    let detail =
        Detail::Failure { error: &error, is_estimate: false, unconfirmed: Money::ZERO, took };
    play.tell(0, EventKind::AttemptFailed { usage: None, cost: None }, detail);
    let call = call("c1", "read");
    play.tell(0, EventKind::ToolBegin { tool: "read" }, tool(&call, None));
    tool_end(&mut play, &call, ToolOutcome::TimedOut);
    let refused = tool(&call, Some(ToolOutcome::Blocked));
    play.tell(0, EventKind::ToolRefused { tool: "read" }, refused);
    play.end();
    let chat = sdk.span("chat gpt-5.2");
    assert_eq!(chat.status, Status::error("rate_limited"));
    assert_eq!(text(&chat, "error.type"), "rate_limited");
    assert_eq!(text(&chat, "http.response.status_code"), "429");
    let tool = sdk.span("execute_tool read");
    assert_eq!(
        (text(&tool, "error.type").as_str(), tool.status),
        ("timed_out", Status::error("timed_out"))
    );
    let root = sdk.span("invoke_agent main");
    let refused = root.events.iter().find(|event| event.name == "endstop.tool_refused").unwrap();
    assert_eq!(
        texts(refused.attributes.iter()),
        "endstop.tool.outcome=blocked gen_ai.tool.name=read"
    );
    let points = sdk.points("gen_ai.client.operation.duration");
    assert_eq!(points.len(), 1);
    assert!(points[0].0.starts_with("error.type=rate_limited ") && points[0].1 == "2 of 1");
}

#[test]
fn a_run_tells_why_it_ended_and_what_it_used_of_what() {
    let sdk = Sdk::new();
    let mut limited = policy("steps >= 2 or tokens >= 1000");
    limited.rules.push(Rule::new("soon", Action::Warn, parse("steps >= 1").unwrap()));
    let observer = sdk.observer();
    let mut play = Play::new(&observer, "r", limited);
    play.tell(0, BEGIN, Detail::None);
    for _ in 0..2 {
        ask(&mut play, 1, false);
        play.tell(0, EventKind::StepEnd, Detail::None);
    }
    play.end();
    let root = sdk.span("invoke_agent main");
    for (key, value) in [
        ("gen_ai.agent.name", "main"),
        ("gen_ai.conversation.id", "r"),
        ("endstop.run.status", "stopped"),
        ("endstop.stop.reason", "steps_limit"),
        ("endstop.budget.steps.consumed", "2"),
        ("endstop.budget.steps.limit", "2"),
        ("endstop.budget.tokens.consumed", "240"),
        ("endstop.budget.cost.consumed", "0.002"),
        ("gen_ai.usage.input_tokens", "200"),
        ("endstop.counting", "measured"),
    ] {
        assert_eq!(text(&root, key), value, "{key}");
    }
    assert!(!text(&root, "endstop.rule").is_empty());
    assert_eq!(root.status, Status::Unset, "a limit is an outcome");
    let names: Vec<&str> = root.events.iter().map(|event| event.name.as_ref()).collect();
    assert_eq!(names, ["endstop.warned", "endstop.decided"]);
}

#[test]
fn metrics_count_calls_and_runs_direct_and_with_sub_agents() {
    let sdk = Sdk::new();
    family(&sdk.observer());
    let tokens = sdk.points("gen_ai.client.token.usage");
    let sums: Vec<&str> = tokens.iter().map(|(_, sum)| sum.as_str()).collect();
    assert_eq!(sums, ["300 of 3", "60 of 3"]);
    assert!(tokens[0].0.contains("gen_ai.token.type=input"), "{tokens:?}");
    let consumed = sdk.points("endstop.budget.consumed");
    let of = |agent: &str, scope: &str, dimension: &str| {
        let counting = if agent == "main" { "measured" } else { "estimated" };
        let key = format!(
            "endstop.budget.dimension={dimension} endstop.budget.scope={scope} \
             endstop.counting={counting} gen_ai.agent.name={agent}"
        );
        consumed.iter().find(|(name, _)| *name == key).map(|(_, value)| value.as_str())
    };
    assert_eq!(
        (of("main", "direct", "steps"), of("main", "subtree", "steps")),
        (Some("1"), Some("3"))
    );
    assert_eq!(of("writer", "direct", "cost"), Some("0.001"));
    assert_eq!(of("critic", "subtree", "tokens"), Some("120"));
    let limits = sdk.points("endstop.budget.limit");
    assert!(limits.iter().any(|(name, value)| name.contains("dimension=cost") && value == "1"));
    let runs = sdk.points("endstop.runs");
    let reasons: Vec<&str> = runs.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(runs.len(), 3);
    assert!(reasons.iter().any(|name| name.contains("endstop.stop.reason=stop_requested")));
}

#[test]
fn a_resumed_run_adds_only_what_is_new() {
    let sdk = Sdk::new();
    let nobody = super::super::Observers::new();
    let mut before = Play::new(&nobody, "r", policy("steps >= 9"));
    before.tell(0, BEGIN, Detail::None);
    for _ in 0..3 {
        ask(&mut before, 1, false);
        before.tell(0, EventKind::StepEnd, Detail::None);
    }
    let observer = sdk.observer();
    let mut after = Play::new(&observer, "r", policy("steps >= 9"));
    (after.run, after.info.is_resumed) = (before.run, true);
    ask(&mut after, 0, false);
    after.tell(0, EventKind::StepEnd, Detail::None);
    after.end();
    let consumed = sdk.points("endstop.budget.consumed");
    let value = |dimension: &str| {
        let mut of = consumed.iter().filter(|(name, _)| {
            name.contains(&format!("dimension={dimension} ")) && name.contains("scope=direct")
        });
        of.next().unwrap().1.clone()
    };
    assert_eq!((value("steps"), value("tokens")), ("1".to_owned(), "120".to_owned()));
}

#[test]
fn what_is_open_when_a_run_is_cut_is_closed() {
    let sdk = Sdk::new();
    let observer = sdk.observer();
    let mut play = Play::new(&observer, "r", policy("steps >= 9"));
    play.tell(0, BEGIN, Detail::None);
    play.tell(0, EventKind::StepBegin, Detail::None);
    let call = call("c1", "sleep");
    play.tell(0, EventKind::ToolBegin { tool: "sleep" }, tool(&call, None));
    play.tell(0, ATTEMPT, REQUEST);
    play.tell(3, EventKind::Kill { message: "maintenance" }, Detail::None);
    play.end();
    assert_eq!(text(&sdk.span("execute_tool sleep"), "error.type"), "aborted");
    assert_eq!(text(&sdk.span("chat gpt-5.2"), "error.type"), "cancelled");
    let root = sdk.span("invoke_agent main");
    assert_eq!(text(&root, "endstop.stop.reason"), "user_requested");
    let killed = root.events.iter().find(|event| event.name == "endstop.killed").unwrap();
    assert_eq!(texts(killed.attributes.iter()), "endstop.message=maintenance");
}

/// Every span with its attributes and events, and every metric with its points, as text; without times and ids.
fn exported(sdk: &Sdk) -> String {
    let mut lines = Vec::new();
    for span in sdk.spans() {
        lines.push(format!("{:?} {} {:?}", span.span_kind, span.name, span.status));
        lines.push(format!("  {}", texts(span.attributes.iter())));
        for event in span.events.iter() {
            lines.push(format!("  event {}: {}", event.name, texts(event.attributes.iter())));
        }
    }
    sdk.meters.force_flush().unwrap();
    let finished = sdk.metrics.get_finished_metrics().unwrap();
    let scopes = finished.last().unwrap().scope_metrics();
    for metric in scopes.flat_map(|scope| scope.metrics()) {
        lines.push(format!(
            "metric {} [{}] {}",
            metric.name(),
            metric.unit(),
            metric.description()
        ));
        let mut points = points_of(metric.data());
        points.sort();
        lines.extend(points.iter().map(|(attributes, value)| format!("  {attributes}: {value}")));
    }
    lines.join("\n")
}

#[test]
fn names_are_those_that_were_agreed() {
    let sdk = Sdk::new();
    let observer = sdk.observer().export_content(true);
    family(&observer);
    let mut limits = policy("steps >= 2");
    limits.rules.push(Rule::new("soon", Action::Warn, parse("steps >= 1").unwrap()));
    limits.rules.push(Rule::new("ask", Action::Pause, parse("errors >= 1").unwrap()));
    let mut play = Play::new(&observer, "other", limits);
    play.tell(0, BEGIN, Detail::None);
    play.tell(0, EventKind::StepBegin, Detail::None);
    play.tell(0, ATTEMPT, REQUEST);
    let mut error = ModelError::new(ModelErrorKind::RateLimited, "slow down");
    error.status = Some(429);
    let (is_estimate, unconfirmed, took) = (false, Money::ZERO, Duration::from_secs(2));
    let detail = Detail::Failure { error: &error, is_estimate, unconfirmed, took };
    play.tell(0, EventKind::AttemptFailed { usage: None, cost: None }, detail);
    play.tell(0, EventKind::Approved { rule: "ask", limit: None, by: "", why: "" }, Detail::None);
    let call = call("c1", "read");
    let refused = tool(&call, Some(ToolOutcome::Blocked));
    play.tell(0, EventKind::ToolRefused { tool: "read" }, refused);
    play.tell(1, EventKind::StepEnd, Detail::None);
    play.tell(0, EventKind::HandOff { to: "writer" }, Detail::None);
    play.tell(0, EventKind::ContinuationRequested { by: "critic" }, Detail::None);
    ask(&mut play, 1, false);
    play.tell(0, EventKind::Cancel { message: "lunch" }, Detail::None);
    play.tell(0, EventKind::Kill { message: "maintenance" }, Detail::None);
    play.end();
    golden("otel.txt", &exported(&sdk), &[]);
}
