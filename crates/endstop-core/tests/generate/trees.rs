//! All boolean trees of up to four leaves, and all assignments of their leaves.

use endstop_core::condition::{CompareOp, Comparison, Fact, Gauge, GaugeId};
use endstop_core::units::Millis;
use endstop_core::{Condition, Event, EventKind};

/// Most leaves of a tree.
pub(crate) const MAX_LEAVES: usize = 4;
const NAMES: [&str; MAX_LEAVES] = ["a", "b", "c", "d"];

/// A boolean tree over numbered leaves; never a negation right below a negation.
#[derive(Clone, Debug)]
pub(crate) enum Tree {
    Leaf(usize),
    Not(Box<Tree>),
    And(Box<Tree>, Box<Tree>),
    Or(Box<Tree>, Box<Tree>),
}

/// Every tree whose leaves carry these labels, from left to right.
pub(crate) fn trees(labels: &[usize]) -> Vec<Tree> {
    let mut plain = Vec::new();
    if let [label] = labels {
        plain.push(Tree::Leaf(*label));
    }
    for cut in 1..labels.len() {
        let (left, right) = labels.split_at(cut);
        let rights = trees(right);
        for left in trees(left) {
            for right in &rights {
                let sides = || (Box::new(left.clone()), Box::new(right.clone()));
                let (a, b) = sides();
                plain.push(Tree::And(a, b));
                let (a, b) = sides();
                plain.push(Tree::Or(a, b));
            }
        }
    }
    let negated: Vec<Tree> = plain.iter().cloned().map(|t| Tree::Not(Box::new(t))).collect();
    plain.extend(negated);
    plain
}

/// Every way to give `leaves` leaves labels, up to their names: `[0, 0]`, `[0, 1]` for two.
pub(crate) fn labellings(leaves: usize) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in 0..leaves {
        all = all
            .into_iter()
            .flat_map(|labels| {
                let next = labels.iter().max().map_or(0, |max| max + 1);
                (0..=next).map(move |label| {
                    let mut longer = labels.clone();
                    longer.push(label);
                    longer
                })
            })
            .collect();
    }
    all
}

/// Every assignment of `labels` labels from these values.
pub(crate) fn assignments<T: Copy>(labels: usize, values: &[T]) -> Vec<Vec<T>> {
    let mut all = vec![Vec::new()];
    for _ in 0..labels {
        all = all
            .into_iter()
            .flat_map(|assignment: Vec<T>| {
                values.iter().map(move |value| [assignment.as_slice(), &[*value]].concat())
            })
            .collect();
    }
    all
}

/// The tree as a condition, nested as it is.
pub(crate) fn condition(tree: &Tree, leaf: fn(usize) -> Condition) -> Condition {
    match tree {
        Tree::Leaf(label) => leaf(*label),
        Tree::Not(inner) => !condition(inner, leaf),
        Tree::And(a, b) => Condition::And(vec![condition(a, leaf), condition(b, leaf)]),
        Tree::Or(a, b) => Condition::Or(vec![condition(a, leaf), condition(b, leaf)]),
    }
}

/// A leaf that is true or false: a signal from outside.
pub(crate) fn signal_leaf(label: usize) -> Condition {
    Condition::Fact(Fact::Signal(NAMES[label].to_string()))
}

/// A leaf that may be unknown too: a number that is reported or not.
pub(crate) fn reported_leaf(label: usize) -> Condition {
    let gauge = Gauge { argument: Some(NAMES[label].to_string()), ..Gauge::of(GaugeId::Fact) };
    Condition::Compare(Comparison { gauge, op: CompareOp::Ge, value: 1 })
}

/// The log that makes the signals so; its last event is the one to judge.
pub(crate) fn signal_log(assignment: &[bool]) -> Vec<Event<'static>> {
    let set = assignment.iter().zip(NAMES).filter(|(is_set, _)| **is_set);
    judged(set.map(|(_, name)| EventKind::Signal { name, by: "", why: "" }).collect())
}

/// The log that makes the reported numbers so, `None` being unknown; its last event is the one to judge.
pub(crate) fn reported_log(assignment: &[Option<bool>]) -> Vec<Event<'static>> {
    let reported = assignment.iter().zip(NAMES).filter_map(|(value, name)| {
        value.map(|value| EventKind::Fact { name, value: u64::from(value) })
    });
    judged(reported.collect())
}

fn judged(kinds: Vec<EventKind<'static>>) -> Vec<Event<'static>> {
    let begin = EventKind::RunBegin { agent: None, depth: 0 };
    let kinds = [begin].into_iter().chain(kinds).chain([EventKind::Tick]);
    kinds.map(|kind| Event::new(Millis(0), kind)).collect()
}
