//! The compiled policy: flat tables, evaluated without recursion or allocation.
//!
//! Every comparison is `lo <= gauge <= lo + span`, perhaps inverted, over one dense array of numbers; facts
//! and operators over time are bits; groups fold bits of earlier slots in post-order. Negation stands at
//! the leaves only, so a leaf that becomes true can only bring a rule nearer to holding.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use super::projected::Projected;
use super::{Action, Policy, PolicyError};
use crate::condition::{Fact, Gauge, Window};
use crate::probe::Probes;
use crate::text::Texts;

/// A place in the truth bits.
pub(crate) type Slot = usize;

/// `lo <= gauge <= lo + span`, perhaps inverted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range64 {
    pub(crate) lo: u64,
    pub(crate) span: u64,
    pub(crate) inverted: bool,
}

impl Range64 {
    #[inline]
    pub(crate) const fn holds(self, value: u64) -> bool {
        (value.wrapping_sub(self.lo) <= self.span) != self.inverted
    }

    /// Whether it holds for every number from `known` up; none where that depends on the number.
    pub(crate) const fn holds_from(self, known: u64) -> Option<bool> {
        match self.lo.checked_add(self.span) {
            Some(hi) if known > hi => Some(self.inverted),
            Some(u64::MAX) if known >= self.lo => Some(!self.inverted),
            _ => None,
        }
    }

    /// Whether it holds for every larger value too, once it holds.
    pub(crate) const fn is_lower_bound(self) -> bool {
        !self.inverted && matches!(self.lo.checked_add(self.span), Some(u64::MAX))
    }
}

/// A comparison of a gauge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Compare {
    pub(crate) gauge: usize,
    pub(crate) range: Range64,
    pub(crate) rule: usize,
}

/// A fact and its negation, as two bits after those of the comparisons: both are false while it is
/// unknown. However often a policy names a fact, it has one pair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Literal;

impl Literal {
    /// The place among the bits of facts.
    pub(crate) const fn of(fact: usize, positive: bool) -> usize {
        2 * fact + if positive { 0 } else { 1 }
    }

    /// How many bits so many facts have.
    pub(crate) const fn count(facts: usize) -> usize {
        2 * facts
    }
}

/// Bits in some words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Masks {
    pub(crate) first: (usize, u64),
    pub(crate) more: Vec<(usize, u64)>,
}

impl Masks {
    pub(crate) fn of(slots: &[Slot]) -> Self {
        let mut words: Vec<(usize, u64)> = Vec::new();
        for slot in slots {
            let (word, bit) = (slot / 64, 1u64 << (slot % 64));
            match words.iter_mut().find(|(w, _)| *w == word) {
                Some((_, mask)) => *mask |= bit,
                None => words.push((word, bit)),
            }
        }
        let mut words = words.into_iter();
        Self { first: words.next().unwrap_or_default(), more: words.collect() }
    }

    #[inline]
    pub(crate) fn any(&self, truth: &[u64]) -> bool {
        let hit = |(word, mask): (usize, u64)| truth.get(word).copied().unwrap_or(0) & mask != 0;
        hit(self.first) || self.more.iter().copied().any(hit)
    }

    #[inline]
    pub(crate) fn all(&self, truth: &[u64]) -> bool {
        let hit = |(word, mask): (usize, u64)| truth.get(word).copied().unwrap_or(0) & mask == mask;
        hit(self.first) && self.more.iter().copied().all(hit)
    }
}

/// A slot that is computed from earlier ones. `op` is the operator's state; the negated forms are duals,
/// so that an unknown operand never makes them hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fold {
    Any(Masks),
    All(Masks),
    Ever { op: usize, operand: Slot },
    Always { op: usize, operand: Slot },
    Within { op: usize, operand: Slot, window: Window },
    NotWithin { op: usize, operand: Slot, window: Window },
    Then { op: usize, next: Slot },
    NotThen { op: usize, next: Slot },
}

/// What an operator over time keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpKind {
    /// Whether the operand has held.
    Latch,
    /// Steps in a row.
    Streak,
    /// Steps in all.
    Count,
    /// The stamps of the last steps, at most so many.
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
    pub(crate) doubtful: Vec<usize>,
    /// Identifies the operator in a saved state: its text without the limit.
    pub(crate) key: String,
}

/// Where a gauge's number comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    Counter { index: usize, own: bool },
    Tool { index: usize, own: bool },
    Context,
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
    Fact(usize),
    Probe(usize),
    Op(usize),
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

/// A number of the dense array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GaugeSlot {
    pub(crate) class: Class,
    pub(crate) read: Read,
    /// The gauge as a condition names it; none for an operator's counter.
    pub(crate) gauge: Option<Gauge>,
}

/// A node of a rule's condition, in pre-order, names included: what explains it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeInfo {
    pub(crate) slot: Slot,
    pub(crate) negated: bool,
    pub(crate) gauge: Option<usize>,
    pub(crate) fact: Option<usize>,
    pub(crate) op: Option<usize>,
}

impl GaugeSlot {
    /// Whether its number can be unknown, or is compared at some moments only.
    pub(crate) const fn is_irregular(&self) -> bool {
        matches!(self.class, Class::Settled | Class::Depth | Class::NextCost)
            || matches!(
                self.read,
                Read::Fact(_) | Read::Probe(_) | Read::Tool { .. } | Read::Op(_) | Read::Stale
            )
    }
}

/// A compiled rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CompiledRule {
    pub(crate) root: Slot,
    pub(crate) nodes: Vec<NodeInfo>,
    /// Its groups, among those of the program.
    pub(crate) folds: Range<usize>,
    pub(crate) hard: bool,
    /// The steps that one override lets pass, descendants' included, where the rule bounds steps.
    pub(crate) step_grant: Option<u64>,
}

/// A policy, compiled. Immutable; shared by any number of runs.
#[derive(Debug)]
pub struct Program {
    pub(crate) policy: Policy,
    pub(crate) rules: Vec<CompiledRule>,
    pub(crate) compares: Vec<Compare>,
    /// Comparisons whose gauge can be unknown or out of place.
    pub(crate) irregular: Vec<usize>,
    /// Comparisons that see what may be spent before it is, in their order.
    pub(crate) projected: Vec<Projected>,
    pub(crate) folds: Vec<Fold>,
    pub(crate) ops: Vec<Op>,
    pub(crate) levels: usize,
    pub(crate) gauges: Vec<GaugeSlot>,
    pub(crate) ranges: [Range<usize>; CLASSES],
    pub(crate) facts: Vec<Fact>,
    pub(crate) tools: Vec<String>,
    pub(crate) numbers: Vec<String>,
    pub(crate) probe_names: Vec<String>,
    pub(crate) probes: Probes,
    /// The fact of each phrase and pattern of `texts`.
    pub(crate) phrase_facts: Vec<usize>,
    pub(crate) pattern_facts: Vec<usize>,
    pub(crate) texts: Texts,
    pub(crate) needs: Needs,
    /// Whether any condition can change by the mere passing of time.
    pub(crate) is_timed: bool,
    /// Root bits of the rules of each action, in the order of [`super::Action::ALL`].
    pub(crate) roots: [Masks; 5],
    pub(crate) fingerprint: u64,
}

/// Which costly measurements some condition asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Digests of tool results, for repeats and cycles.
    pub(crate) digests: bool,
    /// The set of distinct tool results, for `no_progress`.
    pub(crate) seen: bool,
    /// What was seen since the user last spoke, for `stale`.
    pub(crate) stale: bool,
    /// The similarity hash of replies.
    pub(crate) replies: bool,
}

impl Program {
    /// Compiles a policy. O(nodes), plus the automata of its texts and patterns.
    ///
    /// # Errors
    /// If the policy is too large, names a rule twice or a probe that is not in `probes`, or has a pattern
    /// that cannot be compiled.
    pub fn new(policy: &Policy, probes: &Probes) -> Result<Self, PolicyError> {
        policy.check()?;
        super::compile::compile(policy, probes)
    }

    /// Compiles policies that each were checked, as one; rules may share their names.
    pub(crate) fn joined(all: &Policy, probes: &Probes) -> Result<Self, PolicyError> {
        super::compile::compile(all, probes)
    }

    /// The policy it was compiled from.
    #[must_use]
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Whether any condition looks at the model's words. A driver that knows there is none need not
    /// feed them.
    #[must_use]
    pub fn needs_text(&self) -> bool {
        !self.texts.is_empty() || self.needs.replies
    }

    /// Whether any condition looks at the arguments and results of tool calls.
    #[must_use]
    pub const fn needs_results(&self) -> bool {
        self.needs.digests || self.needs.seen || self.needs.stale
    }

    /// Whether any rule can be reached by money or tokens before they are spent. Where none can, a
    /// driver need not announce [`Reserve`](crate::EventKind::Reserve): it changes nothing.
    #[must_use]
    pub const fn needs_reserve(&self) -> bool {
        !self.projected.is_empty()
    }

    /// Whether any rule has that action.
    #[must_use]
    pub fn has_action(&self, action: Action) -> bool {
        self.policy.rules.iter().any(|rule| rule.action == action)
    }

    /// The slot of the first group.
    #[inline]
    pub(crate) const fn first_fold(&self) -> Slot {
        self.compares.len() + Literal::count(self.facts.len())
    }

    /// Number of truth words.
    pub(crate) fn words(&self) -> usize {
        (self.first_fold() + self.folds.len()).div_ceil(64).max(1)
    }
}
