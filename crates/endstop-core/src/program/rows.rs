//! The rows of a compiled policy.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use crate::condition::{Gauge, Window};
use crate::counter::Counter;
use crate::event::EventKind;
use crate::table::{
    Bits, CompareIx, FactIx, GaugeIx, Index as _, NumberIx, OpIx, ProbeIx, RuleIx, Slot, ToolIx,
};

/// `lo <= gauge <= lo + span`, perhaps inverted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range64 {
    pub(crate) lo: u64,
    pub(crate) span: u64,
    pub(crate) inverted: bool,
}

impl Range64 {
    #[inline]
    pub(crate) const fn is_met(self, value: u64) -> bool {
        (value.wrapping_sub(self.lo) <= self.span) != self.inverted
    }

    /// Whether it is met for every number from `known` up; `None` if that depends on the number.
    pub(crate) const fn is_met_from(self, known: u64) -> Option<bool> {
        match self.lo.checked_add(self.span) {
            Some(hi) if known > hi => Some(self.inverted),
            Some(u64::MAX) if known >= self.lo => Some(!self.inverted),
            _ => None,
        }
    }

    /// Whether it is met for every larger value too, once it is met.
    pub(crate) const fn is_lower_bound(self) -> bool {
        !self.inverted && matches!(self.lo.checked_add(self.span), Some(u64::MAX))
    }
}

/// A comparison of a gauge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Compare {
    pub(crate) gauge: GaugeIx,
    pub(crate) range: Range64,
    pub(crate) rule: RuleIx,
}

/// Bits in some words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Masks {
    first: (usize, u64),
    more: Vec<(usize, u64)>,
}

impl Masks {
    pub(crate) fn of(slots: impl IntoIterator<Item = Slot>) -> Self {
        let mut words: Vec<(usize, u64)> = Vec::new();
        for slot in slots {
            let (word, bit) = (slot.place() / 64, 1u64 << (slot.place() % 64));
            match words.iter_mut().find(|(w, _)| *w == word) {
                Some((_, mask)) => *mask |= bit,
                None => words.push((word, bit)),
            }
        }
        let mut words = words.into_iter();
        // Of no bits at all: no bit of the first word, which every program has.
        Self { first: words.next().unwrap_or((0, 0)), more: words.collect() }
    }

    #[inline]
    pub(crate) fn any(&self, truth: &Bits) -> bool {
        let hit = |(word, mask): (usize, u64)| truth.word(word) & mask != 0;
        hit(self.first) || self.more.iter().copied().any(hit)
    }

    #[inline]
    pub(crate) fn all(&self, truth: &Bits) -> bool {
        let hit = |(word, mask): (usize, u64)| truth.word(word) & mask == mask;
        hit(self.first) && self.more.iter().copied().all(hit)
    }
}

/// A slot that is computed from earlier ones. `op` is the operator's state; the negated forms are duals,
/// so that an unknown operand never makes them hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fold {
    Any(Masks),
    All(Masks),
    Ever { op: OpIx, operand: Slot },
    Always { op: OpIx, operand: Slot },
    Within { op: OpIx, operand: Slot, window: Window },
    NotWithin { op: OpIx, operand: Slot, window: Window },
    Then { op: OpIx, next: Slot },
    NotThen { op: OpIx, next: Slot },
}

/// The state of an operator over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpKind {
    /// Whether the operand has held.
    Latch,
    /// Steps in a row.
    Streak,
    /// Steps in all.
    Count,
    /// The stamps of the last steps, at most `capacity`.
    Ring { window: Window, capacity: usize },
    /// When the operand last held.
    Stamp(Window),
    /// The first step in which the operand held.
    First,
}

/// An operator over time: advances at a step's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Op {
    pub(crate) kind: OpKind,
    pub(crate) operand: Slot,
    /// The operand was compiled negated: it held unless its bit is set.
    pub(crate) inverted: bool,
    /// Operators inside the operand; those advance first.
    pub(crate) level: usize,
    /// The operators inside the operand, and its gauges that can be unknown: while one of them is, a
    /// step in which the operand does not hold may be one in which it did.
    pub(crate) inner: Range<usize>,
    pub(crate) doubtful: Vec<GaugeIx>,
    /// Identifies the operator in a saved state: its text without the limit.
    pub(crate) key: String,
}

/// Where a gauge's number comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    Counter {
        counter: Counter,
        own: bool,
    },
    Tool {
        tool: ToolIx,
        own: bool,
    },
    Context,
    /// Shown only while a call would begin; between calls there is nothing to read.
    NextCost,
    Elapsed,
    Active,
    Idle,
    Now,
    Depth,
    Repeats,
    Cycles,
    NoProgress,
    Stale,
    Reported(NumberIx),
    Probe(ProbeIx),
    Op(OpIx),
}

/// When a gauge's number is brought up to date. The order is that of the gauge array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(usize)]
pub(crate) enum Class {
    Time,
    Steps,
    Attempts,
    Retries,
    ToolCalls,
    ToolErrors,
    Errors,
    Messages,
    Subagents,
    Handoffs,
    Settled,
    Live,
    StepEnd,
    Depth,
    NextCost,
}

pub(crate) const CLASSES: usize = 15;

impl Class {
    /// Whether gauges of it count what begins: compared inside a step only when one more would begin.
    pub(crate) const fn is_count(self) -> bool {
        !matches!(
            self,
            Self::Time | Self::Settled | Self::Live | Self::StepEnd | Self::Depth | Self::NextCost
        )
    }

    /// The counts that are compared where one more of a thing would begin.
    pub(crate) const fn of_one_more(kind: &EventKind<'_>, is_retry: bool) -> &'static [Self] {
        match kind {
            EventKind::StepBegin => &[Self::Steps],
            EventKind::AttemptBegin { .. } if is_retry => {
                &[Self::Attempts, Self::Errors, Self::Retries]
            }
            EventKind::AttemptBegin { .. } => &[Self::Attempts, Self::Errors],
            EventKind::ToolBegin { .. } => &[Self::ToolCalls, Self::ToolErrors, Self::Errors],
            EventKind::ChildBegin { .. } => &[Self::Subagents],
            EventKind::HandOff { .. } => &[Self::Handoffs],
            _ => &[],
        }
    }
}

/// A number of the dense array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GaugeSlot {
    pub(crate) class: Class,
    pub(crate) read: Read,
    /// The gauge as a condition names it; `None` for an operator's counter.
    pub(crate) gauge: Option<Gauge>,
}

/// A node of a rule's condition, names included: what explains it. Its parts are those of the condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) slot: Slot,
    pub(crate) negated: bool,
    pub(crate) leaf: Leaf,
    pub(crate) parts: Vec<Node>,
}

/// The measure of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaf {
    /// Its parts.
    Group,
    Compare(CompareIx),
    Fact(FactIx),
    /// An operator that holds or not.
    Op(OpIx),
    /// An operator whose number is compared.
    OpNumber(CompareIx),
}

impl Leaf {
    /// The comparison that decides it.
    pub(crate) const fn compare(self) -> Option<CompareIx> {
        match self {
            Self::Compare(compare) | Self::OpNumber(compare) => Some(compare),
            Self::Group | Self::Fact(_) | Self::Op(_) => None,
        }
    }
}

impl Node {
    /// Visits the node and every node in it, in order. Recursion is bounded by the depth that a policy may have.
    pub(crate) fn visit(&self, see: &mut impl FnMut(&Self)) {
        see(self);
        self.parts.iter().for_each(|part| part.visit(see));
    }
}

impl GaugeSlot {
    /// Whether its number can be unknown, or is compared at some moments only.
    pub(crate) const fn is_irregular(&self) -> bool {
        matches!(self.class, Class::Settled | Class::Depth | Class::NextCost)
            || matches!(
                self.read,
                Read::Reported(_) | Read::Probe(_) | Read::Tool { .. } | Read::Op(_) | Read::Stale
            )
    }
}

/// A part of a rule that makes it trip alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CompiledPart {
    pub(crate) slot: Slot,
    /// No continuation can override it.
    pub(crate) hard: bool,
}

/// A compiled rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CompiledRule {
    pub(crate) node: Node,
    /// Its groups, among those of the program.
    pub(crate) folds: Range<usize>,
    /// The conditions that each make it trip alone.
    pub(crate) parts: Vec<CompiledPart>,
    /// The steps that one override lets pass, those of descendants included, if the rule bounds steps.
    pub(crate) step_grant: Option<u64>,
}

impl CompiledRule {
    /// The bit that says whether the rule trips.
    #[inline]
    pub(crate) const fn root(&self) -> Slot {
        self.node.slot
    }
}
