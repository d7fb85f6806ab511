//! Progress as tool results show it: repeats, cycles, whether anything was new, and how much was stale.

use alloc::boxed::Box;

use serde::{Deserialize, Serialize};

use super::seen::{SeenResults, digest};
use super::stale::Stale;
use crate::limits::{CYCLE_PERIOD, WAIT_MS};
use crate::program::Needs;
use crate::units::Millis;

/// Progress as tool results show it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Progress {
    recent: RecentResults,
    /// Distinct results; kept if a condition asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    seen: Option<Box<SeenResults>>,
    /// The basis of `stale`; kept if a condition asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    stale: Option<Stale>,
    /// Steps in a row without news.
    no_progress: u64,
    /// Whether the step, or a user since the last one, brought something new.
    brought_news: bool,
    /// When the last own call of a tool began, in the open step.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_begun: Option<Millis>,
    /// Whether a call of the open step has waited.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    has_waited: bool,
}

impl Progress {
    pub(crate) fn new(needs: Needs) -> Self {
        Self {
            seen: needs.seen.then(Box::default),
            stale: needs.stale.then(Stale::default),
            ..Self::default()
        }
    }

    pub(crate) const fn repeats(&self) -> u64 {
        self.recent.repeats
    }

    pub(crate) fn cycles(&self) -> u64 {
        self.recent.cycles()
    }

    /// Steps in a row without news.
    pub(crate) const fn idle_steps(&self) -> u64 {
        self.no_progress
    }

    /// Stale steps of a hundred; 0 if the policy does not ask for it.
    pub(crate) fn stale_percent(&self) -> u64 {
        self.stale.as_ref().map_or(0, Stale::percent)
    }

    /// Whether a part of the steps was not checked.
    pub(crate) fn is_stale_unknown(&self) -> bool {
        self.stale.as_ref().is_some_and(Stale::is_unknown)
    }

    /// A user spoke: what comes now answers something else.
    pub(crate) fn user_message(&mut self) {
        self.recent = RecentResults::default();
        self.no_progress = 0;
        if let Some(stale) = &mut self.stale {
            stale.clear();
        }
        self.brought_news = true;
    }

    /// An own call of a tool has begun.
    pub(crate) fn begin_tool(&mut self, needs: Needs, at: Millis) {
        self.tool_begun = Some(at).filter(|_| needs.digests || needs.seen || needs.stale);
    }

    /// Records the result of an own call. One that has waited says nothing of progress.
    pub(crate) fn result(
        &mut self,
        needs: Needs,
        (tool, arguments, result): (&str, &str, &str),
        failed: bool,
        at: Millis,
    ) {
        let took = self.tool_begun.map_or(0, |begun| at.0.saturating_sub(begun.0));
        if !failed && took >= WAIT_MS {
            self.has_waited = true;
            return;
        }
        if let Some(stale) = &mut self.stale {
            stale.result(tool, arguments, result, failed);
        }
        if needs.digests || needs.seen {
            let digest = digest(tool, arguments, result);
            self.recent.push(digest);
            if let Some(seen) = &mut self.seen {
                self.brought_news |= seen.insert(digest);
            }
        }
    }

    /// The own step that was open is over.
    pub(crate) fn end_step(&mut self) {
        if let Some(stale) = &mut self.stale {
            stale.end_step();
        }
        self.tool_begun = None;
        let news = core::mem::take(&mut self.brought_news);
        if core::mem::take(&mut self.has_waited) && !news {
            return;
        }
        // Without the results, nothing is known of what was new.
        let is_idle = self.seen.is_some() && !news;
        self.no_progress = if is_idle { self.no_progress.saturating_add(1) } else { 0 };
    }

    /// Brings saved progress under another policy's needs, in a run that may have `begun`.
    pub(crate) fn fit(&mut self, needs: Needs, begun: bool) {
        self.recent.known = self.recent.known.min(CYCLE_PERIOD as u64);
        if self.seen.is_none() {
            self.no_progress = 0;
        }
        if needs.seen {
            self.seen.get_or_insert_default();
        } else {
            self.seen = None;
        }
        if needs.stale {
            self.stale.get_or_insert_with(|| Stale::unseen(begun));
        } else {
            self.stale = None;
        }
    }
}

/// Repeats and cycles of digests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct RecentResults {
    /// The last digests, newest first.
    last: [u64; CYCLE_PERIOD],
    /// How many there have been since the run or the last user message began, up to [`CYCLE_PERIOD`].
    known: u64,
    /// Equal ones in a row beyond the first.
    repeats: u64,
    /// For each period from 2: how many digests in a row equal the one a period before.
    matched: [u64; CYCLE_PERIOD - 1],
}

impl RecentResults {
    fn push(&mut self, digest: u64) {
        let (known, last) = (self.known, self.last);
        let equal_at = |back: u64| {
            known >= back && last.iter().zip(1..).any(|(d, b)| b == back && *d == digest)
        };
        self.repeats = if equal_at(1) { self.repeats.saturating_add(1) } else { 0 };
        for (matched, period) in self.matched.iter_mut().zip(2u64..) {
            // A constant run has every period; it is repeats, not a cycle.
            let constant = self.repeats >= period;
            *matched = if equal_at(period) && !constant { matched.saturating_add(1) } else { 0 };
        }
        self.last.rotate_right(1);
        self.last[0] = digest;
        self.known = (self.known + 1).min(CYCLE_PERIOD as u64);
    }

    /// Whole repetitions of a period of 2 to 4 beyond the first.
    fn cycles(&self) -> u64 {
        let periods = self.matched.iter().zip(2u64..);
        periods.map(|(matched, period)| matched / period).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
