//! Clocks of a run. They move only with its events.

use serde::{Deserialize, Serialize};

use crate::event::{Event, EventKind, Source};
use crate::units::{Millis, WallTime};

/// Offsets from the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Clocks {
    at: Millis,
    wall: WallTime,
    paused_since: Option<Millis>,
    /// Paused in all, up to then.
    paused: Millis,
    /// Whether the live process waits for an approval.
    #[serde(skip_serializing_if = "is_false")]
    is_waiting: bool,
    /// Whether the run is paused from outside.
    #[serde(skip_serializing_if = "is_false")]
    is_held: bool,
    last_activity: Millis,
}

impl Clocks {
    /// The offset of the last event.
    #[inline]
    pub(crate) const fn at(&self) -> Millis {
        self.at
    }

    pub(crate) const fn wall(&self) -> WallTime {
        self.wall
    }

    pub(crate) const fn is_paused(&self) -> bool {
        self.paused_since.is_some()
    }

    pub(crate) fn active(&self) -> u64 {
        self.paused_since.unwrap_or(self.at).0.saturating_sub(self.paused.0)
    }

    pub(crate) const fn idle(&self) -> u64 {
        self.at.0.saturating_sub(self.last_activity.0)
    }

    /// Moves to the event.
    #[inline]
    pub(crate) fn arrive(&mut self, event: &Event<'_>) {
        self.at = self.at.max(event.at);
        self.wall = self.wall.max(event.wall);
        let active = event.source == Source::Descendant
            || matches!(
                event.kind,
                EventKind::Piece { .. }
                    | EventKind::Reply { .. }
                    | EventKind::ToolEnd { .. }
                    | EventKind::UserMessage
                    | EventKind::ChildBegin { .. }
                    | EventKind::ChildEnd
            );
        if active {
            self.last_activity = self.at;
        }
    }

    /// Takes back that the last event was activity: it was only asked about.
    pub(crate) const fn forget_activity(&mut self, before: &Self) {
        self.last_activity = before.last_activity;
    }

    /// Stops or starts `active` if the event does. A pause from outside belongs to the run that it was requested for.
    pub(crate) fn pause_by(&mut self, kind: &EventKind<'_>, own: bool) {
        match kind {
            EventKind::Paused => self.is_waiting = true,
            EventKind::Resumed => self.is_waiting = false,
            EventKind::PauseRequested { .. } if own => self.is_held = true,
            EventKind::ResumeRequested { .. } if own => self.is_held = false,
            _ => return,
        }
        self.stop_or_start();
    }

    /// `active` stands still for either cause.
    fn stop_or_start(&mut self) {
        if self.is_waiting || self.is_held {
            self.paused_since.get_or_insert(self.at);
        } else if let Some(since) = self.paused_since.take() {
            let length = self.at.0.saturating_sub(since.0);
            self.paused.0 = self.paused.0.saturating_add(length);
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
const fn is_false(value: &bool) -> bool {
    !*value
}
