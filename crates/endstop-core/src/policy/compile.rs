//! Conditions to flat tables. Negation is pushed to the leaves, into operators over time too: each
//! occurrence has a state of its own.
//!
//! Every comparison becomes `lo <= gauge <= hi`, perhaps inverted, over one dense array of numbers. Facts and
//! operators over time are bits, and groups fold bits of earlier slots. With negation at the leaves, a leaf that
//! becomes true can only bring a rule closer to tripping, so an unknown leaf takes the value that does not. A missing
//! price under `on_unpriced = "stop"` takes the value that does. The trip record computes true, false and unknown
//! afterwards, when a caller asks for it.

mod tables;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::program::{
    Compare, CompiledRule, Fold, GaugeSlot, Literal, Masks, Needs, NodeInfo, Op, OpKind, Program,
    Range64, Read, Slot,
};
use super::projected::projected;
use super::{Action, Policy, PolicyError, leaves};
use crate::condition::temporal::MAX_COUNT;
use crate::condition::{CompareOp, Comparison, Condition, Fact, Gauge, GaugeId, Temporal, Window};
use crate::probe::Probes;
use crate::text::Texts;
use tables::Tables;

/// Raised when the meaning of saved states changes.
const STATE_VERSION: u64 = 1;

/// Compiles a policy that was checked.
pub(super) fn compile(policy: &Policy, probes: &Probes) -> Result<Program, PolicyError> {
    let mut tables = Tables::default();
    for rule in &policy.rules {
        tables.count(&rule.condition);
    }
    tables.sort_gauges();
    let mut builder = Builder::new(tables, probes);
    let mut rules = Vec::new();
    for (index, rule) in policy.rules.iter().enumerate() {
        builder.rule = index;
        builder.nodes = Vec::new();
        builder.level = 0;
        let first = builder.folds.len();
        let root = builder.condition(&rule.condition, false);
        rules.push(CompiledRule {
            root,
            folds: first..builder.folds.len(),
            nodes: core::mem::take(&mut builder.nodes),
            hard: rule.is_hard(),
            step_grant: super::bounds::step_grant(rule),
        });
    }
    builder.finish(policy, rules)
}

struct Builder<'p> {
    tables: Tables,
    probes: &'p Probes,
    compares: Vec<Compare>,
    folds: Vec<Fold>,
    ops: Vec<Op>,
    nodes: Vec<NodeInfo>,
    rule: usize,
    /// Operators inside the condition compiled last.
    level: usize,
}

impl<'p> Builder<'p> {
    fn new(tables: Tables, probes: &'p Probes) -> Self {
        Self {
            tables,
            probes,
            compares: Vec::new(),
            folds: Vec::new(),
            ops: Vec::new(),
            nodes: Vec::new(),
            rule: 0,
            level: 0,
        }
    }

    /// Compiles `condition`, negated or not, and returns its slot. Leaves `self.level` at the number of
    /// nested operators in it.
    fn condition(&mut self, condition: &Condition, negated: bool) -> Slot {
        let node = self.nodes.len();
        self.nodes.push(NodeInfo::default());
        self.level = 0;
        let mut info = NodeInfo { negated, ..NodeInfo::default() };
        info.slot = match condition {
            Condition::Compare(comparison) => self.comparison(comparison, negated, &mut info),
            Condition::Fact(fact) => self.fact(fact, negated, &mut info),
            Condition::Not(inner) => self.condition(inner, !negated),
            Condition::Named(named) => self.condition(named.expansion(), negated),
            Condition::And(parts) => self.group(parts, !negated, negated),
            Condition::Or(parts) => self.group(parts, negated, negated),
            Condition::Temporal(temporal) => self.temporal(temporal, negated, &mut info),
        };
        if let Some(place) = self.nodes.get_mut(node) {
            *place = info;
        }
        info.slot
    }

    fn comparison(&mut self, comparison: &Comparison, negated: bool, info: &mut NodeInfo) -> Slot {
        let wanted = Some(&comparison.gauge);
        let gauge =
            self.tables.gauges.iter().position(|slot| slot.gauge.as_ref() == wanted).unwrap_or(0);
        info.gauge = Some(gauge);
        self.compare(gauge, comparison.op, comparison.value, negated)
    }

    fn compare(&mut self, gauge: usize, op: CompareOp, value: u64, negated: bool) -> Slot {
        self.compares.push(Compare { gauge, range: range(op, value, negated), rule: self.rule });
        self.compares.len() - 1
    }

    fn fact(&mut self, fact: &Fact, negated: bool, info: &mut NodeInfo) -> Slot {
        let index = self.tables.facts.iter().position(|known| known == fact).unwrap_or(0);
        info.fact = Some(index);
        self.tables.compares + Literal::of(index, !negated)
    }

    fn fold(&mut self, fold: Fold) -> Slot {
        self.folds.push(fold);
        self.tables.compares + Literal::count(self.tables.facts.len()) + self.folds.len() - 1
    }

    fn group(&mut self, parts: &[Condition], all: bool, negated: bool) -> Slot {
        let mut level = 0;
        let mut slots = Vec::with_capacity(parts.len());
        for part in parts {
            slots.push(self.condition(part, negated));
            level = level.max(self.level);
        }
        self.level = level;
        let masks = Masks::of(&slots);
        self.fold(if all { Fold::All(masks) } else { Fold::Any(masks) })
    }

    fn temporal(&mut self, temporal: &Temporal, negated: bool, info: &mut NodeInfo) -> Slot {
        let (of, next) = match temporal {
            Temporal::Ever(of)
            | Temporal::Streak { of, .. }
            | Temporal::Count { of, .. }
            | Temporal::Within { of, .. } => (of, None),
            Temporal::Then { first, next } => (first, Some(next)),
        };
        // Where more steps help the rule to trip, a step counts only if the operand surely held in it;
        // where fewer help, unless it surely did not.
        let inverted = match temporal {
            Temporal::Streak { op, .. } | Temporal::Count { op, .. } => {
                matches!(if negated { op.negated() } else { *op }, CompareOp::Lt | CompareOp::Le)
            }
            _ => negated,
        };
        let outer = self.ops.len();
        let operand = self.condition(of, inverted);
        let inner = outer..self.ops.len();
        let mut level = self.level;
        let next = next.map(|next| {
            let slot = self.condition(next, negated);
            level = level.max(self.level);
            slot
        });
        let op = self.ops.len();
        info.op = Some(op);
        self.ops.push(Op {
            kind: op_kind(temporal),
            operand,
            inverted,
            level,
            inner,
            doubtful: self.doubtful(of),
            key: key(temporal, inverted),
        });
        self.level = level + 1;
        match (temporal, negated) {
            (
                Temporal::Streak { op: compare, n, .. } | Temporal::Count { op: compare, n, .. },
                _,
            ) => {
                let wanted = Read::Op(op);
                let gauge =
                    self.tables.gauges.iter().position(|slot| slot.read == wanted).unwrap_or(0);
                info.gauge = Some(gauge);
                self.compare(gauge, *compare, *n, negated)
            }
            (Temporal::Ever(_), false) => self.fold(Fold::Ever { op, operand }),
            (Temporal::Ever(_), true) => self.fold(Fold::Always { op, operand }),
            (Temporal::Within { window, .. }, false) => {
                self.fold(Fold::Within { op, operand, window: *window })
            }
            (Temporal::Within { window, .. }, true) => {
                self.fold(Fold::NotWithin { op, operand, window: *window })
            }
            (Temporal::Then { .. }, false) => {
                self.fold(Fold::Then { op, next: next.unwrap_or(operand) })
            }
            (Temporal::Then { .. }, true) => {
                self.fold(Fold::NotThen { op, next: next.unwrap_or(operand) })
            }
        }
    }

    /// The gauges of an operand that can be unknown.
    fn doubtful(&self, operand: &Condition) -> Vec<usize> {
        let used: Vec<&Gauge> = leaves(operand).collect();
        let slots = self.tables.gauges.iter().enumerate();
        let slots = slots.filter(|(_, slot)| slot.is_irregular());
        let in_operand = |slot: &GaugeSlot| slot.gauge.as_ref().is_some_and(|g| used.contains(&g));
        slots.filter(|(_, slot)| in_operand(slot)).map(|(index, _)| index).collect()
    }

    fn finish(self, policy: &Policy, rules: Vec<CompiledRule>) -> Result<Program, PolicyError> {
        for name in &self.tables.probes {
            if self.probes.start(name, None).is_none() {
                return Err(PolicyError::UnknownProbe {
                    rule: rule_with_probe(policy, name),
                    probe: name.clone(),
                });
            }
        }
        let (texts, phrase_facts, pattern_facts) = texts(&self.tables.facts)?;
        let ranges = self.tables.ranges();
        let has =
            |wanted: fn(Read) -> bool| self.tables.gauges.iter().any(|slot| wanted(slot.read));
        let needs = Needs {
            digests: has(|read| matches!(read, Read::Repeats | Read::Cycles)),
            seen: has(|read| read == Read::NoProgress),
            stale: has(|read| read == Read::Stale),
            replies: self.tables.facts.contains(&Fact::NearDuplicate),
        };
        let irregular = irregular(&self.compares, &self.tables.gauges);
        let roots = roots(policy, &rules);
        let levels = self.ops.iter().map(|op| op.level + 1).max().unwrap_or(0);
        let in_time = |op: &Op| {
            matches!(
                op.kind,
                OpKind::Stamp(Window::Time(_)) | OpKind::Ring { window: Window::Time(_), .. }
            )
        };
        let is_timed =
            ranges.first().is_some_and(|range| !range.is_empty()) || self.ops.iter().any(in_time);
        let program = Program {
            policy: policy.clone(),
            rules,
            irregular,
            projected: projected(policy, &self.compares, &self.tables.gauges),
            compares: self.compares,
            folds: self.folds,
            ops: self.ops,
            levels,
            gauges: self.tables.gauges,
            ranges,
            facts: self.tables.facts,
            tools: self.tables.tools,
            numbers: self.tables.numbers,
            probe_names: self.tables.probes,
            probes: self.probes.clone(),
            phrase_facts,
            pattern_facts,
            fingerprint: xxh3_64_with_seed(&texts.fingerprint.to_le_bytes(), STATE_VERSION),
            texts,
            needs,
            is_timed,
            roots,
        };
        Ok(program)
    }
}

fn range(op: CompareOp, value: u64, negated: bool) -> Range64 {
    let never = Range64 { lo: 0, span: u64::MAX, inverted: true };
    let upwards = |lo: u64| Range64 { lo, span: u64::MAX - lo, inverted: false };
    let downwards = |hi: u64| Range64 { lo: 0, span: hi, inverted: false };
    // The negation of a one-sided comparison is the other side: `not steps < 5` is a lower bound too.
    match if negated { op.negated() } else { op } {
        CompareOp::Ge => upwards(value),
        CompareOp::Gt => value.checked_add(1).map_or(never, upwards),
        CompareOp::Le => downwards(value),
        CompareOp::Lt => value.checked_sub(1).map_or(never, downwards),
        CompareOp::Eq => Range64 { lo: value, span: 0, inverted: false },
        CompareOp::Ne => Range64 { lo: value, span: 0, inverted: true },
    }
}

fn op_kind(temporal: &Temporal) -> OpKind {
    match temporal {
        Temporal::Ever(_) => OpKind::Latch,
        Temporal::Streak { .. } => OpKind::Streak,
        Temporal::Count { window: None, .. } => OpKind::Count,
        Temporal::Count { window: Some(window), n, .. } => {
            // One stamp more than `n` tells `n` from more than `n`.
            let capacity = usize::try_from((*n).min(MAX_COUNT)).unwrap_or(0) + 1;
            OpKind::Ring { window: *window, capacity }
        }
        Temporal::Within { window, .. } => OpKind::Stamp(*window),
        Temporal::Then { .. } => OpKind::First,
    }
}

/// The operator without its limit, so that a raised limit finds its counter again.
fn key(temporal: &Temporal, negated: bool) -> String {
    let sign = if negated { "!" } else { "" };
    match temporal {
        Temporal::Ever(of) => format!("{sign}ever({of})"),
        Temporal::Streak { of, .. } => format!("{sign}streak({of})"),
        Temporal::Count { of, window: None, .. } => format!("{sign}count({of})"),
        Temporal::Count { of, window: Some(window), .. } => format!("{sign}count({of}, {window})"),
        // The window may change, but a stamp is a time or a step and stays that.
        Temporal::Within { of, window: Window::Time(_) } => format!("{sign}within({of}, time)"),
        Temporal::Within { of, window: Window::Steps(_) } => format!("{sign}within({of}, steps)"),
        Temporal::Then { first, .. } => format!("{sign}then({first})"),
    }
}

fn rule_with_probe(policy: &Policy, name: &str) -> String {
    let uses =
        |gauge: &Gauge| gauge.id == GaugeId::Probe && gauge.argument.as_deref() == Some(name);
    let rule = policy.rules.iter().find(|rule| rule.gauges().into_iter().any(uses));
    rule.map_or_else(String::new, |rule| rule.id.clone())
}

fn texts(facts: &[Fact]) -> Result<(Texts, Vec<usize>, Vec<usize>), PolicyError> {
    let (mut phrases, mut phrase_facts) = (Vec::new(), Vec::new());
    let (mut patterns, mut pattern_facts) = (Vec::new(), Vec::new());
    for (index, fact) in facts.iter().enumerate() {
        match fact {
            Fact::Said { text, .. } => {
                phrases.push(text.as_str());
                phrase_facts.push(index);
            }
            Fact::Matches(pattern) => {
                patterns.push(pattern.as_str());
                pattern_facts.push(index);
            }
            _ => {}
        }
    }
    let texts = Texts::new(&phrases, &patterns)
        .map_err(|problem| PolicyError::Text(format!("{}: {}", problem.message, problem.help)))?;
    Ok((texts, phrase_facts, pattern_facts))
}

/// Comparisons of gauges that can be unknown, or that are compared at some moments only.
fn irregular(compares: &[Compare], gauges: &[GaugeSlot]) -> Vec<usize> {
    let of = |compare: &Compare| gauges.get(compare.gauge).is_some_and(GaugeSlot::is_irregular);
    compares.iter().enumerate().filter(|(_, c)| of(c)).map(|(index, _)| index).collect()
}

fn roots(policy: &Policy, rules: &[CompiledRule]) -> [Masks; 5] {
    core::array::from_fn(|place| {
        let action = Action::ALL.get(place).copied();
        let of_action =
            policy.rules.iter().zip(rules).filter(|(rule, _)| Some(rule.action) == action);
        let slots: Vec<Slot> = of_action.map(|(_, compiled)| compiled.root).collect();
        Masks::of(&slots)
    })
}
