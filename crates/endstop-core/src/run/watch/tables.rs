//! Policies joined into one program, and what finds the rules that a change concerns.

use alloc::vec::Vec;

use thiserror::Error;

use crate::condition::GaugeId;
use crate::limits::MAX_NODES;
use crate::policy::{Action, Policy, PolicyError};
use crate::probe::Probes;
use crate::program::{Leaf, Node, Program};
use crate::signal::StopReason;
use crate::table::{CompareIx, FactIx, GaugeIx, RuleIx, Table};

/// Why policies cannot be watched together.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WatchError {
    /// One of them cannot be used at all.
    #[error("{0}")]
    Policy(PolicyError),
    /// It does more than stop a run: see [`can_watch`].
    #[error("policy {0} does more than stop a run")]
    NotWatchable(usize),
    /// It reads missing prices in another way than the first one.
    #[error("policy {0} differs from the first in `on_unpriced`")]
    OnUnpriced(usize),
    /// They name more facts than one program can distinguish.
    #[error("the policies name {0} facts; at most {MAX_NODES} are watched together")]
    TooManyFacts(usize),
}

/// Returns whether a policy can be watched together with others: its rules stop, none reads `depth` (which refuses a
/// sub-agent while the run continues), and none calls the run completed.
#[must_use]
pub fn can_watch(policy: &Policy) -> bool {
    policy.rules.iter().all(|rule| {
        rule.action == Action::Stop
            && rule.reason != Some(StopReason::Completed)
            && rule.gauges().into_iter().all(|gauge| gauge.id != GaugeId::Depth)
    })
}

/// A number at which a comparison changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Fence {
    pub(super) at: u64,
    pub(super) compare: CompareIx,
    pub(super) rule: RuleIx,
}

/// The rules that read a fact, and those that read its negation.
#[derive(Clone, Debug, Default)]
struct Readers {
    positive: Vec<RuleIx>,
    negated: Vec<RuleIx>,
}

/// Policies that are watched together, compiled as one. Immutable; shared by any number of runs.
///
/// See the example of [the module](super).
#[derive(Debug)]
pub struct Watched {
    program: Program,
    policies: usize,
    /// The policy of each rule.
    owners: Table<RuleIx, usize>,
    /// For each gauge, sorted.
    fences: Table<GaugeIx, Vec<Fence>>,
    readers: Table<FactIx, Readers>,
    /// Rules with operators over time: these change without a leaf that does.
    volatile: Vec<RuleIx>,
}

impl Watched {
    /// Compiles the policies together.
    ///
    /// # Errors
    /// Returns an error if one of them cannot be compiled or not be watched, or if they do not go together.
    pub fn new(policies: &[&Policy], probes: &Probes) -> Result<Self, WatchError> {
        let mut joined = Policy::default();
        let mut owners = Vec::new();
        for (index, policy) in policies.iter().enumerate() {
            policy.check().map_err(WatchError::Policy)?;
            if !can_watch(policy) {
                return Err(WatchError::NotWatchable(index));
            }
            if policies.first().is_some_and(|first| first.unpriced() != policy.unpriced()) {
                return Err(WatchError::OnUnpriced(index));
            }
            joined.on_unpriced = policy.on_unpriced;
            owners.extend(policy.rules.iter().map(|_| index));
            joined.rules.extend(policy.rules.iter().cloned());
        }
        let program = Program::joined(&joined, probes).map_err(WatchError::Policy)?;
        if program.facts().len() > MAX_NODES {
            return Err(WatchError::TooManyFacts(program.facts().len()));
        }
        Ok(Self {
            policies: policies.len(),
            owners: owners.into_iter().collect(),
            fences: fences(&program),
            readers: readers(&program),
            volatile: volatile(&program),
            program,
        })
    }

    /// Returns whether any condition reads the text of model responses.
    #[must_use]
    pub fn needs_text(&self) -> bool {
        self.program.needs_text()
    }

    /// Returns whether any condition reads the arguments and results of tool calls.
    #[must_use]
    pub const fn needs_results(&self) -> bool {
        self.program.needs_results()
    }

    pub(super) const fn program(&self) -> &Program {
        &self.program
    }

    pub(super) const fn policies(&self) -> usize {
        self.policies
    }

    #[inline]
    pub(super) fn owner(&self, rule: RuleIx) -> usize {
        *self.owners.at(rule)
    }

    #[inline]
    pub(super) fn fences(&self, gauge: GaugeIx) -> &[Fence] {
        self.fences.at(gauge)
    }

    /// The rules that read a fact, or its negation.
    pub(super) fn readers(&self, fact: FactIx, positive: bool) -> &[RuleIx] {
        let readers = self.readers.at(fact);
        if positive { &readers.positive } else { &readers.negated }
    }

    /// Rules that change without a leaf that does.
    pub(super) fn volatile(&self) -> &[RuleIx] {
        &self.volatile
    }
}

fn volatile(program: &Program) -> Vec<RuleIx> {
    let has_op = |node: &Node| {
        let mut any = false;
        node.visit(&mut |node| any |= matches!(node.leaf, Leaf::Op(_) | Leaf::OpNumber(_)));
        any
    };
    let rules = program.rules().iter().filter(|(_, rule)| has_op(&rule.node));
    rules.map(|(index, _)| index).collect()
}

fn fences(program: &Program) -> Table<GaugeIx, Vec<Fence>> {
    let mut fences: Table<GaugeIx, Vec<Fence>> =
        program.gauges().indices().map(|_| Vec::new()).collect();
    for (index, compare) in program.compares().iter() {
        let range = compare.range;
        let after = range.lo.checked_add(range.span).and_then(|last| last.checked_add(1));
        // The first one stands for the comparison where another reading changes all of them.
        for at in [Some(range.lo), after].into_iter().flatten() {
            let fence = Fence { at, compare: index, rule: compare.rule };
            fences.at_mut(compare.gauge).push(fence);
        }
    }
    fences.rows_mut().iter_mut().for_each(|of_gauge| of_gauge.sort_unstable());
    fences
}

fn readers(program: &Program) -> Table<FactIx, Readers> {
    let mut readers: Table<FactIx, Readers> =
        program.facts().indices().map(|_| Readers::default()).collect();
    for (index, rule) in program.rules().iter() {
        rule.node.visit(&mut |node| {
            let Leaf::Fact(fact) = node.leaf else { return };
            let known = readers.at_mut(fact);
            let rules = if node.negated { &mut known.negated } else { &mut known.positive };
            if rules.last() != Some(&index) {
                rules.push(index);
            }
        });
    }
    readers
}

/// How many fences lie at or below a number.
pub(super) fn place(fences: &[Fence], value: u64) -> usize {
    fences.partition_point(|fence| fence.at <= value)
}

/// The same, from a place nearby: most numbers move by little.
pub(super) fn moved(fences: &[Fence], mut place: usize, value: u64) -> usize {
    while fences.get(place).is_some_and(|fence| fence.at <= value) {
        place += 1;
    }
    while place > 0 && fences.get(place - 1).is_some_and(|fence| fence.at > value) {
        place -= 1;
    }
    place
}
