//! The trip record: never a bool. Which rules tripped, which leaf of them tripped with which value, the margins of
//! the others, the refused act, the overrides.

mod leaves;
mod text;

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use crate::condition::gauge::Unit;
use crate::condition::{CompareOp, Condition, Temporal};
use crate::counter::Counter;
use crate::directive::Status;
use crate::expr::Amount;
use crate::limits::MAX_RAISED;
use crate::meter::{Reach, Reading, Sight, Truth};
use crate::policy::Action;
use crate::program::{Leaf, Node, OpKind, Program, Read};
use crate::signal::{LIMIT_SOURCE, POLICY_SOURCE, StopSignal, StopSignals};
use crate::table::{CompareIx, GaugeIx, OpIx, RuleIx};
use crate::units::Money;
use leaves::primary_leaf_text;
pub(crate) use leaves::{rests_on_numbers, signal_of};

/// Version of the trip record's JSON.
pub const VERSION: u32 = 1;

/// Why a run stopped, or how close it is. Built only when something tripped, or on request.
///
/// ```
/// # use std::sync::Arc;
/// # use endstop_core::{Policy, Program, condition::named::max_steps, probe::Probes};
/// use endstop_core::units::Millis;
/// use endstop_core::{Event, EventKind, Run};
///
/// # let mut run = Run::new(Arc::new(Program::new(&Policy::from(max_steps(1)), &Probes::new())?));
/// run.observe(&Event::new(Millis(0), EventKind::StepBegin));
/// run.observe(&Event::new(Millis(9), EventKind::StepBegin));
/// let record = run.trip_record();
/// assert_eq!(record.terminated_by.as_deref(), Some("max_steps(1)"));
/// assert_eq!((record.steps, record.at_ms), (1, 9));
/// assert_eq!(record.to_string(), run.explain());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TripRecord {
    /// [`VERSION`].
    pub version: u32,
    /// The run's status at that time.
    pub status: Status,
    /// The signal that decides; `None` without a signal.
    pub primary: Option<StopSignal>,
    /// Every signal that stands, raised ones first, in order of arrival; also those that were raised after the stop was
    /// decided, while something of the run was in flight.
    pub signals: StopSignals,
    /// Raised signals beyond the 64 that a run keeps.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub signals_dropped: u64,
    /// Signals that were raised once the run had ended. They change neither its reason nor its status.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub late_signals: StopSignals,
    /// The pause from outside, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<PauseRequest>,
    /// The rule behind the primary signal, if a rule is.
    pub rule: Option<String>,
    /// The named condition that tripped, as written; otherwise its leaf.
    pub terminated_by: Option<String>,
    /// The act that was refused.
    pub refused: Option<String>,
    /// Steps begun.
    pub steps: u64,
    /// Tokens settled.
    pub tokens: u64,
    /// Dollars settled as a decimal; `None` if a call had no price.
    pub cost_usd: Option<String>,
    /// Milliseconds since the run began.
    pub at_ms: u64,
    /// Every rule with its tree.
    pub rules: Vec<RuleRecord>,
    /// The last overrides and approvals, oldest first.
    pub overrides: Vec<OverrideRecord>,
}

/// A pause from outside: who asked for it, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PauseRequest {
    /// The person or program that asked.
    pub by: String,
    /// Why; empty if that is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

impl Display for PauseRequest {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "paused by {}", self.by)?;
        if self.why.is_empty() { Ok(()) } else { write!(f, ": {}", self.why) }
    }
}

/// One rule of a trip record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RuleRecord {
    /// The rule.
    pub id: String,
    /// Its action.
    pub action: Action,
    /// Whether it trips as the decision sees it: an unknown price counts as met.
    pub trips: bool,
    /// Whether nothing can override it now: a part that is met is hard, or all parts are while none is met.
    pub hard: bool,
    /// Its origin, such as a file's path.
    pub origin: Option<String>,
    /// Its condition.
    pub tree: NodeRecord,
}

/// One condition of a trip record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// The text, as in the policy; `and`, `or` or `not` for these operators.
    pub text: String,
    /// Whether it is met.
    pub state: Truth,
    /// The observed value, if it is a number.
    pub observed: Option<String>,
    /// Its value if the judged model request spent its worst case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub projected: Option<String>,
    /// The limit it was compared with.
    pub limit: Option<String>,
    /// The distance from tripping, for a limit that had not been reached.
    pub margin: Option<String>,
    /// Its parts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<NodeRecord>,
}

impl NodeRecord {
    /// Returns the first condition in it that is true: the part that makes it true, or itself if it has none. `None` if it
    /// is not true.
    ///
    /// ```
    /// use endstop_core::Truth;
    /// use endstop_core::trip_record::NodeRecord;
    ///
    /// let node = |text: &str, state, parts| {
    ///     let text = text.to_owned();
    ///     NodeRecord { text, state, observed: None, projected: None, limit: None, margin: None, parts }
    /// };
    /// let steps = node("steps >= 25", Truth::False, Vec::new());
    /// let cost = node("cost >= $2.00", Truth::True, Vec::new());
    /// assert_eq!(steps.first_true(), None);
    /// let either = node("or", Truth::True, vec![steps, cost.clone()]);
    /// assert_eq!(either.first_true(), Some(&cost));
    /// ```
    #[must_use]
    pub fn first_true(&self) -> Option<&Self> {
        if self.state != Truth::True {
            return None;
        }
        // A condition under a `not` is false if the whole is true.
        self.parts.iter().find_map(Self::first_true).or(Some(self))
    }

    /// Recursion is bounded by the depth that a policy may have.
    fn is_written_as(&self, other: &Self) -> bool {
        self.text == other.text
            && self.parts.len() == other.parts.len()
            && self.parts.iter().zip(&other.parts).all(|(one, other)| one.is_written_as(other))
    }
}

/// One override or approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverrideRecord {
    /// When, in milliseconds since the run began.
    pub at_ms: u64,
    /// Steps begun by then.
    pub step: u64,
    /// The person or program that asked.
    pub by: String,
    /// The rule that was overridden or approved; `None` where raised signals were cleared.
    pub rule: Option<String>,
    /// The action, such as `overridden` or `approved up to cost $3.00`.
    pub what: String,
}

impl TripRecord {
    /// The record of a run with this status and these signals.
    pub(crate) fn new(
        sight: Sight<'_>,
        status: Status,
        signals: StopSignals,
        refused: Option<String>,
        overrides: &[OverrideRecord],
    ) -> Self {
        let program = sight.program;
        let primary = signals.primary().cloned();
        let rule = primary.as_ref().and_then(|signal| rule_of(program, signal));
        let records = program.policy_rules().map(|(index, rule)| {
            let compiled = program.rules().at(index);
            RuleRecord {
                id: rule.id.clone(),
                action: rule.action,
                trips: sight.is_met(index),
                hard: sight.is_hard(index),
                origin: rule.origin.clone(),
                tree: Explainer { sight }.node(&rule.condition, &compiled.node).0,
            }
        });
        let mut record = Self {
            version: VERSION,
            status: primary.as_ref().map_or(status, |signal| Status::after(signal.reason)),
            rule: rule.map(|rule| program.rule(rule).id.clone()),
            primary,
            signals,
            signals_dropped: 0,
            late_signals: StopSignals::default(),
            pause: None,
            terminated_by: rule.and_then(|rule| primary_leaf_text(sight, rule)),
            refused,
            steps: sight.meter.tallies().total(Counter::Steps),
            tokens: 0,
            cost_usd: None,
            at_ms: sight.meter.clocks().at().0,
            rules: records.collect(),
            overrides: overrides.to_vec(),
        };
        record.settle(sight);
        record
    }

    /// Whether a stop rule that this record names as tripped has the same condition in the other one.
    pub(crate) fn rests_on_a_rule_of(&self, other: &Self) -> bool {
        self.signals.iter().any(|signal| {
            let source = signal.source.as_deref();
            match source.and_then(|source| source.strip_prefix(POLICY_SOURCE)) {
                Some(id) => self.has_rule_of(other, id),
                // Which limit cut the response off is not known: one of them.
                None if source == Some(LIMIT_SOURCE) => {
                    let mut stops = self.rules.iter().filter(|rule| rule.action == Action::Stop);
                    stops.all(|rule| self.has_rule_of(other, &rule.id))
                }
                // A signal of something else is no matter of the policy.
                None => true,
            }
        })
    }

    fn has_rule_of(&self, other: &Self, id: &str) -> bool {
        let of = |record: &'_ Self| record.rules.iter().find(|rule| rule.id == id).cloned();
        of(self).zip(of(other)).is_some_and(|(old, new)| old.tree.is_written_as(&new.tree))
    }

    /// Records the amounts settled now: calls may have been in flight when the run stopped.
    pub(crate) fn settle(&mut self, sight: Sight<'_>) {
        let tallies = sight.meter.tallies();
        let cost = Money::from_picos(tallies.total(Counter::Cost));
        self.tokens = tallies.total(Counter::Tokens);
        self.cost_usd = sight.meter.is_cost_known(sight.program, false).then(|| cost.to_decimal());
    }

    /// A signal that was raised after the stop was decided. While something is in flight the run has not ended, and the
    /// signal may become the one that decides. Afterwards it is late.
    pub(crate) fn add_signal(&mut self, signal: StopSignal, is_late: bool) {
        let is_final = signal.rank().0 <= 1;
        if is_final && self.is_known(&signal) {
            return;
        }
        let is_first = self.primary.as_ref().is_none_or(|primary| signal.rank() < primary.rank());
        if !is_late && is_first {
            self.status = Status::after(signal.reason);
            self.primary = Some(signal.clone());
            (self.rule, self.terminated_by) = (None, None);
        }
        let signals = if is_late { &mut self.late_signals } else { &mut self.signals };
        // Errors and cancellations have room that other signals cannot take.
        let is_counted = |known: &&StopSignal| !is_final || known.rank().0 <= 1;
        if signals.iter().filter(is_counted).count() >= MAX_RAISED {
            self.signals_dropped = self.signals_dropped.saturating_add(1);
        } else {
            signals.push(signal);
        }
    }

    /// Whether the record has this signal already: a cancellation reaches a run as a signal, as an event and from its
    /// parents, an error from its source alone.
    fn is_known(&self, signal: &StopSignal) -> bool {
        let known = self.signals.iter().chain(&self.late_signals);
        let same = |known: &&StopSignal| {
            (known.reason, &known.message) == (signal.reason, &signal.message)
                && (signal.rank().0 == 1 || known.source == signal.source)
        };
        known.filter(same).count() > 0
    }

    /// Returns the record as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        match serde_json::to_string(self) {
            Ok(text) => text,
            Err(error) => unreachable!("a trip record is text, numbers and lists: {error}"),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

const fn is_empty(signals: &StopSignals) -> bool {
    !signals.has_any()
}

/// The rule that a policy signal came from.
fn rule_of(program: &Program, signal: &StopSignal) -> Option<RuleIx> {
    let id = signal.source.as_deref()?.strip_prefix(POLICY_SOURCE)?;
    program.rule_of_id(id)
}

struct Explainer<'a> {
    sight: Sight<'a>,
}

impl Explainer<'_> {
    /// Recursion is bounded by the depth that a policy may have.
    fn node(&self, condition: &Condition, node: &Node) -> (NodeRecord, Truth) {
        let parts = condition.parts().into_iter().zip(&node.parts);
        let (parts, truths): (Vec<NodeRecord>, Vec<Truth>) =
            parts.map(|(part, node)| self.node(part, node)).unzip();
        let text = match condition {
            Condition::Not(_) => "not".to_string(),
            Condition::And(_) => "and".to_string(),
            Condition::Or(_) => "or".to_string(),
            _ => condition.to_string(),
        };
        let (all, any) = (
            truths.iter().copied().fold(Truth::True, Truth::and),
            truths.iter().copied().fold(Truth::False, Truth::or),
        );
        let truth = match (condition, node.leaf) {
            (_, Leaf::Compare(compare) | Leaf::OpNumber(compare)) => {
                self.comparison(compare, node.negated)
            }
            (_, Leaf::Fact(fact)) => self.sight.meter.facts().truth(fact),
            (_, Leaf::Op(op)) => self.temporal(op, &truths),
            (Condition::Not(_), Leaf::Group) => all.negated(),
            (Condition::Or(_), Leaf::Group) => any,
            // A named condition has one part.
            (_, Leaf::Group) => all,
        };
        let mut record = NodeRecord {
            text,
            state: truth,
            observed: None,
            projected: None,
            limit: None,
            margin: None,
            parts,
        };
        if let Some(compare) = node.leaf.compare() {
            self.measure(condition, compare, truth, &mut record);
        }
        (record, truth)
    }

    fn comparison(&self, index: CompareIx, negated: bool) -> Truth {
        let compare = self.sight.compare(index);
        let settled = self.sight.frame.number(compare.gauge);
        let reach = self.sight.reach(index);
        let value = reach.flatten().map_or(settled, |reach| reach.compared);
        let met = match self.sight.frame.reading(compare.gauge) {
            Reading::Absent | Reading::Unknown => None,
            _ if reach == Some(None) => compare.range.is_met_from(value),
            Reading::AtLeast | Reading::Unpriced => compare.range.is_met_from(value),
            Reading::Known => Some(compare.range.is_met(value)),
        };
        met.map_or(Truth::Unknown, |met| Truth::known(met != negated))
    }

    /// A number as people see it: the actual count, even inside a step, when it is compared only before the next one
    /// begins.
    fn counted(&self, gauge: GaugeIx) -> u64 {
        let compared = self.sight.frame.number(gauge);
        match self.sight.program.gauges().at(gauge).read {
            read @ (Read::Counter { .. } | Read::Tool { .. }) => {
                self.sight.meter.read(read).max(compared)
            }
            _ => compared,
        }
    }

    /// An operator that is met or not. The last of its parts is what it asks of now.
    fn temporal(&self, op: OpIx, parts: &[Truth]) -> Truth {
        let Some(&now) = parts.last() else { unreachable!("an operator has an operand") };
        let (kind, state) =
            (self.sight.program.ops().at(op).kind, self.sight.meter.operators().at(op));
        let moment = self.sight.meter.now();
        let past = match kind {
            OpKind::Latch => state.has_held(),
            OpKind::Stamp(window) => state.is_within(window, &moment),
            OpKind::First => state.held_before(&moment),
            OpKind::Streak | OpKind::Count | OpKind::Ring { .. } => {
                unreachable!("the number of such an operator is compared")
            }
        };
        let past = if state.is_unknown() && !past { Truth::Unknown } else { Truth::known(past) };
        if kind == OpKind::First { past.and(now) } else { past.or(now) }
    }

    /// Observed value, limit and margin of a leaf.
    fn measure(
        &self,
        condition: &Condition,
        index: CompareIx,
        truth: Truth,
        record: &mut NodeRecord,
    ) {
        let (op, value, unit) = match condition {
            Condition::Compare(comparison) => {
                (comparison.op, comparison.value, comparison.gauge.row().unit)
            }
            Condition::Temporal(Temporal::Streak { op, n, .. } | Temporal::Count { op, n, .. }) => {
                (*op, *n, Unit::Count)
            }
            _ => return,
        };
        let gauge = self.sight.compare(index).gauge;
        let limit = self.limit(index, op).unwrap_or(value);
        let observed = self.counted(gauge);
        let reading = self.sight.frame.reading(gauge);
        let shown = |value: u64| Amount { unit, value }.to_string();
        record.limit = Some(shown(limit));
        record.observed = match reading {
            Reading::Absent => None,
            Reading::Unknown => Some("unknown".to_string()),
            Reading::AtLeast | Reading::Unpriced if observed == 0 => Some("unknown".to_string()),
            Reading::AtLeast | Reading::Unpriced => {
                Some(alloc::format!("at least {}", shown(observed)))
            }
            Reading::Known => Some(shown(observed)),
        };
        if let Some(reach) = self.sight.reach(index) {
            let part = match reading {
                Reading::AtLeast | Reading::Unpriced => "at least ",
                _ => "",
            };
            let told = |reach: Reach| alloc::format!("{part}{}", shown(reach.whole));
            record.projected = Some(reach.map_or_else(|| "unknown".to_string(), told));
        }
        let is_limit = matches!(op, CompareOp::Ge | CompareOp::Gt);
        // One that is past its limit and was not compared since has none.
        if is_limit && truth == Truth::False && record.observed.is_some() && observed < limit {
            record.margin = Some(shown(limit.saturating_sub(observed)));
        }
    }

    /// The limit, if an approval has raised it.
    fn limit(&self, index: CompareIx, op: CompareOp) -> Option<u64> {
        let original = self.sight.program.compares().at(index);
        let current = self.sight.compare(index);
        (op == CompareOp::Ge && original.range != current.range).then_some(current.range.lo)
    }
}
