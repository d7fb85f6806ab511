//! Conditions to flat tables. Negation is pushed to the leaves, into operators over time too: each occurrence has
//! separate state.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::names::Names;
use super::projected::projected;
use super::rows::{
    Compare, CompiledPart, CompiledRule, Fold, GaugeSlot, Leaf, Masks, Node, Op, OpKind, Range64,
    Read,
};
use super::tables::Tables;
use super::{Needs, Program, slot_of_fact, slot_of_fold};
use crate::condition::{CompareOp, Comparison, Condition, Fact, Gauge, GaugeId, Temporal, Window};
use crate::limits::MAX_COUNT;
use crate::policy::{Action, Policy, PolicyError, Rule, bounds, gauges_in};
use crate::probe::Probes;
use crate::table::{CompareIx, FactIx, GaugeIx, Index as _, OpIx, RuleIx, Slot, Table};
use crate::text::Texts;

/// Raised when the meaning of saved states changes.
const STATE_VERSION: u64 = 1;

/// Compiles a policy that was checked.
pub(super) fn compile(policy: &Policy, probes: &Probes) -> Result<Program, PolicyError> {
    let mut tables = Tables::default();
    for rule in &policy.rules {
        tables.count(&rule.condition);
    }
    policy.rules.iter().for_each(|rule| tables.add_resets(rule));
    tables.sort_gauges();
    let mut builder = Builder::new(tables, probes);
    let mut rules = Vec::new();
    for (index, rule) in policy.rules.iter().enumerate() {
        builder.rule = RuleIx::new(index);
        let first = builder.folds.len();
        let (node, _) = builder.condition(&rule.condition, false);
        rules.push(CompiledRule {
            folds: first..builder.folds.len(),
            parts: parts(rule, &rule.condition, &node),
            node,
            step_grant: bounds::step_grant(rule),
        });
    }
    builder.finish(policy, rules.into_iter().collect())
}

/// The bits of the rule's parts, as [`Rule::parts`] lists them. Recursion is bounded by the depth that a policy may
/// have.
fn parts(rule: &Rule, condition: &Condition, node: &Node) -> Vec<CompiledPart> {
    match condition {
        Condition::Or(_) | Condition::Named(_) => {
            let inner = condition.parts().into_iter().zip(&node.parts);
            inner.flat_map(|(condition, node)| parts(rule, condition, node)).collect()
        }
        part => alloc::vec![CompiledPart { slot: node.slot, hard: rule.is_part_hard(part) }],
    }
}

struct Builder<'p> {
    tables: Tables,
    probes: &'p Probes,
    compares: Vec<Compare>,
    folds: Vec<Fold>,
    ops: Vec<Op>,
    rule: RuleIx,
}

/// A node, and how many operators over time are nested in it.
type Nested = (Node, usize);

impl<'p> Builder<'p> {
    fn new(tables: Tables, probes: &'p Probes) -> Self {
        Self {
            tables,
            probes,
            compares: Vec::new(),
            folds: Vec::new(),
            ops: Vec::new(),
            rule: RuleIx::new(0),
        }
    }

    /// Compiles `condition`, negated or not.
    fn condition(&mut self, condition: &Condition, negated: bool) -> Nested {
        match condition {
            Condition::Compare(comparison) => (self.comparison(comparison, negated), 0),
            Condition::Fact(fact) => (self.fact(fact, negated), 0),
            Condition::Not(inner) => {
                let (part, level) = self.condition(inner, !negated);
                (same(part, negated), level)
            }
            Condition::Named(named) => {
                let (part, level) = self.condition(named.expansion(), negated);
                (same(part, negated), level)
            }
            Condition::And(parts) => self.group(parts, !negated, negated),
            Condition::Or(parts) => self.group(parts, negated, negated),
            Condition::Temporal(temporal) => self.temporal(temporal, negated),
        }
    }

    fn comparison(&mut self, comparison: &Comparison, negated: bool) -> Node {
        let wanted = Some(&comparison.gauge);
        let gauge = self.gauge(|slot| slot.gauge.as_ref() == wanted);
        let compare = self.compare(gauge, comparison.op, comparison.value, negated);
        leaf(Program::slot_of_compare(compare), negated, Leaf::Compare(compare))
    }

    fn gauge(&self, is: impl Fn(&GaugeSlot) -> bool) -> GaugeIx {
        let Some(place) = self.tables.gauges.iter().position(is) else {
            unreachable!("every gauge of the policy was gathered in the first pass")
        };
        GaugeIx::new(place)
    }

    fn compare(&mut self, gauge: GaugeIx, op: CompareOp, value: u64, negated: bool) -> CompareIx {
        self.compares.push(Compare { gauge, range: range(op, value, negated), rule: self.rule });
        CompareIx::new(self.compares.len() - 1)
    }

    fn fact(&self, fact: &Fact, negated: bool) -> Node {
        let Some(place) = self.tables.facts.iter().position(|known| known == fact) else {
            unreachable!("every fact of the policy was gathered in the first pass")
        };
        let fact = FactIx::new(place);
        leaf(slot_of_fact(self.tables.compares, fact, !negated), negated, Leaf::Fact(fact))
    }

    fn fold(&mut self, fold: Fold) -> Slot {
        self.folds.push(fold);
        slot_of_fold(self.tables.compares, self.tables.facts.len(), self.folds.len() - 1)
    }

    fn group(&mut self, parts: &[Condition], all: bool, negated: bool) -> Nested {
        let mut nested = 0;
        let mut nodes = Vec::with_capacity(parts.len());
        for part in parts {
            let (node, level) = self.condition(part, negated);
            nested = nested.max(level);
            nodes.push(node);
        }
        let masks = Masks::of(nodes.iter().map(|node| node.slot));
        let slot = self.fold(if all { Fold::All(masks) } else { Fold::Any(masks) });
        (Node { slot, negated, leaf: Leaf::Group, parts: nodes }, nested)
    }

    fn temporal(&mut self, temporal: &Temporal, negated: bool) -> Nested {
        // Where more steps help the rule to trip, a step counts only if the operand surely held in it;
        // where fewer help, unless it surely did not.
        let inverted = match temporal {
            Temporal::Streak { op, .. } | Temporal::Count { op, .. } => {
                matches!(if negated { op.negated() } else { *op }, CompareOp::Lt | CompareOp::Le)
            }
            _ => negated,
        };
        let outer = self.ops.len();
        let (of, level) = self.condition(temporal.operand(), inverted);
        let (inner, operand) = (outer..self.ops.len(), of.slot);
        let mut parts = alloc::vec![of];
        let (slot, leaf, level) = match temporal {
            Temporal::Then { next, .. } => {
                let (next, of_next) = self.condition(next, negated);
                let (next_slot, level) = (next.slot, level.max(of_next));
                parts.push(next);
                let op = self.op(temporal, operand, inverted, inner, level);
                let fold = if negated {
                    Fold::NotThen { op, next: next_slot }
                } else {
                    Fold::Then { op, next: next_slot }
                };
                (self.fold(fold), Leaf::Op(op), level)
            }
            Temporal::Streak { op: compare, n, .. } | Temporal::Count { op: compare, n, .. } => {
                let op = self.op(temporal, operand, inverted, inner, level);
                let gauge = self.gauge(|slot| slot.read == Read::Op(op));
                let compare = self.compare(gauge, *compare, *n, negated);
                (Program::slot_of_compare(compare), Leaf::OpNumber(compare), level)
            }
            Temporal::Ever(_) => {
                let op = self.op(temporal, operand, inverted, inner, level);
                let fold =
                    if negated { Fold::Always { op, operand } } else { Fold::Ever { op, operand } };
                (self.fold(fold), Leaf::Op(op), level)
            }
            Temporal::Within { window, .. } => {
                let op = self.op(temporal, operand, inverted, inner, level);
                let window = *window;
                let fold = if negated {
                    Fold::NotWithin { op, operand, window }
                } else {
                    Fold::Within { op, operand, window }
                };
                (self.fold(fold), Leaf::Op(op), level)
            }
        };
        (Node { slot, negated, leaf, parts }, level + 1)
    }

    fn op(
        &mut self,
        temporal: &Temporal,
        operand: Slot,
        inverted: bool,
        inner: core::ops::Range<usize>,
        level: usize,
    ) -> OpIx {
        self.ops.push(Op {
            kind: op_kind(temporal),
            operand,
            inverted,
            level,
            inner,
            doubtful: self.doubtful(temporal.operand()),
            key: key(temporal, inverted),
        });
        OpIx::new(self.ops.len() - 1)
    }

    /// The gauges of an operand that can be unknown.
    fn doubtful(&self, operand: &Condition) -> Vec<GaugeIx> {
        let used: Vec<&Gauge> = gauges_in(operand).collect();
        let slots = self.tables.gauges.iter().enumerate();
        let slots = slots.filter(|(_, slot)| slot.is_irregular());
        let in_operand = |slot: &GaugeSlot| slot.gauge.as_ref().is_some_and(|g| used.contains(&g));
        slots.filter(|(_, slot)| in_operand(slot)).map(|(index, _)| GaugeIx::new(index)).collect()
    }

    fn finish(
        self,
        policy: &Policy,
        rules: Table<RuleIx, CompiledRule>,
    ) -> Result<Program, PolicyError> {
        for name in &self.tables.probes {
            if !self.probes.has(name) {
                return Err(PolicyError::UnknownProbe {
                    rule: rule_with_probe(policy, name),
                    probe: name.clone(),
                });
            }
        }
        let (texts, phrase_facts, pattern_facts) = texts(&self.tables.facts)?;
        let classes = self.tables.ranges();
        let has =
            |wanted: fn(Read) -> bool| self.tables.gauges.iter().any(|slot| wanted(slot.read));
        let needs = Needs {
            digests: has(|read| matches!(read, Read::Repeats | Read::Cycles)),
            seen: has(|read| read == Read::NoProgress),
            stale: has(|read| read == Read::Stale),
            replies: self.tables.facts.contains(&Fact::NearDuplicate),
        };
        let names = Names {
            rules: policy.rules.iter().map(|rule| rule.id.clone()).collect(),
            gauges: self.tables.gauges.iter().map(|slot| name_of(slot, &self.ops)).collect(),
            facts: self.tables.facts.iter().map(ToString::to_string).collect(),
            tools: self.tables.tools.clone(),
            reported: self.tables.numbers.clone(),
            operators: self.ops.iter().map(|op| op.key.clone()).collect(),
            texts: xxh3_64_with_seed(&texts.fingerprint.to_le_bytes(), STATE_VERSION),
        };
        let gauges: Table<GaugeIx, GaugeSlot> = self.tables.gauges.into_iter().collect();
        let compares: Table<CompareIx, Compare> = self.compares.into_iter().collect();
        let in_time = |op: &Op| {
            matches!(
                op.kind,
                OpKind::Stamp(Window::Time(_)) | OpKind::Ring { window: Window::Time(_), .. }
            )
        };
        let has_clock = gauges.rows().iter().any(|slot| slot.class == super::Class::Time);
        Ok(Program {
            policy: policy.clone(),
            irregular: compares_of(&compares, &gauges, GaugeSlot::is_irregular),
            clocks: compares_of(&compares, &gauges, |slot| slot.class == super::Class::Time),
            projected: projected(policy, &compares, &gauges),
            roots: roots(policy, &rules),
            levels: self.ops.iter().map(|op| op.level + 1).max().unwrap_or(0),
            is_timed: has_clock || self.ops.iter().any(in_time),
            rules,
            compares,
            folds: self.folds,
            ops: self.ops.into_iter().collect(),
            gauges,
            classes,
            facts: self.tables.facts.into_iter().collect(),
            tools: self.tables.tools.into_iter().collect(),
            numbers: self.tables.numbers.into_iter().collect(),
            probe_names: self.tables.probes.into_iter().collect(),
            probes: self.probes.clone(),
            phrase_facts,
            pattern_facts,
            texts,
            needs,
            names,
        })
    }
}

const fn leaf(slot: Slot, negated: bool, leaf: Leaf) -> Node {
    Node { slot, negated, leaf, parts: Vec::new() }
}

/// A node that says what its only part says.
fn same(part: Node, negated: bool) -> Node {
    Node { slot: part.slot, negated, leaf: Leaf::Group, parts: alloc::vec![part] }
}

/// A gauge as conditions name it; an operator's number by the operator.
fn name_of(slot: &GaugeSlot, ops: &[Op]) -> String {
    match (&slot.gauge, slot.read) {
        (Some(gauge), _) => gauge.to_string(),
        (None, Read::Op(op)) => match ops.get(op.place()) {
            Some(op) => op.key.clone(),
            None => unreachable!("an operator has its number from the pass that made it"),
        },
        (None, _) => unreachable!("a number without a gauge is an operator's"),
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
            let capacity = (*n).min(MAX_COUNT) as usize + 1;
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
    match policy.rules.iter().find(|rule| rule.gauges().into_iter().any(uses)) {
        Some(rule) => rule.id.clone(),
        None => unreachable!("every probe of the program is named by a rule of its policy"),
    }
}

type FactsOfTexts = (Texts, Vec<FactIx>, Vec<FactIx>);

fn texts(facts: &[Fact]) -> Result<FactsOfTexts, PolicyError> {
    let (mut phrases, mut phrase_facts) = (Vec::new(), Vec::new());
    let (mut patterns, mut pattern_facts) = (Vec::new(), Vec::new());
    for (index, fact) in facts.iter().enumerate() {
        match fact {
            Fact::Said { text, .. } => {
                phrases.push(text.as_str());
                phrase_facts.push(FactIx::new(index));
            }
            Fact::Matches(pattern) => {
                patterns.push(pattern.as_str());
                pattern_facts.push(FactIx::new(index));
            }
            _ => {}
        }
    }
    let texts = Texts::new(&phrases, &patterns)
        .map_err(|problem| PolicyError::Text(format!("{}: {}", problem.message, problem.help)))?;
    Ok((texts, phrase_facts, pattern_facts))
}

/// Comparisons of the gauges for which `is` holds.
fn compares_of(
    compares: &Table<CompareIx, Compare>,
    gauges: &Table<GaugeIx, GaugeSlot>,
    is: impl Fn(&GaugeSlot) -> bool,
) -> Vec<CompareIx> {
    let of = |compare: &Compare| is(gauges.at(compare.gauge));
    compares.iter().filter(|(_, compare)| of(compare)).map(|(index, _)| index).collect()
}

fn roots(policy: &Policy, rules: &Table<RuleIx, CompiledRule>) -> [Masks; 5] {
    Action::ALL.map(|action| {
        let of_action =
            policy.rules.iter().zip(rules.rows()).filter(|(rule, _)| rule.action == action);
        Masks::of(of_action.map(|(_, compiled)| compiled.root()))
    })
}
