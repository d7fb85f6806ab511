//! A trace as a run: its spans in the order of time, a lane for each agent, played side by side.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use endstop_core::event::Source as Origin;
use endstop_core::units::Cost;

use super::super::act::{Act, Beat, Full, Reply, Time};
use super::super::bill::{ModelCall, bill};
use super::super::conversation::{Conversation, Ended};
use super::super::warning::{WarningKind, Warnings};
use super::super::writer::{Closing, RunWriter};
use super::super::{Format as _, RunHeader, RunSink, Source};
use super::Otlp;
use super::span::{Kind, Model, Span};
use endstop_price::UsageShape;

/// How far a span's ancestors are followed: deeper traces are damaged, or go in circles.
const MAX_ANCESTORS: usize = 512;

/// Plays a trace, if it holds a model call or a tool call.
pub(super) fn play(
    trace: &str,
    mut spans: Vec<Span>,
    source: &Source<'_>,
    sink: &mut dyn RunSink,
    warnings: &mut Warnings,
) {
    // Exporters write a span when it ends, so what holds others comes after them in the file.
    spans.sort_by_key(|span| (span.start, Reverse(span.end)));
    let tree = Tree::of(&spans);
    if !spans.iter().any(|span| matches!(span.kind, Kind::Model(_) | Kind::Tool(_))) {
        return;
    }
    let mut lanes = Lanes { source, warnings, lanes: BTreeMap::new() };
    for (index, span) in spans.iter().enumerate() {
        lanes.add(span, &tree, index);
    }
    let lanes: Vec<Lane> = lanes.finish();
    let outcome = tree.has_failed(&spans).then_some(false);
    let first = spans.iter().find_map(Span::begun);
    let header = RunHeader { id: trace, format: Otlp.id(), file: source.main.name(), model: None };
    let mut writer = RunWriter::begin(sink, &header, first);
    for (lane, act, time, beat) in in_time(&lanes) {
        writer.beat(lane.origin, act, time, beat);
    }
    writer.end(Closing { outcome, has_money: true, ..Closing::default() });
}

/// Where each span stands.
struct Tree {
    /// The agent that a span runs in, by the span's place: its own place for an agent.
    agents: Vec<Option<usize>>,
    /// How many agents are above and at a span.
    depths: Vec<u32>,
    /// Model calls that another span tells too.
    doubles: BTreeSet<usize>,
}

impl Tree {
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
                spans.get(**place).is_some_and(|s| matches!(s.kind, Kind::Agent(_)))
            };
            tree.agents.push(line.iter().find(is_agent).copied());
            let depth = line.iter().filter(is_agent).count();
            tree.depths.push(u32::try_from(depth).unwrap_or(u32::MAX));
            if let Kind::Model(_) = span.kind {
                tree.note_double(spans, &line);
            }
        }
        tree
    }

    /// A model call right within another is the same: the one that tells its tokens counts.
    fn note_double(&mut self, spans: &[Span], line: &[usize]) {
        let Some((inner, above)) = line.split_first() else { return };
        let kinds = above.iter().filter_map(|place| Some((*place, &spans.get(*place)?.kind)));
        let mut kinds = kinds.skip_while(|(_, kind)| matches!(kind, Kind::Other));
        if let Some((outer, Kind::Model(model))) = kinds.next() {
            self.doubles.insert(if model.usage.is_some() { *inner } else { outer });
        }
    }

    fn depth(&self, place: usize) -> u32 {
        self.depths.get(place).copied().unwrap_or(0)
    }

    /// Whether a topmost agent failed; where there is none, a span without parent.
    fn has_failed(&self, spans: &[Span]) -> bool {
        let is_agent = |span: &Span| matches!(span.kind, Kind::Agent(_));
        let has_agents = spans.iter().any(is_agent);
        let mut tops = spans.iter().enumerate().filter(|(place, span)| match has_agents {
            true => is_agent(span) && self.depth(*place) == 1,
            false => span.parent.is_none(),
        });
        tops.any(|(_, span)| span.failed && !matches!(span.kind, Kind::Tool(_)))
    }
}

/// What one agent did.
struct Lane {
    origin: Origin,
    conversation: Conversation,
    ended: Option<Time>,
}

struct Lanes<'s, 'w> {
    source: &'s Source<'s>,
    warnings: &'w mut Warnings,
    /// By the place of the agent's span; the run's own lane is the one of all topmost agents.
    lanes: BTreeMap<Option<usize>, Lane>,
}

impl Lanes<'_, '_> {
    fn add(&mut self, span: &Span, tree: &Tree, place: usize) {
        let depth = tree.depth(place);
        let agent = tree.agents.get(place).copied().flatten().filter(|_| depth > 1);
        let origin = if agent.is_some() { Origin::Descendant } else { Origin::Own };
        let lane = self.lanes.entry(agent).or_insert_with(|| Lane {
            origin,
            conversation: Conversation::default(),
            ended: None,
        });
        let conversation = &mut lane.conversation;
        let added = match &span.kind {
            Kind::Agent(turns) => {
                if depth > 1 {
                    conversation.push(Act::ChildBeginAt(span.begun(), depth - 1));
                    lane.ended = Some(span.ended());
                }
                conversation.hear((*turns).max(1), span.begun());
                Ok(())
            }
            Kind::Model(_) if tree.doubles.contains(&place) => Ok(()),
            Kind::Model(model) => {
                conversation.ask(&model.told, span.begun());
                if span.failed {
                    conversation.fail(span.ended());
                    Ok(())
                } else {
                    let reply = reply(model, span, self.source, self.warnings);
                    conversation.answer(span.ended(), reply, &model.said)
                }
            }
            Kind::Tool(tool) => {
                let result = tool.result.clone().unwrap_or_default();
                let ended = Ended { time: span.ended(), result, failed: span.failed };
                conversation.tool(&tool.asked, span.begun(), ended);
                Ok(())
            }
            Kind::Other => Ok(()),
        };
        self.note(added);
    }

    fn note(&mut self, added: Result<(), Full>) {
        if added.is_err() {
            let message = || "a step holds more than is kept; the rest of it is dropped".to_owned();
            self.warnings.add(WarningKind::TooLarge, self.source.main.name(), None, message);
        }
    }

    fn finish(mut self) -> Vec<Lane> {
        let mut lanes = std::mem::take(&mut self.lanes);
        for lane in lanes.values_mut() {
            let closed = lane.conversation.close();
            self.note(closed);
            if let Some(time) = lane.ended {
                lane.conversation.push(Act::ChildEnd(time));
            }
        }
        lanes.into_values().collect()
    }
}

fn reply(model: &Model, span: &Span, source: &Source<'_>, warnings: &mut Warnings) -> Reply {
    let mut reply = Reply {
        model: model.name.clone(),
        finish: model.finish.clone(),
        cost: Some(Cost::Unpriced),
        ..Reply::default()
    };
    let Some(usage) = &model.usage else { return reply };
    let call = ModelCall {
        providers: &[model.provider.as_deref(), None],
        model: model.name.as_deref(),
        shape: UsageShape::Otel,
        usage,
        service_tier: None,
        time: span.ended(),
    };
    let bill = bill(&call, source.prices);
    let file = source.main.name();
    if let Some(problem) = bill.problem {
        let message = || format!("usage of span {}: {problem}", span.id);
        warnings.add(WarningKind::BadNumber, file, None, message);
    }
    if bill.was_exclusive {
        let message = || "input tokens below their cached part; taken as without it".to_owned();
        warnings.add(WarningKind::Reinterpreted, file, None, message);
    }
    (reply.usage, reply.cost, reply.source) = (bill.usage, Some(bill.cost), bill.source);
    reply
}

/// The events of all lanes in the order of time, those of one lane in their own order. At one time the outer
/// agent comes first.
fn in_time(lanes: &[Lane]) -> Vec<(&Lane, &Act, Time, Beat)> {
    let mut beats = Vec::new();
    for lane in lanes {
        let mut now = 0;
        for act in lane.conversation.acts() {
            for (time, beat) in act.beats() {
                now = time.unwrap_or(0).max(now);
                beats.push((now, (lane, act, time, beat)));
            }
        }
    }
    beats.sort_by_key(|(now, _)| *now);
    beats.into_iter().map(|(_, beat)| beat).collect()
}
