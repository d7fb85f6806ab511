//! The meter: all state that conditions are judged on. A plain value whose size is set by the policy.
//!
//! `view` holds the numbers as they are compared. A count inside a step is brought up to date there only
//! when one more of it would begin (docs/semantics.md, section 2); the counters themselves are always exact.

mod apply;
mod begin;
pub(crate) mod counters;
pub(crate) mod evaluate;
pub(crate) mod ops;
pub(crate) mod project;
pub(crate) mod results;
pub(crate) mod stale;
pub(crate) mod state;
mod words;

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::near_duplicate::{LastReplies, ReplyHash};
use crate::policy::program::{Class, Compare, Literal, Program, Read};
use crate::probe::RunningProbe;
use crate::text::TextState;
use crate::units::{Cost, Millis, WallTime};
use counters::{Counter, Counters};
use ops::OpState;
use project::Projection;
use results::{Recent, Seen};
use stale::Stale;

/// True, false, or not known yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Truth {
    /// It does not hold.
    False,
    /// It holds.
    True,
    /// It cannot be said yet, or the reading is missing.
    Unknown,
}

impl Truth {
    /// Kleene's negation.
    #[must_use]
    pub const fn negated(self) -> Self {
        match self {
            Self::False => Self::True,
            Self::True => Self::False,
            Self::Unknown => Self::Unknown,
        }
    }

    /// Kleene's conjunction.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::False, _) | (_, Self::False) => Self::False,
            (Self::True, Self::True) => Self::True,
            _ => Self::Unknown,
        }
    }

    /// Kleene's disjunction.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        self.negated().and(other.negated()).negated()
    }

    /// `true` or `false`, known.
    #[must_use]
    pub const fn known(value: bool) -> Self {
        if value { Self::True } else { Self::False }
    }

    /// `true`, `false` or `unknown`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::False => "false",
            Self::True => "true",
            Self::Unknown => "unknown",
        }
    }
}

/// How far a number of the view can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Exact.
    Known,
    /// A lower bound: a leaf is unknown unless no addition can change it.
    AtLeast,
    /// Nothing is known, or what was known no longer says anything.
    Unknown,
    /// A lower bound because a price is missing, and the policy stops for that.
    Unpriced,
    /// Not compared at this moment.
    Absent,
}

/// Attempts of the step that is open, the run's own or a descendant's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OpenStep {
    pub(crate) open: bool,
    pub(crate) attempts: u64,
}

/// What is known about the own step that is open, or was the last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StepState {
    pub(crate) own: OpenStep,
    pub(crate) descendant: OpenStep,
    /// Own steps begun and closed.
    pub(crate) begun: u64,
    pub(crate) closed: u64,
    /// Whether the own step dispatched a tool call.
    pub(crate) called_tool: bool,
    /// Whether the last reply asked for tool calls.
    pub(crate) asked_for_tools: bool,
    pub(crate) has_reply: bool,
    /// Whether the step, or a user since the last one, brought something new.
    pub(crate) brought_news: bool,
}

/// Clocks, as offsets from the start of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clocks {
    pub(crate) at: Millis,
    pub(crate) wall: WallTime,
    pub(crate) paused_since: Option<Millis>,
    pub(crate) paused: Millis,
    pub(crate) last_activity: Millis,
}

impl Clocks {
    pub(crate) fn active(&self, at: Millis) -> u64 {
        let until = self.paused_since.unwrap_or(at);
        until.0.saturating_sub(self.paused.0)
    }
}

/// The state of one run, as far as conditions can see it.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    pub(crate) totals: Counters,
    pub(crate) own: Counters,
    /// Calls of each tool that the policy names: in all, and own.
    pub(crate) tools: Box<[(u64, u64)]>,
    /// Facts that the user's program reported.
    pub(crate) numbers: Box<[Option<u64>]>,
    pub(crate) depth: u64,
    pub(crate) context_tokens: u64,
    pub(crate) next_cost: Option<Cost>,
    /// Whether the last own reply did not report its tokens.
    pub(crate) context_unknown: bool,
    /// Whether a reply did not report its tokens, and whether an own one did not.
    pub(crate) tokens_unknown: bool,
    pub(crate) own_tokens_unknown: bool,
    /// Whether a call had no price, and whether an own one had none.
    pub(crate) unpriced: bool,
    pub(crate) own_unpriced: bool,
    /// Counters of named tools that are lower bounds, after a restore under another policy.
    pub(crate) tools_unknown: Box<[bool]>,
    pub(crate) overflowed: bool,
    pub(crate) step: StepState,
    pub(crate) clocks: Clocks,
    pub(crate) no_progress: u64,
    pub(crate) recent: Recent,
    pub(crate) seen: Option<Box<Seen>>,
    pub(crate) stale: Option<Stale>,
    pub(crate) text: TextState,
    pub(crate) reply: Box<ReplyHash>,
    pub(crate) last_replies: LastReplies,
    /// Digest of the current agent's name; 0 where it is not known.
    pub(crate) agent: u64,
    pub(crate) facts: Box<[Truth]>,
    /// Facts that a restored run was not looking for since the step began.
    pub(crate) lost: Box<[bool]>,
    pub(crate) ops: Box<[OpState]>,
    pub(crate) probes: Vec<Box<dyn RunningProbe>>,
    /// The program's comparisons, with the limits that approvals gave this run.
    pub(crate) compares: Box<[Compare]>,
    pub(crate) view: Box<[u64]>,
    pub(crate) readings: Box<[Reading]>,
    pub(crate) truth: Box<[u64]>,
    /// What is on top of the settled amounts at this checkpoint.
    pub(crate) projection: Option<Projection>,
    /// What is set aside during a trial; empty until the first one.
    pub(crate) spare_view: Box<[u64]>,
    pub(crate) spare_readings: Box<[Reading]>,
    /// Whether a number, a reading or a fact has changed since the bits were last brought up to date.
    pub(crate) is_behind: bool,
}

impl Meter {
    /// The meter of a run that has not begun.
    pub(crate) fn new(program: &Program) -> Self {
        let probes = program.probe_names.iter().filter_map(|name| program.probes.start(name, None));
        let mut meter = Self {
            totals: Counters::default(),
            own: Counters::default(),
            tools: vec![(0, 0); program.tools.len()].into_boxed_slice(),
            numbers: vec![None; program.numbers.len()].into_boxed_slice(),
            depth: 0,
            context_tokens: 0,
            next_cost: None,
            context_unknown: false,
            tokens_unknown: false,
            own_tokens_unknown: false,
            unpriced: false,
            own_unpriced: false,
            tools_unknown: vec![false; program.tools.len()].into_boxed_slice(),
            overflowed: false,
            step: StepState::default(),
            clocks: Clocks::default(),
            no_progress: 0,
            recent: Recent::default(),
            seen: program.needs.seen.then(Box::default),
            stale: program.needs.stale.then(Stale::default),
            text: program.texts.start(),
            reply: Box::default(),
            last_replies: LastReplies::default(),
            agent: 0,
            facts: vec![Truth::False; program.facts.len()].into_boxed_slice(),
            lost: vec![false; program.facts.len()].into_boxed_slice(),
            ops: program.ops.iter().map(OpState::new).collect(),
            probes: probes.collect(),
            compares: program.compares.clone().into_boxed_slice(),
            view: vec![0; program.gauges.len()].into_boxed_slice(),
            readings: vec![Reading::Known; program.gauges.len()].into_boxed_slice(),
            truth: vec![0; program.words()].into_boxed_slice(),
            projection: None,
            spare_view: Box::default(),
            spare_readings: Box::default(),
            is_behind: true,
        };
        meter.refresh(program);
        meter.evaluate(program);
        meter
    }

    /// Brings everything up to date that stands between two steps, facts' bits included.
    pub(crate) fn refresh(&mut self, program: &Program) {
        for slot in 0..program.gauges.len() {
            self.sync_slot(program, slot);
        }
        self.write_facts(program);
    }

    /// The number behind a gauge, now.
    pub(crate) fn read(&self, read: Read) -> u64 {
        let (clocks, at) = (&self.clocks, self.clocks.at);
        match read {
            Read::Counter { index, own: false } => self.totals.at(index),
            Read::Counter { index, own: true } => self.own.at(index),
            Read::Tool { index, own } => {
                let (total, own_calls) = self.tools.get(index).copied().unwrap_or_default();
                if own { own_calls } else { total }
            }
            Read::Context => self.context_tokens,
            Read::NextCost => match self.next_cost {
                Some(Cost::Known(cost)) => cost.picos(),
                _ => 0,
            },
            Read::Elapsed => at.0,
            Read::Active => clocks.active(at),
            Read::Idle => at.0.saturating_sub(clocks.last_activity.0),
            Read::Now => clocks.wall.0,
            Read::Depth => self.depth,
            Read::Repeats => self.recent.repeats,
            Read::Cycles => self.recent.cycles(),
            Read::NoProgress => self.no_progress,
            Read::Stale => self.stale.as_ref().map_or(0, Stale::percent),
            Read::Fact(index) => self.numbers.get(index).copied().flatten().unwrap_or(0),
            Read::Probe(index) => self.probes.get(index).and_then(|p| p.value()).unwrap_or(0),
            Read::Op(index) => self.ops.get(index).map_or(0, OpState::number),
        }
    }

    /// How far the number behind a gauge can be trusted, now.
    fn reading(&self, program: &Program, class: Class, read: Read) -> Reading {
        let unknown_if = |unknown: bool| if unknown { Reading::Unknown } else { Reading::Known };
        let at_least_if = |unknown: bool| if unknown { Reading::AtLeast } else { Reading::Known };
        match (class, read) {
            (Class::Depth | Class::NextCost, _) => Reading::Absent,
            (_, Read::Counter { index, own }) if index == Counter::Cost as usize => {
                self.cost_reading(program, if own { self.own_unpriced } else { self.unpriced })
            }
            (_, Read::Context) => unknown_if(self.context_unknown),
            (_, Read::Stale) => unknown_if(self.stale.as_ref().is_some_and(|stale| stale.unknown)),
            (Class::Settled, Read::Counter { own: true, .. }) => {
                at_least_if(self.own_tokens_unknown)
            }
            (Class::Settled, _) => at_least_if(self.tokens_unknown),
            (_, Read::Fact(index)) => {
                unknown_if(self.numbers.get(index).copied().flatten().is_none())
            }
            (_, Read::Probe(index)) => {
                unknown_if(self.probes.get(index).and_then(|p| p.value()).is_none())
            }
            (_, Read::Tool { index, .. }) => {
                at_least_if(self.tools_unknown.get(index).copied().unwrap_or(false))
            }
            (_, Read::Op(index)) => at_least_if(self.ops.get(index).is_some_and(|op| op.unknown)),
            _ => Reading::Known,
        }
    }

    pub(crate) fn cost_reading(&self, program: &Program, unpriced: bool) -> Reading {
        match program.policy.unpriced() {
            _ if !unpriced => Reading::Known,
            crate::policy::OnUnpriced::Ignore => Reading::Known,
            _ => Reading::Unpriced,
        }
    }

    fn sync_slot(&mut self, program: &Program, slot: usize) {
        let Some(gauge) = program.gauges.get(slot) else { return };
        let value = self.read(gauge.read);
        let reading = self.reading(program, gauge.class, gauge.read);
        if let (Some(view), Some(known)) = (self.view.get_mut(slot), self.readings.get_mut(slot)) {
            self.is_behind |= *view != value || *known != reading;
            *view = value;
            *known = reading;
        }
    }

    /// Brings the gauges of one class up to date.
    #[inline]
    pub(crate) fn sync(&mut self, program: &Program, class: Class) {
        let Some(range) = program.ranges.get(class as usize) else { return };
        for slot in range.clone() {
            self.sync_slot(program, slot);
        }
    }

    /// Brings the clocks up to date: as [`Meter::sync`], but always known and without the detour.
    #[inline]
    pub(crate) fn sync_clocks(&mut self, program: &Program) {
        let Some(range) = program.ranges.first() else { return };
        for slot in range.clone() {
            let Some(gauge) = program.gauges.get(slot) else { return };
            let value = match gauge.read {
                Read::Op(index) => self.recount(program, index),
                read => self.read(read),
            };
            if let Some(view) = self.view.get_mut(slot) {
                self.is_behind |= *view != value;
                *view = value;
            }
        }
    }

    /// Sets the bits of every fact.
    pub(crate) fn write_facts(&mut self, program: &Program) {
        if self.facts.is_empty() {
            return;
        }
        self.is_behind = true;
        let first = program.compares.len();
        for (fact, truth) in self.facts.iter().enumerate() {
            let slot = |positive| first + Literal::of(fact, positive);
            set_bit(&mut self.truth, slot(true), *truth == Truth::True);
            set_bit(&mut self.truth, slot(false), *truth == Truth::False);
        }
    }
}

#[inline]
pub(crate) fn set_bit(truth: &mut [u64], slot: usize, value: bool) {
    if let Some(word) = truth.get_mut(slot / 64) {
        let bit = slot % 64;
        *word = (*word & !(1 << bit)) | (u64::from(value) << bit);
    }
}

#[inline]
pub(crate) fn bit(truth: &[u64], slot: usize) -> bool {
    truth.get(slot / 64).is_some_and(|word| (word >> (slot % 64)) & 1 == 1)
}
