//! The log as it was at some moment, and the steps in it.

use endstop_core::event::Source;
use endstop_core::{Event, EventKind};

/// An event, and whether the run refused it. A refused intention has not begun and is not counted; a
/// refused hand-off is only missing from the gauge `handoffs`.
#[derive(Clone, Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) event: Event<'a>,
    pub(crate) refused: bool,
}

/// The index of the event that is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment(pub(crate) usize);

/// A step of the run itself that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClosedStep {
    /// The index of its end.
    pub(crate) end: usize,
    /// 1 for the first step begun.
    pub(crate) number: usize,
}

/// The log up to the event that is judged, which is its last one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'l, 'a> {
    entries: &'l [Entry<'a>],
    shows_depth: bool,
    shows_reserve: bool,
}

impl<'l, 'a> View<'l, 'a> {
    pub(crate) fn new(log: &'l [Entry<'a>], moment: Moment) -> Self {
        Self { entries: &log[..=moment.0], shows_depth: false, shows_reserve: false }
    }

    /// The same, with the depth that a child would run at to be compared.
    pub(crate) fn showing_depth(self) -> Self {
        Self { shows_depth: true, ..self }
    }

    /// The same, with the worst case of the model request that is judged, if one is.
    pub(crate) fn showing_reserve(self) -> Self {
        Self { shows_reserve: true, ..self }
    }

    /// The worst case of the judged request or tool call; that of the next step is not judged.
    pub(crate) fn reserve(self) -> Option<&'l Event<'a>> {
        let event = self.judged();
        let is_request = event.source == Source::Descendant || self.is_in_step();
        let is_reserve = match event.kind {
            EventKind::Reserve { .. } => is_request,
            EventKind::ToolReserve { .. } => true,
            _ => false,
        };
        (self.shows_reserve && is_reserve).then_some(event)
    }

    pub(crate) fn shows_depth(self) -> bool {
        self.shows_depth
    }

    /// The view that was had when the event at `index` was judged.
    pub(crate) fn back_at(self, index: usize) -> Self {
        Self::new(self.entries, Moment(index))
    }

    pub(crate) fn judged(self) -> &'l Event<'a> {
        &self.entries[self.last()].event
    }

    /// The index of the event that is judged.
    pub(crate) fn last(self) -> usize {
        self.entries.len() - 1
    }

    pub(crate) fn was_refused(self, index: usize) -> bool {
        self.entries[index].refused
    }

    /// The events that count: an intention that is being judged does not yet, a refused one never.
    pub(crate) fn counted(self) -> impl Iterator<Item = (usize, &'l Event<'a>)> {
        let last = self.last();
        self.entries.iter().enumerate().filter_map(move |(index, entry)| {
            let announced = entry.event.kind.is_intention();
            let counts = !announced || (index < last && !entry.refused);
            counts.then_some((index, &entry.event))
        })
    }

    /// Like [`View::counted`], of the run itself only.
    pub(crate) fn own(self) -> impl Iterator<Item = (usize, &'l Event<'a>)> {
        self.counted().filter(|(_, event)| event.source == Source::Own)
    }

    /// Elapsed time at the event at `index`; an offset that falls is read as the largest one seen.
    pub(crate) fn elapsed_at(self, index: usize) -> u64 {
        self.entries[..=index].iter().map(|entry| entry.event.at.0).max().unwrap_or(0)
    }

    pub(crate) fn elapsed(self) -> u64 {
        self.elapsed_at(self.last())
    }

    /// The own step that began last: the index of its beginning and, once it is over, of its end.
    pub(crate) fn step(self) -> Option<(usize, Option<usize>)> {
        let mut step = None;
        for (index, event) in self.own() {
            match (&event.kind, step) {
                (EventKind::StepBegin, _) => step = Some((index, None)),
                (EventKind::StepEnd, Some((begin, None))) => step = Some((begin, Some(index))),
                _ => {}
            }
        }
        step
    }

    pub(crate) fn is_in_step(self) -> bool {
        matches!(self.step(), Some((_, None)))
    }

    /// Every event, refused ones too, up to the one that is judged.
    pub(crate) fn heard(self) -> impl Iterator<Item = (usize, &'l Event<'a>)> {
        self.entries.iter().enumerate().map(|(index, entry)| (index, &entry.event))
    }

    /// The own events since the step began that is open or was the last; those since the run began if
    /// there was no step.
    pub(crate) fn since_step(self) -> Vec<(usize, &'l Event<'a>)> {
        let begin = self.step().map_or(0, |(begin, _)| begin);
        self.own().filter(|(index, _)| *index >= begin).collect()
    }

    /// How many own steps have begun.
    pub(crate) fn steps_begun(self) -> usize {
        self.own().filter(|(_, event)| event.kind == EventKind::StepBegin).count()
    }

    /// The own steps that are over, oldest first. An end without a beginning ends nothing.
    pub(crate) fn closed_steps(self) -> Vec<ClosedStep> {
        let mut closed = Vec::new();
        let (mut number, mut open) = (0, false);
        for (index, event) in self.own() {
            match event.kind {
                EventKind::StepBegin => {
                    number += 1;
                    open = true;
                }
                EventKind::StepEnd if open => {
                    closed.push(ClosedStep { end: index, number });
                    open = false;
                }
                _ => {}
            }
        }
        closed
    }

    /// The own events of the step that began last, in order; its end included.
    pub(crate) fn of_step(self) -> Vec<(usize, &'l Event<'a>)> {
        let Some((begin, end)) = self.step() else { return Vec::new() };
        let end = end.unwrap_or(self.last());
        self.own().filter(|(index, _)| (begin..=end).contains(index)).collect()
    }
}
