//! The ledger against a model in big integers: every sequence of calls gives the books of the model.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests")]

use std::collections::BTreeMap;

use endstop_core::units::Money;
use endstop_runtime::ledger::{Amounts, Budget, Dimension, Hold, Limits, OnDrop};
use proptest::prelude::*;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};

const SIZE: usize = 5;
/// No room is larger.
const MOST: u128 = i64::MAX as u128;

type Numbers = [u64; SIZE];

fn amounts([steps, attempts, tool_calls, tokens, picos]: Numbers) -> Amounts {
    Amounts { steps, attempts, tool_calls, tokens, cost: Money::from_picos(picos) }
}

fn limits([steps, attempts, tool_calls, tokens, picos]: [Option<u64>; SIZE]) -> Limits {
    Limits { steps, attempts, tool_calls, tokens, cost: picos.map(Money::from_picos) }
}

fn numbers(amounts: &Amounts) -> Numbers {
    Dimension::ALL.map(|dimension| amounts.get(dimension))
}

/// An operation. Nodes and holds are named by any number, modulo how many there are.
#[derive(Clone, Debug)]
enum Call {
    Child(usize, [Option<u64>; SIZE]),
    Forget(usize),
    Reserve(usize, Numbers),
    Settle(usize, Numbers),
    Release(usize),
    Drop(usize, bool),
    Shrink(usize, Numbers),
    Charge(usize, Numbers),
    SetLimits(usize, [Option<u64>; SIZE]),
}

#[derive(Clone, Debug)]
struct ModelNode {
    parent: Option<u32>,
    limits: [Option<u64>; SIZE],
    settled: [u128; SIZE],
    held: [u128; SIZE],
    /// Sum of what each call here and below spent above its hold, or without one.
    excess: [u128; SIZE],
    /// Committed was above a limit because the limit was lowered.
    lowered: bool,
}

/// Who refused, and in which dimension.
type Refusal = (u32, Dimension);

#[derive(Clone, Debug, Default)]
struct Model {
    nodes: BTreeMap<u32, ModelNode>,
    /// Nodes with a handle.
    named: Vec<u32>,
    holds: Vec<(u32, Numbers)>,
    opened: u32,
    last: Option<Result<(), Refusal>>,
    /// Something passed what a signed word counts; the ledger may have latched.
    huge: bool,
    /// The last call had something to act on.
    done: bool,
}

impl Model {
    /// Whether there is something for the call to act on; the root keeps its handle.
    fn allows(&self, call: &Call) -> bool {
        match call {
            Call::Forget(at) => at % self.named.len() != 0,
            Call::Settle(..) | Call::Release(_) | Call::Drop(..) | Call::Shrink(..) => {
                !self.holds.is_empty()
            }
            _ => true,
        }
    }

    fn path(&self, from: u32) -> Vec<u32> {
        std::iter::successors(Some(from), |node| self.nodes[node].parent).collect()
    }

    fn open(&mut self, parent: Option<u32>, limits: [Option<u64>; SIZE]) {
        let (settled, held, excess) = ([0; SIZE], [0; SIZE], [0; SIZE]);
        let node = ModelNode { parent, limits, settled, held, excess, lowered: false };
        self.nodes.insert(self.opened, node);
        self.named.push(self.opened);
        self.opened += 1;
    }

    fn refusal(&self, at: u32, asked: &Numbers) -> Option<Refusal> {
        self.path(at).into_iter().rev().find_map(|id| {
            let node = &self.nodes[&id];
            let full = (0..SIZE).find(|&i| {
                let limit = node.limits[i].map_or(MOST, |limit| u128::from(limit).min(MOST));
                node.settled[i] + node.held[i] + u128::from(asked[i]) > limit
            });
            full.map(|i| (id, Dimension::ALL[i]))
        })
    }

    fn add(&mut self, at: u32, held: &Numbers, sign: bool) {
        for id in self.path(at) {
            let node = self.nodes.get_mut(&id).unwrap();
            for (all, part) in node.held.iter_mut().zip(held.map(u128::from)) {
                *all = if sign { *all + part } else { *all - part };
            }
        }
    }

    fn end(&mut self, at: u32, held: &Numbers, actual: &Numbers) {
        self.add(at, held, false);
        self.huge |= actual.iter().any(|&word| u128::from(word) > MOST);
        for id in self.path(at) {
            let node = self.nodes.get_mut(&id).unwrap();
            for i in 0..SIZE {
                node.settled[i] += u128::from(actual[i]);
                node.excess[i] += u128::from(actual[i].saturating_sub(held[i]));
            }
        }
    }

    fn look(&mut self) {
        self.huge |= self
            .nodes
            .values()
            .any(|node| (0..SIZE).any(|i| node.settled[i] + node.held[i] > MOST));
    }
}

fn small() -> impl Strategy<Value = u64> {
    prop_oneof![200 => 0..6u64, 1 => any::<u64>()]
}

fn limit() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![3 => (0..20u64).prop_map(Some), 2 => Just(None), 1 => any::<u64>().prop_map(Some)]
}

fn some_numbers() -> impl Strategy<Value = Numbers> {
    proptest::array::uniform5(small())
}

fn some_limits() -> impl Strategy<Value = [Option<u64>; SIZE]> {
    proptest::array::uniform5(limit())
}

struct Books;

impl ReferenceStateMachine for Books {
    type State = Model;
    type Transition = Call;

    fn init_state() -> BoxedStrategy<Model> {
        some_limits()
            .prop_map(|limits| {
                let mut model = Model::default();
                model.open(None, limits);
                model
            })
            .boxed()
    }

    fn transitions(model: &Model) -> BoxedStrategy<Call> {
        let which = || 0..64usize;
        let of_nodes = prop_oneof![
            2 => (which(), some_limits()).prop_map(|(at, limits)| Call::Child(at, limits)),
            1 => which().prop_map(Call::Forget),
            6 => (which(), some_numbers()).prop_map(|(at, asked)| Call::Reserve(at, asked)),
            1 => (which(), some_numbers()).prop_map(|(at, spent)| Call::Charge(at, spent)),
            1 => (which(), some_limits()).prop_map(|(at, limits)| Call::SetLimits(at, limits)),
        ];
        if model.holds.is_empty() {
            return of_nodes.boxed();
        }
        let of_holds = prop_oneof![
            4 => (which(), some_numbers()).prop_map(|(at, actual)| Call::Settle(at, actual)),
            1 => which().prop_map(Call::Release),
            1 => (which(), any::<bool>()).prop_map(|(at, charge)| Call::Drop(at, charge)),
            1 => (which(), some_numbers()).prop_map(|(at, to)| Call::Shrink(at, to)),
        ];
        prop_oneof![11 => of_nodes, 7 => of_holds].boxed()
    }

    fn apply(mut model: Model, call: &Call) -> Model {
        model.last = None;
        model.done = model.allows(call);
        if !model.done {
            return model;
        }
        let named = |model: &Model, at: &usize| model.named[at % model.named.len()];
        match call {
            Call::Child(at, limits) => model.open(Some(named(&model, at)), *limits),
            Call::Forget(at) => {
                model.named.remove(at % model.named.len());
            }
            Call::Reserve(at, asked) => {
                let at = named(&model, at);
                let refusal = model.refusal(at, asked);
                if refusal.is_none() {
                    model.add(at, asked, true);
                    model.holds.push((at, *asked));
                }
                model.last = Some(refusal.map_or(Ok(()), Err));
            }
            Call::Charge(at, spent) => model.end(named(&model, at), &[0; SIZE], spent),
            Call::SetLimits(at, limits) => {
                let at = named(&model, at);
                let node = model.nodes.get_mut(&at).unwrap();
                (node.limits, node.lowered) = (*limits, true);
            }
            Call::Shrink(at, to) => {
                let at = at % model.holds.len();
                let (node, held) = model.holds[at];
                let kept: Numbers = std::array::from_fn(|i| held[i].min(to[i]));
                let freed: Numbers = std::array::from_fn(|i| held[i] - kept[i]);
                model.add(node, &freed, false);
                model.holds[at].1 = kept;
            }
            Call::Settle(at, _) | Call::Release(at) | Call::Drop(at, _) => {
                let (node, held) = model.holds.remove(at % model.holds.len());
                let actual = match call {
                    Call::Settle(_, actual) => *actual,
                    Call::Drop(_, true) => held,
                    _ => [0; SIZE],
                };
                model.end(node, &held, &actual);
            }
        }
        model.look();
        model
    }
}

struct Ledger {
    named: Vec<Budget>,
    holds: Vec<Hold>,
}

impl Ledger {
    fn end(&mut self, at: usize) -> Hold {
        self.holds.remove(at % self.holds.len())
    }

    fn named(&self, at: usize) -> &Budget {
        &self.named[at % self.named.len()]
    }

    /// Where the two part: an admitted hold that the model refused, or the reverse.
    fn reserve(&mut self, at: usize, asked: Numbers, model: &Model) {
        let budget = self.named(at).clone();
        let answer = budget.reserve(amounts(asked));
        if budget.is_overflowed() {
            assert_eq!(answer.unwrap_err().settled, u64::MAX);
            return;
        }
        let expected = model.last.unwrap();
        match answer {
            Ok(hold) => {
                assert_eq!(expected, Ok(()));
                self.holds.push(hold);
            }
            Err(refused) => {
                assert_eq!(expected, Err((refused.budget, refused.dimension)));
                let node = &model.nodes[&refused.budget];
                let i = Dimension::ALL.iter().position(|one| *one == refused.dimension).unwrap();
                assert_eq!(refused.asked, asked[i]);
                assert_eq!(refused.limit, node.limits[i].unwrap_or(u64::MAX));
                assert_eq!(u128::from(refused.settled), node.settled[i]);
                assert_eq!(u128::from(refused.held), node.held[i]);
            }
        }
    }
}

impl StateMachineTest for Books {
    type SystemUnderTest = Ledger;
    type Reference = Self;

    fn init_test(model: &Model) -> Ledger {
        Ledger { named: vec![Budget::root(limits(model.nodes[&0].limits))], holds: Vec::new() }
    }

    fn apply(mut ledger: Ledger, model: &Model, call: Call) -> Ledger {
        if ledger.named[0].is_overflowed() {
            // The model keeps admitting; the invariants are checked below.
            ledger.named[0].reserve(Amounts::ZERO).unwrap_err();
            return ledger;
        }
        if !model.done {
            return ledger;
        }
        match call {
            Call::Child(at, to) => {
                let child = ledger.named(at).child(limits(to));
                ledger.named.push(child);
            }
            Call::Forget(at) => {
                let at = at % ledger.named.len();
                ledger.named.remove(at);
            }
            Call::Reserve(at, asked) => ledger.reserve(at, asked, model),
            Call::Settle(at, actual) => ledger.end(at).settle(amounts(actual)),
            Call::Release(at) => ledger.end(at).release(),
            Call::Drop(at, true) => drop(ledger.end(at)),
            Call::Drop(at, false) => drop(ledger.end(at).on_drop(OnDrop::Release)),
            Call::Shrink(at, to) => {
                let at = at % ledger.holds.len();
                ledger.holds[at].shrink(amounts(to));
            }
            Call::Charge(at, spent) => ledger.named(at).charge(amounts(spent)),
            Call::SetLimits(at, to) => ledger.named(at).set_limits(limits(to)),
        }
        ledger
    }

    fn check_invariants(ledger: &Ledger, model: &Model) {
        if ledger.named[0].is_overflowed() {
            assert!(model.huge, "latched for an amount that can be counted");
            return;
        }
        for budget in &ledger.named {
            let node = &model.nodes[&budget.id()];
            let reading = budget.snapshot();
            assert_eq!(numbers(&reading.settled).map(u128::from), node.settled);
            assert_eq!(numbers(&reading.held).map(u128::from), node.held);
            assert_eq!(
                (reading.limits, budget.parent().map(|above| above.id())),
                (limits(node.limits), node.parent)
            );
            assert_bounded(budget, node);
            assert_room(budget, model);
        }
    }
}

/// Committed stays within the limit except for spend above holds, unless the limit was lowered.
fn assert_bounded(budget: &Budget, node: &ModelNode) {
    let over = numbers(&budget.overshoot()).map(u128::from);
    for (i, limit) in node.limits.iter().enumerate() {
        let Some(limit) = limit.map(u128::from) else { continue };
        assert_eq!(over[i], node.settled[i].saturating_sub(limit));
        if !node.lowered {
            assert!(node.settled[i] + node.held[i] <= limit + node.excess[i]);
        }
    }
}

/// The room is what the tightest node on the way to the root has left.
fn assert_room(budget: &Budget, model: &Model) {
    let path = model.path(budget.id());
    for (i, dimension) in Dimension::ALL.into_iter().enumerate() {
        let left = path.iter().filter_map(|id| {
            let node = &model.nodes[id];
            let limit = u128::from(node.limits[i]?).min(MOST);
            Some(limit.saturating_sub(node.settled[i] + node.held[i]))
        });
        assert_eq!(budget.room().get(dimension).map(u128::from), left.min());
    }
}

prop_state_machine! {
    #[test]
    fn every_sequence_of_calls_keeps_the_books_of_the_model(sequential 1..60 => Books);
}
