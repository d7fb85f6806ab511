//! The number behind each gauge, and how far it can be trusted.
//!
//! The place for a gauge that is read in another way: nothing here changes the meter.

use serde::{Deserialize, Serialize};

use super::Meter;
use crate::counter::Counter;
use crate::program::{Class, Program, Read};

/// How far a number of the frame can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reading {
    /// Exact.
    Known,
    /// A lower bound: a leaf is unknown unless no addition can change it.
    AtLeast,
    /// Unknown, or no longer valid.
    Unknown,
    /// A lower bound because a price is missing, and the policy stops for that.
    Unpriced,
    /// Not compared at this moment.
    Absent,
}

impl Meter {
    /// The number behind a gauge, now.
    pub(crate) fn read(&self, read: Read) -> u64 {
        match read {
            Read::Counter { counter, own } => self.tallies.of(own).get(counter),
            Read::Tool { tool, own } => self.tools.at(tool).calls(own),
            Read::Context => self.context_tokens,
            Read::NextCost => 0,
            Read::Elapsed => self.clocks.at().0,
            Read::Active => self.clocks.active(),
            Read::Idle => self.clocks.idle(),
            Read::Now => self.clocks.wall().0,
            Read::Depth => self.depth,
            Read::Repeats => self.progress.repeats(),
            Read::Cycles => self.progress.cycles(),
            Read::NoProgress => self.progress.idle_steps(),
            Read::Stale => self.progress.stale_percent(),
            // An unknown number is unknown by its reading; the number itself is ignored.
            Read::Reported(number) => self.reported.at(number).unwrap_or(0),
            Read::Probe(probe) => self.probed.at(probe).unwrap_or(0),
            Read::Op(op) => self.operators.at(op).number(),
        }
    }

    /// How far the number behind a gauge can be trusted, now.
    pub(super) fn reading(&self, program: &Program, class: Class, read: Read) -> Reading {
        let unknown_if = |unknown: bool| if unknown { Reading::Unknown } else { Reading::Known };
        let at_least_if = |unknown: bool| if unknown { Reading::AtLeast } else { Reading::Known };
        match (class, read) {
            (Class::Depth | Class::NextCost, _) => Reading::Absent,
            (_, Read::Counter { counter: Counter::Cost, own }) => {
                if self.is_cost_known(program, own) { Reading::Known } else { Reading::Unpriced }
            }
            (_, Read::Context) => unknown_if(self.context_unknown),
            (_, Read::Stale) => unknown_if(self.progress.is_stale_unknown()),
            (Class::Settled, Read::Counter { own, .. }) => {
                at_least_if(self.tallies.of(own).lacks_tokens())
            }
            (_, Read::Reported(number)) => unknown_if(self.reported.at(number).is_none()),
            (_, Read::Probe(probe)) => unknown_if(self.probed.at(probe).is_none()),
            (_, Read::Tool { tool, .. }) => at_least_if(self.tools.at(tool).is_partial()),
            (_, Read::Op(op)) => at_least_if(self.operators.at(op).is_unknown()),
            _ => Reading::Known,
        }
    }
}
