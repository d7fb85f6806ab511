//! The trip record: never a bool. Which rules hold, which leaf of them tripped with which value, what
//! margin the others had, what was refused, what was overridden.

mod leaves;
mod text;

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::condition::{CompareOp, Condition, Temporal};
use crate::expr::Amount;
use crate::meter::project::Reach;
use crate::meter::{Meter, Reading, Truth};
use crate::policy::Action;
use crate::policy::program::{NodeInfo, OpKind, Program, Read};
use crate::run::overrides::OverrideRecord;
use crate::run::{Run, Status};
use crate::signal::{StopSignal, StopSignals};
pub(crate) use leaves::{primary_leaf_text, rests_on_numbers, signal_of};

/// Version of the trip record's JSON.
pub const VERSION: u32 = 1;

/// Why a run stopped, or how near it is. Built only when something tripped, or when asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TripRecord {
    /// [`VERSION`].
    pub version: u32,
    /// The run's status at that time.
    pub status: Status,
    /// The signal that decides; none while no signal stands.
    pub primary: Option<StopSignal>,
    /// Every signal that stands, raised ones first, in order of arrival.
    pub signals: StopSignals,
    /// The rule behind the primary signal, if a rule is.
    pub rule: Option<String>,
    /// The named condition that tripped, as written; else the leaf.
    pub terminated_by: Option<String>,
    /// What was about to begin and was refused.
    pub refused: Option<String>,
    /// Steps begun.
    pub steps: u64,
    /// Tokens settled.
    pub tokens: u64,
    /// Dollars settled as a decimal; none if a call had no price.
    pub cost_usd: Option<String>,
    /// Milliseconds since the run began.
    pub at_ms: u64,
    /// Every rule with its tree.
    pub rules: Vec<RuleRecord>,
    /// The last overrides and approvals, oldest first.
    pub overrides: Vec<OverrideRecord>,
}

/// One rule of a trip record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RuleRecord {
    /// The rule.
    pub id: String,
    /// Its action.
    pub action: Action,
    /// Whether it holds as the decision sees it: an unknown price counts as holding.
    pub holds: bool,
    /// Whether it can be overridden.
    pub hard: bool,
    /// Where it came from.
    pub origin: Option<String>,
    /// Its condition.
    pub tree: NodeRecord,
}

/// One condition of a trip record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// As written; `and`, `or`, `not` for those.
    pub text: String,
    /// Whether it holds.
    pub state: Truth,
    /// What was observed, where that is a number.
    pub observed: Option<String>,
    /// What it would be if the model request that is judged spent its worst case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub projected: Option<String>,
    /// The limit it was compared with.
    pub limit: Option<String>,
    /// How far it was from tripping, for a limit that had not been reached.
    pub margin: Option<String>,
    /// Its parts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<NodeRecord>,
}

impl TripRecord {
    pub(crate) fn new(run: &Run, signals: StopSignals, refused: Option<String>) -> Self {
        let (program, meter) = (&*run.program, &run.meter);
        let primary = signals.highest().cloned();
        let rule = primary.as_ref().and_then(|signal| rule_of(program, signal));
        let terminated_by = rule.and_then(|rule| primary_leaf_text(program, meter, rule));
        let records =
            program.policy.rules.iter().zip(&program.rules).map(|(rule, compiled)| RuleRecord {
                id: rule.id.clone(),
                action: rule.action,
                holds: crate::meter::bit(&meter.truth, compiled.root),
                hard: compiled.hard,
                origin: rule.origin.clone(),
                tree: tree(program, meter, &rule.condition, &compiled.nodes),
            });
        let status = match &primary {
            Some(signal) => Status::after(signal.reason),
            None => run.status(),
        };
        Self {
            version: VERSION,
            status,
            rule: rule.and_then(|rule| program.policy.rules.get(rule)).map(|rule| rule.id.clone()),
            primary,
            signals,
            terminated_by,
            refused,
            steps: run.step_count(),
            tokens: run.tokens(),
            cost_usd: run.cost().map(crate::units::Money::to_decimal),
            at_ms: run.at().0,
            rules: records.collect(),
            overrides: run.overrides.history.clone(),
        }
    }

    /// What was settled once the run had stopped: calls that were in flight.
    pub(crate) fn settle(&mut self, run: &Run) {
        self.tokens = run.tokens();
        self.cost_usd = run.cost().map(crate::units::Money::to_decimal);
    }

    /// An error that came once the run had stopped: it decides, unless one did already.
    pub(crate) fn add_error(&mut self, signal: StopSignal) {
        if self.primary.as_ref().is_some_and(|primary| primary.reason == signal.reason) {
            return;
        }
        self.status = Status::after(signal.reason);
        self.primary = Some(signal.clone());
        (self.rule, self.terminated_by) = (None, None);
        self.signals.push(signal);
    }

    /// The record as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// The rule that a policy signal came from.
fn rule_of(program: &Program, signal: &StopSignal) -> Option<usize> {
    let id = signal.source.as_deref()?.strip_prefix(leaves::SOURCE)?;
    program.policy.rules.iter().position(|rule| rule.id == id)
}

fn tree(program: &Program, meter: &Meter, condition: &Condition, nodes: &[NodeInfo]) -> NodeRecord {
    let mut nodes = nodes.iter();
    let (record, _) = Explainer { program, meter }.node(condition, &mut nodes);
    record
}

struct Explainer<'a> {
    program: &'a Program,
    meter: &'a Meter,
}

type Nodes<'n> = core::slice::Iter<'n, NodeInfo>;

impl Explainer<'_> {
    /// Recursion is bounded by the depth that a policy may have.
    fn node(&self, condition: &Condition, nodes: &mut Nodes<'_>) -> (NodeRecord, Truth) {
        let info = nodes.next().copied().unwrap_or_default();
        let (parts, truths): (Vec<NodeRecord>, Vec<Truth>) =
            condition.parts().into_iter().map(|part| self.node(part, nodes)).unzip();
        let first = truths.first().copied().unwrap_or(Truth::Unknown);
        let (text, truth) = match condition {
            Condition::Compare(_) => (condition.to_string(), self.comparison(&info)),
            Condition::Fact(_) => {
                let known = info.fact.and_then(|fact| self.meter.facts.get(fact)).copied();
                (condition.to_string(), known.unwrap_or(Truth::Unknown))
            }
            Condition::Not(_) => ("not".to_string(), first.negated()),
            Condition::And(_) => {
                ("and".to_string(), truths.iter().copied().fold(Truth::True, Truth::and))
            }
            Condition::Or(_) => {
                ("or".to_string(), truths.iter().copied().fold(Truth::False, Truth::or))
            }
            Condition::Named(_) => (condition.to_string(), first),
            Condition::Temporal(_) => {
                let last = truths.last().copied().unwrap_or(Truth::Unknown);
                (condition.to_string(), self.temporal(&info, last))
            }
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
        self.measure(condition, &info, truth, &mut record);
        (record, truth)
    }

    fn comparison(&self, info: &NodeInfo) -> Truth {
        let Some(compare) = self.meter.compares.get(info.slot) else { return Truth::Unknown };
        let settled = self.value(compare.gauge);
        let reach = self.meter.reach(self.program, info.slot);
        let value = reach.flatten().map_or(settled, |reach| reach.compared);
        let holds = match self.meter.readings.get(compare.gauge).copied() {
            Some(Reading::Absent | Reading::Unknown) => None,
            _ if reach == Some(None) => compare.range.holds_from(value),
            Some(Reading::AtLeast | Reading::Unpriced) => compare.range.holds_from(value),
            Some(Reading::Known) | None => Some(compare.range.holds(value)),
        };
        holds.map_or(Truth::Unknown, |holds| Truth::known(holds != info.negated))
    }

    fn value(&self, gauge: usize) -> u64 {
        self.meter.view.get(gauge).copied().unwrap_or(0)
    }

    /// A number as people see it: a count as it is, also inside a step, where it is compared only when one
    /// more would begin.
    fn counted(&self, gauge: usize) -> u64 {
        let compared = self.value(gauge);
        match self.program.gauges.get(gauge).map(|slot| slot.read) {
            Some(read @ (Read::Counter { .. } | Read::Tool { .. })) => {
                self.meter.read(read).max(compared)
            }
            _ => compared,
        }
    }

    fn temporal(&self, info: &NodeInfo, now: Truth) -> Truth {
        if info.gauge.is_some() {
            return self.comparison(info);
        }
        let Some((op, state)) =
            info.op.and_then(|i| self.program.ops.get(i).zip(self.meter.ops.get(i)))
        else {
            return Truth::Unknown;
        };
        let meter = self.meter;
        let past = match op.kind {
            OpKind::Latch => state.set,
            OpKind::Stamp(window) => state.is_within(window, meter.clocks.at, meter.step.closed),
            _ => state.held_before(meter.step.begun),
        };
        let past = if state.unknown && !past { Truth::Unknown } else { Truth::known(past) };
        if op.kind == OpKind::First { past.and(now) } else { past.or(now) }
    }

    /// Observed value, limit and margin of a leaf.
    fn measure(
        &self,
        condition: &Condition,
        info: &NodeInfo,
        truth: Truth,
        record: &mut NodeRecord,
    ) {
        let (op, value, unit) = match condition {
            Condition::Compare(comparison) => {
                (comparison.op, comparison.value, comparison.gauge.row().unit)
            }
            Condition::Temporal(Temporal::Streak { op, n, .. } | Temporal::Count { op, n, .. }) => {
                (*op, *n, crate::condition::gauge::Unit::Count)
            }
            _ => return,
        };
        let Some(gauge) = info.gauge else { return };
        let limit = self.limit(info, op).unwrap_or(value);
        let observed = self.counted(gauge);
        let shown = |value: u64| Amount { unit, value }.to_string();
        record.limit = Some(shown(limit));
        record.observed = match self.meter.readings.get(gauge) {
            Some(Reading::Absent) => None,
            Some(Reading::Unknown) => Some("unknown".to_string()),
            Some(Reading::AtLeast | Reading::Unpriced) if observed == 0 => {
                Some("unknown".to_string())
            }
            Some(Reading::AtLeast | Reading::Unpriced) => {
                Some(alloc::format!("at least {}", shown(observed)))
            }
            _ => Some(shown(observed)),
        };
        if matches!(condition, Condition::Compare(_))
            && let Some(reach) = self.meter.reach(self.program, info.slot)
        {
            let part = match self.meter.readings.get(gauge) {
                Some(Reading::AtLeast | Reading::Unpriced) => "at least ",
                _ => "",
            };
            let told = |reach: Reach| alloc::format!("{part}{}", shown(reach.whole));
            record.projected = Some(reach.map_or_else(|| "unknown".to_string(), told));
        }
        let is_limit = matches!(op, CompareOp::Ge | CompareOp::Gt);
        if is_limit && truth == Truth::False && record.observed.is_some() {
            record.margin = Some(shown(limit.saturating_sub(observed)));
        }
    }

    /// The limit, as an approval may have raised it.
    fn limit(&self, info: &NodeInfo, op: CompareOp) -> Option<u64> {
        let original = self.program.compares.get(info.slot)?;
        let current = self.meter.compares.get(info.slot)?;
        (op == CompareOp::Ge && original.range != current.range).then_some(current.range.lo)
    }
}
