//! The compiled policy: flat tables, evaluated without recursion or allocation.
//!
//! Every comparison is `lo <= gauge <= lo + span`, perhaps inverted, over one dense array of numbers; facts and
//! operators over time are bits; groups fold bits of earlier slots in post-order. Only leaves are negated, so a leaf
//! that becomes true can only bring a rule closer to tripping.
//!
//! An unknown leaf therefore takes the value that does not. A missing price under `on_unpriced = "stop"` takes the
//! value that does. The trip record computes true, false and unknown afterwards, when a caller asks for it.

mod compile;
mod names;
mod projected;
mod rows;
mod tables;

use alloc::string::String;
use core::ops::Range;

use crate::condition::Fact;
use crate::policy::{Action, OnUnpriced, Policy, PolicyError, Rule};
use crate::probe::Probes;
use crate::table::{
    Bits, CompareIx, FactIx, GaugeIx, Index as _, NumberIx, OpIx, ProbeIx, RuleIx, Slot, Table,
    ToolIx,
};
use crate::text::{Found, Texts};
pub(crate) use names::{Names, carried};
pub(crate) use projected::{Part, Projected};
pub(crate) use rows::{
    CLASSES, Class, Compare, CompiledRule, Fold, GaugeSlot, Leaf, Masks, Node, Op, OpKind, Read,
};

/// A policy, compiled. Immutable; shared by any number of runs.
///
/// ```
/// use std::sync::Arc;
/// use endstop_core::probe::Probes;
/// use endstop_core::{Policy, Program, Run};
///
/// let policy = Policy::from_toml("[stop]\nlimits = \"steps >= 25 or cost >= $2.00\"")?;
/// let program = Arc::new(Program::new(&policy, &Probes::new())?);
/// let (one, other) = (Run::new(Arc::clone(&program)), Run::new(Arc::clone(&program)));
/// assert!(Arc::ptr_eq(one.program(), other.program()));
///
/// // A driver does only the work that some rule asks for.
/// assert!(program.needs_reserve());
/// assert!(!program.needs_text() && !program.needs_results());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Program {
    policy: Policy,
    rules: Table<RuleIx, CompiledRule>,
    compares: Table<CompareIx, Compare>,
    /// Comparisons whose gauge can be unknown or out of place.
    irregular: alloc::vec::Vec<CompareIx>,
    /// Comparisons that change as time passes.
    clocks: alloc::vec::Vec<CompareIx>,
    /// Comparisons that see what may be spent before it is, in their order.
    projected: alloc::vec::Vec<Projected>,
    folds: alloc::vec::Vec<Fold>,
    ops: Table<OpIx, Op>,
    levels: usize,
    gauges: Table<GaugeIx, GaugeSlot>,
    classes: [Range<usize>; CLASSES],
    facts: Table<FactIx, Fact>,
    tools: Table<ToolIx, String>,
    numbers: Table<NumberIx, String>,
    probe_names: Table<ProbeIx, String>,
    probes: Probes,
    /// The fact of each phrase and pattern of `texts`.
    phrase_facts: alloc::vec::Vec<FactIx>,
    pattern_facts: alloc::vec::Vec<FactIx>,
    texts: Texts,
    needs: Needs,
    /// Whether any condition can change by the mere passing of time.
    is_timed: bool,
    /// Root bits of the rules of each action, in the order of [`Action::ALL`].
    roots: [Masks; 5],
    names: Names,
}

/// Which costly measurements some condition asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Digests of tool results, for repeats and cycles.
    pub(crate) digests: bool,
    /// The set of distinct tool results, for `no_progress`.
    pub(crate) seen: bool,
    /// The results seen since the user's last message, for `stale`.
    pub(crate) stale: bool,
    /// The similarity hash of responses.
    pub(crate) replies: bool,
}

impl Program {
    /// Compiles a policy. O(nodes), plus the automata of its texts and patterns.
    ///
    /// # Errors
    /// Returns an error if the policy is too large, names a rule twice or a probe that is not in `probes`, or has a
    /// pattern that cannot be compiled.
    pub fn new(policy: &Policy, probes: &Probes) -> Result<Self, PolicyError> {
        policy.check()?;
        compile::compile(policy, probes)
    }

    /// Compiles policies that each were checked, as one; rules may share their names.
    pub(crate) fn joined(all: &Policy, probes: &Probes) -> Result<Self, PolicyError> {
        compile::compile(all, probes)
    }

    /// Returns the policy it was compiled from.
    #[must_use]
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Returns whether any condition reads the text of model responses. If not, a driver need not feed it.
    #[must_use]
    pub fn needs_text(&self) -> bool {
        !self.texts.is_empty() || self.needs.replies
    }

    /// Returns whether any condition reads the arguments and results of tool calls.
    #[must_use]
    pub const fn needs_results(&self) -> bool {
        self.needs.digests || self.needs.seen || self.needs.stale
    }

    /// Returns whether any rule can be reached by money or tokens before they are spent. If not, a driver need not
    /// announce [`Reserve`](crate::EventKind::Reserve): it changes nothing.
    #[must_use]
    pub const fn needs_reserve(&self) -> bool {
        !self.projected.is_empty()
    }

    /// Returns whether any rule has that action.
    #[must_use]
    pub fn has_action(&self, action: Action) -> bool {
        self.policy.rules.iter().any(|rule| rule.action == action)
    }

    #[inline]
    pub(crate) const fn rules(&self) -> &Table<RuleIx, CompiledRule> {
        &self.rules
    }

    /// The rule as the policy has it.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "each compiled rule is one of the policy")]
    pub(crate) fn rule(&self, rule: RuleIx) -> &Rule {
        &self.policy.rules[rule.place()]
    }

    /// The rules with their indices.
    pub(crate) fn policy_rules(&self) -> impl Iterator<Item = (RuleIx, &Rule)> {
        self.rules.indices().zip(&self.policy.rules)
    }

    pub(crate) fn rule_of_id(&self, id: &str) -> Option<RuleIx> {
        self.policy_rules().find(|(_, rule)| rule.id == id).map(|(index, _)| index)
    }

    /// The bits of the rules of one action.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "one row for each action")]
    pub(crate) const fn roots(&self, action: Action) -> &Masks {
        &self.roots[action as usize]
    }

    #[inline]
    pub(crate) fn unpriced(&self) -> OnUnpriced {
        self.policy.unpriced()
    }

    #[inline]
    pub(crate) const fn compares(&self) -> &Table<CompareIx, Compare> {
        &self.compares
    }

    #[inline]
    pub(crate) fn irregular(&self) -> &[CompareIx] {
        &self.irregular
    }

    #[inline]
    pub(crate) fn clocks(&self) -> &[CompareIx] {
        &self.clocks
    }

    #[inline]
    pub(crate) fn projected(&self) -> &[Projected] {
        &self.projected
    }

    /// How a comparison sees what may be spent, if it does.
    pub(crate) fn projected_of(&self, compare: CompareIx) -> Option<&Projected> {
        let place = self.projected.binary_search_by_key(&compare, |leaf| leaf.compare).ok()?;
        self.projected.get(place)
    }

    #[inline]
    pub(crate) fn folds(&self) -> &[Fold] {
        &self.folds
    }

    #[inline]
    pub(crate) const fn ops(&self) -> &Table<OpIx, Op> {
        &self.ops
    }

    /// How deep operators over time are nested.
    pub(crate) const fn levels(&self) -> usize {
        self.levels
    }

    #[inline]
    pub(crate) const fn gauges(&self) -> &Table<GaugeIx, GaugeSlot> {
        &self.gauges
    }

    /// The gauges of one class.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "one row for each class")]
    pub(crate) fn gauges_of(&self, class: Class) -> impl Iterator<Item = GaugeIx> + use<> {
        self.classes[class as usize].clone().map(GaugeIx::new)
    }

    /// Every gauge that counts what begins: their classes lie side by side.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "one row for each class")]
    pub(crate) fn counts(&self) -> impl Iterator<Item = GaugeIx> + use<> {
        let first = self.classes[Class::Steps as usize].start;
        (first..self.classes[Class::Handoffs as usize].end).map(GaugeIx::new)
    }

    #[inline]
    pub(crate) const fn facts(&self) -> &Table<FactIx, Fact> {
        &self.facts
    }

    /// The fact that a match of a text makes true.
    #[expect(clippy::indexing_slicing, reason = "one row for each phrase and pattern")]
    pub(crate) fn fact_of(&self, found: Found) -> FactIx {
        match found {
            Found::Phrase(index) => self.phrase_facts[index],
            Found::Pattern(index) => self.pattern_facts[index],
        }
    }

    pub(crate) const fn tools(&self) -> &Table<ToolIx, String> {
        &self.tools
    }

    pub(crate) const fn numbers(&self) -> &Table<NumberIx, String> {
        &self.numbers
    }

    pub(crate) const fn probe_names(&self) -> &Table<ProbeIx, String> {
        &self.probe_names
    }

    pub(crate) const fn probes(&self) -> &Probes {
        &self.probes
    }

    #[inline]
    pub(crate) const fn texts(&self) -> &Texts {
        &self.texts
    }

    #[inline]
    pub(crate) const fn needs(&self) -> Needs {
        self.needs
    }

    #[inline]
    pub(crate) const fn is_timed(&self) -> bool {
        self.is_timed
    }

    /// The names of the rows in a saved run.
    pub(crate) const fn names(&self) -> &Names {
        &self.names
    }

    /// The bit of a comparison.
    #[inline]
    pub(crate) fn slot_of_compare(compare: CompareIx) -> Slot {
        Slot::new(compare.place())
    }

    /// The bit of a fact, or of its negation. Both are false while it is unknown; however often a policy
    /// names a fact, it has one pair.
    #[inline]
    pub(crate) fn slot_of_fact(&self, fact: FactIx, positive: bool) -> Slot {
        slot_of_fact(self.compares.len(), fact, positive)
    }

    /// The bit of a group.
    #[inline]
    pub(crate) fn slot_of_fold(&self, place: usize) -> Slot {
        slot_of_fold(self.compares.len(), self.facts.len(), place)
    }

    /// The bits of a run that has not begun.
    pub(crate) fn bits(&self) -> Bits {
        Bits::new(self.slot_of_fold(self.folds.len()).place())
    }
}

/// Bits are laid out so: comparisons, a pair for each fact, groups.
fn slot_of_fact(compares: usize, fact: FactIx, positive: bool) -> Slot {
    Slot::new(compares + 2 * fact.place() + usize::from(!positive))
}

fn slot_of_fold(compares: usize, facts: usize, place: usize) -> Slot {
    Slot::new(compares + 2 * facts + place)
}
