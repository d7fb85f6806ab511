//! Agents that worked at the same time, merged by time into one run.

use endstop_core::event::Source as Origin;

use super::act::{Act, Beat, Time};
use super::writer::RunWriter;

/// What one agent did, in order.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) acts: Vec<Act>,
}

/// A lane with the place of its next event.
struct Playing<'l> {
    origin: Origin,
    acts: std::slice::Iter<'l, Act>,
    current: Option<(&'l Act, std::vec::IntoIter<(Time, Beat)>)>,
    next: Option<(Time, Beat)>,
    /// The latest time that was told in the lane, which an event without a time has, too.
    time: u64,
}

/// Plays the run's own lane and those of its sub-agents. At equal times the run itself comes first; a
/// sub-agent without times comes after it.
pub(super) fn play(writer: &mut RunWriter<'_>, own: &Lane, children: &[Lane]) {
    let mut lanes = vec![Playing::new(Origin::Own, own, 0)];
    lanes.extend(children.iter().map(|child| Playing::new(Origin::Descendant, child, u64::MAX)));
    loop {
        let waiting = lanes.iter_mut().filter(|lane| lane.next.is_some());
        let Some(lane) = waiting.min_by_key(|lane| lane.time) else { return };
        if let (Some((act, _)), Some((time, beat))) = (&lane.current, lane.next) {
            writer.beat(lane.origin, act, time, beat);
        }
        lane.advance();
    }
}

impl<'l> Playing<'l> {
    fn new(origin: Origin, lane: &'l Lane, without_time: u64) -> Self {
        let (acts, current, next, time) = (lane.acts.iter(), None, None, 0);
        let mut playing = Self { origin, acts, current, next, time };
        playing.advance();
        if let Some((None, _)) = playing.next {
            playing.time = without_time;
        }
        playing
    }

    fn advance(&mut self) {
        loop {
            self.next = self.current.as_mut().and_then(|(_, beats)| beats.next());
            if let Some((time, _)) = self.next {
                self.time = self.time.max(time.unwrap_or(0));
                return;
            }
            let Some(act) = self.acts.next() else { return };
            self.current = Some((act, act.beats().into_iter()));
        }
    }
}
