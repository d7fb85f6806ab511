//! The spans of one run while it runs.

use std::time::{Duration, SystemTime};

use endstop_core::event::{Event, EventKind};
use endstop_core::run::Status as RunStatus;
use endstop_core::units::{TokenUsage, WallTime};
use endstop_core::{Directive, Run};
use opentelemetry::global::{BoxedSpan, BoxedTracer};
use opentelemetry::trace::{Span, SpanKind, Status, TraceContextExt, Tracer};
use opentelemetry::{Array, Context, KeyValue, StringValue, Value};
use serde_json::json;

use super::super::{Detail, Observation, RunInfo};
use super::attributes::{
    budget_attributes, cost_attribute, counting, directive_name, number, outcome_name,
    run_attributes, told, usage_attributes,
};
use super::metrics::Used;
use super::names;
use crate::message::ToolOutcome;
use endstop_runtime::ledger::Budget;

/// A run whose span is open.
pub(super) struct Live {
    /// With the span of the run.
    context: Context,
    chat: Option<Chat>,
    /// Tool calls that run, in the order in which they began.
    tools: Vec<Call>,
    pub(super) since: Used,
    /// Whether some call's tokens were counted here.
    pub(super) is_estimate: bool,
    last: Option<SystemTime>,
}

struct Chat {
    span: BoxedSpan,
    model: String,
    provider: String,
}

struct Call {
    id: String,
    tool: String,
    context: Context,
    /// Whether a sub-agent's span is within it.
    has_child: bool,
}

/// A model call, for the metrics.
pub(super) struct Called {
    pub(super) attributes: Vec<KeyValue>,
    pub(super) usage: Option<TokenUsage>,
    pub(super) took: Option<Duration>,
    pub(super) error: Option<&'static str>,
}

/// A time for a span; none where events carry no wall time: then the SDK takes its own.
fn time(wall: WallTime) -> Option<SystemTime> {
    (wall.0 > 0).then(|| SystemTime::UNIX_EPOCH + Duration::from_millis(wall.0))
}

impl Live {
    /// Opens the span of a run below `parent`.
    pub(super) fn begin(
        tracer: &BoxedTracer,
        parent: &Context,
        info: &RunInfo,
        wall: WallTime,
        since: Used,
    ) -> Self {
        let mut attributes = vec![
            KeyValue::new(names::OPERATION, names::INVOKE_AGENT),
            KeyValue::new(names::AGENT, info.agent.clone()),
            KeyValue::new(names::REQUEST_MODEL, info.model.clone()),
            KeyValue::new(names::CONVERSATION, info.id.to_string()),
            KeyValue::new(names::RUN, info.id.to_string()),
            KeyValue::new(names::DEPTH, i64::from(info.depth)),
        ];
        if !info.provider.is_empty() {
            attributes.push(KeyValue::new(names::PROVIDER, info.provider.clone()));
        }
        if let Some(parent) = &info.parent {
            attributes.push(KeyValue::new(names::PARENT, parent.to_string()));
        }
        let name = format!("{} {}", names::INVOKE_AGENT, info.agent);
        let context = open(tracer, parent, name, SpanKind::Internal, wall, attributes);
        Self { context, chat: None, tools: Vec::new(), since, is_estimate: false, last: time(wall) }
    }

    /// Where the span of a sub-agent belongs: below the tool call that began it. An agent's tool has its
    /// name; among calls of the same tool the last one that has no sub-agent yet is taken.
    pub(super) fn parent_of(&mut self, agent: &str) -> Context {
        let is_free = |call: &&mut Call| !call.has_child;
        let mut found = self.tools.iter_mut().rev().filter(is_free).find(|call| call.tool == agent);
        if found.is_none() {
            found = self.tools.iter_mut().rev().find(|call| !call.has_child);
        }
        match found {
            Some(call) => {
                call.has_child = true;
                call.context.clone()
            }
            None => self.tools.last().map_or(&self.context, |call| &call.context).clone(),
        }
    }

    /// Records an event of the run itself. Returns a model call that has ended.
    pub(super) fn event(
        &mut self,
        tracer: &BoxedTracer,
        observation: &Observation<'_>,
        with_content: bool,
    ) -> Option<Called> {
        let event = observation.event;
        self.last = time(event.wall).or(self.last);
        self.note(observation);
        match &event.kind {
            EventKind::AttemptBegin { .. } if observation.directive.admits() => {
                self.chat = Some(chat(tracer, &self.context, observation));
                None
            }
            EventKind::Reply { .. } => self.reply(event, &observation.detail, with_content),
            EventKind::AttemptFailed { usage, .. } => {
                self.failed(event, *usage, &observation.detail)
            }
            EventKind::ToolBegin { tool } if observation.directive.admits() => {
                self.tool_begin(tracer, event, tool, &observation.detail, with_content);
                None
            }
            EventKind::ToolEnd { tool, result, failed, .. } => {
                self.tool_end(
                    event,
                    tool,
                    with_content.then_some(*result),
                    *failed,
                    &observation.detail,
                );
                None
            }
            _ => None,
        }
    }

    fn reply(
        &mut self,
        event: &Event<'_>,
        detail: &Detail<'_>,
        with_content: bool,
    ) -> Option<Called> {
        let EventKind::Reply { model, usage, cost, finish, .. } = &event.kind else { return None };
        let mut chat = self.chat.take()?;
        let mut attributes = Vec::new();
        attributes
            .extend(model.map(|model| KeyValue::new(names::RESPONSE_MODEL, model.to_owned())));
        attributes.extend(usage.iter().flat_map(usage_attributes));
        attributes.extend(finish.map(|finish| {
            let reasons = vec![StringValue::from(finish.to_owned())];
            KeyValue::new(names::FINISH_REASONS, Value::Array(Array::String(reasons)))
        }));
        attributes.extend(cost_attribute(*cost));
        let mut took = None;
        if let Detail::Reply { text, is_estimate, reasoning_tokens, took: time, .. } = detail {
            took = Some(*time);
            self.is_estimate |= *is_estimate;
            attributes.push(KeyValue::new(names::COUNTING, counting(*is_estimate)));
            attributes.extend(
                reasoning_tokens.map(|n| KeyValue::new(names::REASONING_TOKENS, number(n))),
            );
            if with_content {
                // Written out, because the order of a `json!` object depends on the program's other crates.
                let message = format!(
                    r#"[{{"finish_reason":{},"parts":[{{"content":{},"type":"text"}}],"role":"assistant"}}]"#,
                    json!(finish),
                    json!(text)
                );
                attributes.push(KeyValue::new(names::OUTPUT_MESSAGES, message));
            }
        }
        chat.span.set_attributes(attributes);
        end(&mut chat.span, time(event.wall));
        Some(Called { attributes: chat.about(*model), usage: *usage, took, error: None })
    }

    fn failed(
        &mut self,
        event: &Event<'_>,
        usage: Option<TokenUsage>,
        detail: &Detail<'_>,
    ) -> Option<Called> {
        let mut chat = self.chat.take()?;
        let (mut error, mut took) = ("_OTHER", None);
        if let Detail::Failure { error: failure, is_estimate, took: time, .. } = detail {
            (error, took) = (failure.kind.name(), Some(*time));
            self.is_estimate |= *is_estimate;
            let status = failure.status.map(i64::from);
            chat.span
                .set_attributes(status.map(|status| KeyValue::new(names::HTTP_STATUS, status)));
        }
        chat.span.set_attributes(usage.iter().flat_map(usage_attributes));
        chat.span.set_attribute(KeyValue::new(names::ERROR_TYPE, error));
        chat.span.set_status(Status::error(error));
        end(&mut chat.span, time(event.wall));
        Some(Called { attributes: chat.about(None), usage, took, error: Some(error) })
    }

    fn tool_begin(
        &mut self,
        tracer: &BoxedTracer,
        event: &Event<'_>,
        tool: &str,
        detail: &Detail<'_>,
        with_content: bool,
    ) {
        let mut attributes = vec![
            KeyValue::new(names::OPERATION, names::EXECUTE_TOOL),
            KeyValue::new(names::TOOL, tool.to_owned()),
            KeyValue::new(names::TOOL_TYPE, "function"),
        ];
        let mut id = String::new();
        if let Detail::Tool { call, .. } = detail {
            id.clone_from(&call.id);
            attributes.push(KeyValue::new(names::TOOL_CALL_ID, call.id.clone()));
            if with_content {
                attributes.push(KeyValue::new(names::TOOL_ARGUMENTS, call.arguments.clone()));
            }
        }
        let name = format!("{} {tool}", names::EXECUTE_TOOL);
        let context = open(tracer, &self.context, name, SpanKind::Internal, event.wall, attributes);
        self.tools.push(Call { id, tool: tool.to_owned(), context, has_child: false });
    }

    fn tool_end(
        &mut self,
        event: &Event<'_>,
        tool: &str,
        result: Option<&str>,
        failed: bool,
        detail: &Detail<'_>,
    ) {
        let (id, outcome) = match detail {
            Detail::Tool { call, outcome, .. } => (Some(call.id.as_str()), *outcome),
            _ => (None, None),
        };
        let is_it = |call: &Call| call.tool == tool && id.is_none_or(|id| call.id == id);
        let Some(place) = self.tools.iter().position(is_it) else { return };
        let call = self.tools.remove(place);
        let span = call.context.span();
        if let Some(result) = result {
            span.set_attribute(KeyValue::new(names::TOOL_RESULT, result.to_owned()));
        }
        if failed {
            let error = outcome.map_or("failed", outcome_name);
            span.set_attribute(KeyValue::new(names::ERROR_TYPE, error));
            span.set_status(Status::error(error));
        }
        end_span(&span, time(event.wall));
    }

    /// An event without a span becomes an event of the run's span.
    fn note(&self, observation: &Observation<'_>) {
        let wall = observation.event.wall;
        if let Some((name, attributes)) = told(&observation.event.kind, &observation.detail) {
            self.add_event(name, attributes, wall);
        }
        if observation.directive != Directive::Proceed {
            let directive = KeyValue::new(names::DIRECTIVE, directive_name(observation.directive));
            self.add_event(names::EVENT_DECIDED, vec![directive], wall);
        }
    }

    fn add_event(&self, name: &'static str, attributes: Vec<KeyValue>, wall: WallTime) {
        let span = self.context.span();
        match time(wall) {
            Some(time) => span.add_event_with_timestamp(name, time, attributes),
            None => span.add_event(name, attributes),
        }
    }

    pub(super) fn warned(&self, rule: &str, message: &str) {
        let attributes = vec![
            KeyValue::new(names::RULE, rule.to_owned()),
            KeyValue::new(names::MESSAGE, message.to_owned()),
        ];
        let span = self.context.span();
        match self.last {
            Some(time) => span.add_event_with_timestamp(names::EVENT_WARNED, time, attributes),
            None => span.add_event(names::EVENT_WARNED, attributes),
        }
    }

    /// Closes what is open, and the run's span with why it ended.
    pub(super) fn finish(mut self, run: &Run, budget: &Budget) {
        if let Some(mut chat) = self.chat.take() {
            chat.span.set_attribute(KeyValue::new(names::ERROR_TYPE, "cancelled"));
            end(&mut chat.span, self.last);
        }
        for call in self.tools.drain(..).rev() {
            let span = call.context.span();
            span.set_attribute(KeyValue::new(
                names::ERROR_TYPE,
                outcome_name(ToolOutcome::Aborted),
            ));
            end_span(&span, self.last);
        }
        let span = self.context.span();
        span.set_attributes(run_attributes(run));
        span.set_attributes(budget_attributes(run, budget));
        span.set_attribute(KeyValue::new(names::COUNTING, counting(self.is_estimate)));
        if run.status() == RunStatus::Failed {
            let reason = run.stop_reason().map_or("error", |reason| reason.value());
            span.set_attribute(KeyValue::new(names::ERROR_TYPE, reason));
            let message = run.last_stop_signal().map(|signal| signal.message.clone());
            span.set_status(Status::error(message.unwrap_or_default()));
        }
        end_span(&span, self.last);
    }
}

impl Chat {
    /// The attributes of its metrics.
    fn about(&self, answered: Option<&str>) -> Vec<KeyValue> {
        let mut attributes = vec![
            KeyValue::new(names::OPERATION, names::CHAT),
            KeyValue::new(names::REQUEST_MODEL, self.model.clone()),
        ];
        if !self.provider.is_empty() {
            attributes.push(KeyValue::new(names::PROVIDER, self.provider.clone()));
        }
        attributes
            .extend(answered.map(|name| KeyValue::new(names::RESPONSE_MODEL, name.to_owned())));
        attributes
    }
}

fn chat(tracer: &BoxedTracer, parent: &Context, observation: &Observation<'_>) -> Chat {
    let info = observation.info;
    let (model, provider, cap) = match observation.detail {
        Detail::Request { model, provider, max_output_tokens, .. } => {
            (model, provider, max_output_tokens)
        }
        _ => (info.model.as_str(), info.provider.as_str(), None),
    };
    let mut attributes = vec![
        KeyValue::new(names::OPERATION, names::CHAT),
        KeyValue::new(names::REQUEST_MODEL, model.to_owned()),
        KeyValue::new(names::CONVERSATION, info.id.to_string()),
        KeyValue::new(names::AGENT, info.agent.clone()),
    ];
    if !provider.is_empty() {
        attributes.push(KeyValue::new(names::PROVIDER, provider.to_owned()));
    }
    attributes.extend(cap.map(|cap| KeyValue::new(names::REQUEST_MAX_TOKENS, number(cap))));
    let mut builder = tracer
        .span_builder(format!("{} {model}", names::CHAT))
        .with_kind(SpanKind::Client)
        .with_attributes(attributes);
    builder.start_time = time(observation.event.wall);
    let span = tracer.build_with_context(builder, parent);
    Chat { span, model: model.to_owned(), provider: provider.to_owned() }
}

/// A span within its context, so that others can be opened below it.
fn open(
    tracer: &BoxedTracer,
    parent: &Context,
    name: String,
    kind: SpanKind,
    wall: WallTime,
    attributes: Vec<KeyValue>,
) -> Context {
    let mut builder = tracer.span_builder(name).with_kind(kind).with_attributes(attributes);
    builder.start_time = time(wall);
    parent.with_span(tracer.build_with_context(builder, parent))
}

fn end(span: &mut BoxedSpan, time: Option<SystemTime>) {
    match time {
        Some(time) => span.end_with_timestamp(time),
        None => span.end(),
    }
}

fn end_span(span: &opentelemetry::trace::SpanRef<'_>, time: Option<SystemTime>) {
    match time {
        Some(time) => span.end_with_timestamp(time),
        None => span.end(),
    }
}
