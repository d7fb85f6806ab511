//! Writes entries into a sink as well-formed events: bracketed, in time, tallied.

use std::collections::BTreeMap;

use endstop_core::event::Source as Origin;
use endstop_core::units::{Millis, WallTime};
use endstop_core::{Event, EventKind};

use super::limits::MAX_MODELS;
use super::step::{CostSource, ModelResponse};
use super::time::Time;
use super::timeline::{EntryEvent, TimelineEntry};
use super::{CostIs, RunFooter, RunHeader, RunSink};

/// Writes one run.
pub(crate) struct RunWriter<'s> {
    sink: &'s mut dyn RunSink,
    first: Time,
    at: u64,
    tally: Tally,
}

/// How a run is closed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Closing {
    pub(crate) outcome: Option<bool>,
    /// The format records money.
    pub(crate) has_money: bool,
    /// Its token counts are too low.
    pub(crate) is_lower_bound: bool,
}

#[derive(Debug, Default)]
struct Tally {
    billed: u64,
    computed: u64,
    unknown: u64,
    models: BTreeMap<String, u64>,
}

impl<'s> RunWriter<'s> {
    /// Begins a run whose first record is of `first`.
    pub(crate) fn begin(sink: &'s mut dyn RunSink, header: &RunHeader<'_>, first: Time) -> Self {
        sink.begin(header);
        let mut writer = Self { sink, first, at: 0, tally: Tally::default() };
        writer.event(Origin::Own, first, EventKind::RunBegin { agent: None, depth: 0 });
        writer
    }

    /// Writes an entry of the run itself, and what sub-agents did in it.
    pub(crate) fn entry(&mut self, entry: &TimelineEntry) {
        let mut has_children = true;
        for (time, event) in entry.events() {
            let children = entry.children_before(event);
            if !children.is_empty() && std::mem::take(&mut has_children) {
                for child in children {
                    self.child(child.entries());
                }
            }
            self.event_of(Origin::Own, entry, time, event);
        }
    }

    /// Writes all entries of a sub-agent.
    pub(crate) fn child(&mut self, entries: &[TimelineEntry]) {
        for entry in entries {
            for (time, event) in entry.events() {
                self.event_of(Origin::Descendant, entry, time, event);
            }
        }
    }

    /// Writes one event of an entry.
    pub(crate) fn event_of(
        &mut self,
        origin: Origin,
        entry: &TimelineEntry,
        time: Time,
        event: EntryEvent,
    ) {
        if let Some(reply) = entry.reply(event) {
            self.tally.add(reply);
        }
        // That a sub-agent begins is an event of the run that begins it.
        let is_parents = matches!(event, EntryEvent::ChildBegin | EntryEvent::ChildEnd);
        if let Some(kind) = entry.event(event) {
            self.event(if is_parents { Origin::Own } else { origin }, time, kind);
        }
    }

    /// Whether a model has answered.
    pub(crate) const fn has_replies(&self) -> bool {
        self.tally.billed + self.tally.computed + self.tally.unknown > 0
    }

    /// Ends the run.
    pub(crate) fn end(mut self, closing: Closing) {
        let succeeded = closing.outcome;
        self.event(Origin::Own, None, EventKind::RunEnd { succeeded });
        let cost_is = self.tally.cost_is(closing);
        let model = self.tally.model();
        self.sink.end(&RunFooter { outcome: succeeded, cost_is, model });
    }

    fn event(&mut self, source: Origin, time: Time, kind: EventKind<'_>) {
        // A clock that goes back, or a record without time, stands still.
        let since = |first: u64| time.map(|time| time.saturating_sub(first));
        let at = self.first.and_then(since).unwrap_or(0).max(self.at);
        self.at = at;
        let wall = self.first.map_or(0, |first| first.saturating_add(at));
        self.sink.event(&Event { at: Millis(at), wall: WallTime(wall), source, kind });
    }
}

impl Tally {
    fn add(&mut self, reply: &ModelResponse) {
        let count = match reply.source {
            CostSource::Billed => &mut self.billed,
            CostSource::Computed => &mut self.computed,
            CostSource::Unknown => &mut self.unknown,
        };
        *count = count.saturating_add(1);
        let Some(model) = &reply.model else { return };
        if let Some(calls) = self.models.get_mut(model) {
            *calls = calls.saturating_add(1);
        } else if self.models.len() < MAX_MODELS {
            self.models.insert(model.clone(), 1);
        }
    }

    /// The model with the most calls; among equals the first by name.
    fn model(&self) -> Option<&str> {
        let models = self.models.iter().rev();
        models.max_by_key(|(_, calls)| **calls).map(|(model, _)| model.as_str())
    }

    const fn cost_is(&self, closing: Closing) -> CostIs {
        if self.unknown > 0 || !closing.has_money {
            CostIs::Unknown
        } else if closing.is_lower_bound {
            CostIs::LowerBound
        } else if self.computed > 0 || self.billed == 0 {
            CostIs::Computed
        } else {
            CostIs::Billed
        }
    }
}
