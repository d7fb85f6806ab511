//! A trace as a run: its spans in the order of time, assigned to the agents they belong to.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use endstop_price::UsageShape;

use super::span::{ModelSpan, Span, SpanKind};
use crate::RunSink;
use crate::builder::RunBuilder;
use crate::call_charge::ModelCall;
use crate::limits::MAX_ANCESTORS;
use crate::merge::Untimed;
use crate::reading::Reading;
use crate::step::{Full, ModelResponse, ToolAnswer};
use crate::timeline::AgentTimeline;
use crate::warning::WarningKind;

/// Reads a trace, if it holds a model call or a tool call.
pub(super) fn read_trace(
    trace: &str,
    mut spans: Vec<Span>,
    reading: Reading<'_>,
    sink: &mut dyn RunSink,
) {
    // Exporters write a span when it ends, so what holds others comes after them in the file.
    spans.sort_by_key(|span| (span.start, Reverse(span.end)));
    let tree = SpanTree::of(&spans);
    if !spans.iter().any(|span| matches!(span.kind, SpanKind::Model(_) | SpanKind::Tool(_))) {
        return;
    }
    let mut run = RunBuilder::new(reading, sink).named(Some(trace));
    run.begin(spans.iter().find_map(Span::begun));
    let mut agents = TraceAgents { run, children: BTreeMap::new() };
    for (place, span) in spans.iter().enumerate() {
        let added = agents.add(span, &tree, place);
        agents.run.check(added);
    }
    agents.end(tree.has_failed(&spans).then_some(false));
}

/// Where each span stands.
struct SpanTree {
    /// The agent that a span runs in, by the span's place: its own place for an agent.
    agents: Vec<Option<usize>>,
    /// How many agents are above and at a span.
    depths: Vec<u32>,
    /// Model calls that another span records too.
    doubles: BTreeSet<usize>,
}

impl SpanTree {
    fn of(spans: &[Span]) -> Self {
        let places: BTreeMap<&str, usize> =
            spans.iter().enumerate().map(|(place, span)| (span.id.as_str(), place)).collect();
        let parent = |place: usize| -> Option<usize> {
            let parent = spans.get(place)?.parent.as_deref()?;
            places.get(parent).copied()
        };
        let mut tree = Self { agents: Vec::new(), depths: Vec::new(), doubles: BTreeSet::new() };
        for (place, span) in spans.iter().enumerate() {
            let line = std::iter::successors(Some(place), |place| parent(*place));
            let line: Vec<usize> = line.take(MAX_ANCESTORS).collect();
            let is_agent = |place: &&usize| {
                spans.get(**place).is_some_and(|s| matches!(s.kind, SpanKind::Agent(_)))
            };
            tree.agents.push(line.iter().find(is_agent).copied());
            let depth = line.iter().filter(is_agent).count();
            tree.depths.push(u32::try_from(depth).unwrap_or(u32::MAX));
            if let SpanKind::Model(_) = span.kind {
                tree.note_double(spans, &line);
            }
        }
        tree
    }

    /// A model call right within another is the same: the one with tokens counts.
    fn note_double(&mut self, spans: &[Span], line: &[usize]) {
        let Some((inner, above)) = line.split_first() else { return };
        let kinds = above.iter().filter_map(|place| Some((*place, &spans.get(*place)?.kind)));
        let mut kinds = kinds.skip_while(|(_, kind)| matches!(kind, SpanKind::Other));
        if let Some((outer, SpanKind::Model(model))) = kinds.next() {
            self.doubles.insert(if model.usage.is_some() { *inner } else { outer });
        }
    }

    fn depth(&self, place: usize) -> u32 {
        self.depths.get(place).copied().unwrap_or(0)
    }

    /// Whether a topmost agent failed; without one, a span without parent.
    fn has_failed(&self, spans: &[Span]) -> bool {
        let is_agent = |span: &Span| matches!(span.kind, SpanKind::Agent(_));
        let has_agents = spans.iter().any(is_agent);
        let mut tops = spans.iter().enumerate().filter(|(place, span)| match has_agents {
            true => is_agent(span) && self.depth(*place) == 1,
            false => span.parent.is_none(),
        });
        tops.any(|(_, span)| span.failed && !matches!(span.kind, SpanKind::Tool(_)))
    }
}

struct TraceAgents<'s, 'w> {
    /// With what all topmost agents did.
    run: RunBuilder<'s, 'w>,
    /// By the places of their spans.
    children: BTreeMap<usize, AgentTimeline>,
}

impl TraceAgents<'_, '_> {
    fn add(&mut self, span: &Span, tree: &SpanTree, place: usize) -> Result<(), Full> {
        let depth = tree.depth(place);
        let agent = tree.agents.get(place).copied().flatten().filter(|_| depth > 1);
        let reading = self.run.reading;
        let timeline = match agent {
            Some(agent) => self.children.entry(agent).or_default(),
            None => self.run.own(),
        };
        match &span.kind {
            SpanKind::Agent(turns) => {
                if depth > 1 {
                    timeline.begin_child(span.begun(), depth - 1);
                    timeline.seen(span.ended());
                }
                timeline.hear((*turns).max(1), span.begun());
            }
            SpanKind::Model(_) if tree.doubles.contains(&place) => {}
            SpanKind::Model(model) => {
                let asked = timeline.ask(&model.told, span.begun());
                if !span.failed {
                    let reply = reply_of(model, span, reading);
                    return timeline.answer(span.ended(), reply, &model.said).and(asked);
                }
                timeline.fail(span.ended());
                return asked;
            }
            SpanKind::Tool(tool) => {
                let result = tool.result.clone().unwrap_or_default();
                let ended = ToolAnswer { time: span.ended(), result, failed: span.failed };
                return timeline.tool(&tool.asked, span.begun(), ended);
            }
            SpanKind::Other => {}
        }
        Ok(())
    }

    fn end(mut self, outcome: Option<bool>) {
        let finished = self.run.own().finish();
        self.run.check(finished);
        for child in self.children.values_mut() {
            self.run.check(child.finish());
            child.end_child();
        }
        self.run.write_with(self.children.into_values().collect(), Untimed::First);
        self.run.outcome(outcome);
        self.run.end();
    }
}

fn reply_of(model: &ModelSpan, span: &Span, reading: Reading<'_>) -> ModelResponse {
    let mut reply = ModelResponse::unpriced(model.name.as_deref());
    reply.finish.clone_from(&model.finish);
    let Some(usage) = &model.usage else { return reply };
    let call = ModelCall {
        providers: &[model.provider.as_deref(), None],
        time: span.ended(),
        ..ModelCall::new(UsageShape::Otel, usage)
    };
    let charge = reading.price(&mut reply, &call, format_args!("usage of span {}", span.id));
    if charge.was_exclusive {
        reading.warn(WarningKind::Reinterpreted, || {
            "input tokens below their cached part; taken as without it".to_owned()
        });
    }
    reply
}
