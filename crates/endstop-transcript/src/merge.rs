//! Agents that worked at the same time, merged by time: from one file, or each from a separate file.

use endstop_core::event::Source as Origin;

use super::time::Time;
use super::timeline::{AgentTimeline, EntryEvent, TimelineEntry};

/// The place of a sub-agent whose beginning has no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Untimed {
    /// Before everything with a time.
    First,
    /// After everything with a time.
    Last,
}

/// One of the agents that are merged, with the place of its next event.
pub(crate) struct MergedAgent<'s> {
    origin: Origin,
    entries: Box<dyn Iterator<Item = TimelineEntry> + 's>,
    current: Option<(TimelineEntry, std::vec::IntoIter<(Time, EntryEvent)>)>,
    next: Option<(Time, EntryEvent)>,
    /// The latest recorded time of the agent so far; an event without a time has it too.
    time: u64,
}

impl<'s> MergedAgent<'s> {
    /// The run itself.
    pub(crate) fn own(entries: impl IntoIterator<Item = TimelineEntry> + 's) -> Self {
        let mut agent = Self::new(Origin::Own, 0, entries);
        agent.advance();
        agent
    }

    /// A sub-agent whose file is opened when its time comes: a run may have more of them than a process may open. It
    /// began at `begun`, or first of all if its file does not record when.
    pub(crate) fn file(begun: Time, entries: impl Iterator<Item = TimelineEntry> + 's) -> Self {
        Self::new(Origin::Descendant, begun.unwrap_or(0), entries)
    }

    /// A run and its sub-agents.
    pub(crate) fn of_run(
        own: Vec<TimelineEntry>,
        children: Vec<AgentTimeline>,
        untimed: Untimed,
    ) -> Vec<Self> {
        let child = |mut child: AgentTimeline| {
            let mut agent = Self::new(Origin::Descendant, 0, child.take());
            agent.advance();
            if let (Some((None, _)), Untimed::Last) = (agent.next, untimed) {
                agent.time = u64::MAX;
            }
            agent
        };
        std::iter::once(Self::own(own)).chain(children.into_iter().map(child)).collect()
    }

    fn new(
        origin: Origin,
        time: u64,
        entries: impl IntoIterator<Item = TimelineEntry, IntoIter: 's>,
    ) -> Self {
        Self { origin, entries: Box::new(entries.into_iter()), current: None, next: None, time }
    }

    /// Goes to the next event. False at the end.
    fn advance(&mut self) -> bool {
        loop {
            self.next = self.current.as_mut().and_then(|(_, events)| events.next());
            if let Some((time, _)) = self.next {
                self.time = self.time.max(time.unwrap_or(0));
                return true;
            }
            let Some(entry) = self.entries.next() else { return false };
            let events = entry.events().into_iter();
            self.current = Some((entry, events));
        }
    }
}

/// Hands over the events of agents in the order of time. At one time the first agent comes first.
pub(crate) fn merge(
    mut agents: Vec<MergedAgent<'_>>,
    take: &mut dyn FnMut(Origin, &TimelineEntry, Time, EntryEvent),
) {
    let earliest = |agents: &[MergedAgent<'_>]| {
        let places = agents.iter().enumerate();
        places.min_by_key(|(_, agent)| agent.time).map(|(place, _)| place)
    };
    while let Some(place) = earliest(&agents) {
        let Some(agent) = agents.get_mut(place) else { return };
        if let (Some((entry, _)), Some((time, event))) = (&agent.current, agent.next) {
            take(agent.origin, entry, time, event);
        }
        if !agent.advance() {
            agents.remove(place);
        }
    }
}
