//! One tree of budgets: nodes in a slab, behind one lock.

use std::sync::{Arc, PoisonError};

use super::amounts::{Amounts, DIMENSIONS, Dimension, Limits, Words};
use super::refused::Refused;
use super::{Budget, BudgetSnapshot};
use crate::sync::{Mutex, MutexGuard};

/// No node: the parent of the root.
const NOWHERE: usize = usize::MAX;

/// Below these, neither a room nor a sum can overflow by one settlement: 2^61 + 2^61 < 2^63.
const EASY_DEBT: i64 = 1 << 61;
const EASY_AMOUNT: u64 = 1 << 61;

/// One signed number for each dimension.
type Rooms = [i64; DIMENSIONS];

/// A tree, shared by all its handles.
#[derive(Debug)]
struct SharedTree {
    nodes: Mutex<BudgetTree>,
}

/// The target of a handle: a slot of the tree, which is free again when the last handle is dropped.
#[derive(Debug)]
pub(super) struct Node {
    tree: Arc<SharedTree>,
    slot: usize,
    id: u32,
    parent: Option<Budget>,
}

impl Node {
    pub(super) fn root(limits: Limits) -> Self {
        let mut nodes = BudgetTree::default();
        let (slot, id) = nodes.open(NOWHERE, limits);
        Self { tree: Arc::new(SharedTree { nodes: Mutex::new(nodes) }), slot, id, parent: None }
    }

    pub(super) fn child(parent: &Budget, limits: Limits) -> Self {
        let (slot, id) = parent.0.locked().open(parent.0.slot, limits);
        Self { tree: Arc::clone(&parent.0.tree), slot, id, parent: Some(parent.clone()) }
    }

    /// Locks the tree. Nothing that runs under the lock panics. If it did, the numbers would still be those of the
    /// last write, and an error here would lose later settlements.
    pub(super) fn locked(&self) -> MutexGuard<'_, BudgetTree> {
        self.tree.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) const fn slot(&self) -> usize {
        self.slot
    }

    pub(super) const fn id(&self) -> u32 {
        self.id
    }

    pub(super) const fn parent(&self) -> Option<&Budget> {
        self.parent.as_ref()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.locked().close(self.slot);
        // One after the other: dropped as a field, a chain of a million parents would overflow the stack.
        let mut next = self.parent.take();
        while let Some(Budget(node)) = next {
            next = Arc::into_inner(node).and_then(|mut node| node.parent.take());
        }
    }
}

/// The amounts of one node. A walk to the root for a reservation reads the first cache line alone.
#[derive(Debug)]
#[repr(C, align(64))]
struct Entry {
    /// Limit - settled - held. Negative is debt, which later releases pay back first.
    room: Rooms,
    parent: usize,
    settled: Words,
    id: u32,
    limits: Limits,
}

impl Entry {
    /// Exact: the part was taken from this room before, and what came between only took more, or gave back
    /// what it had taken.
    #[inline]
    fn give_back(&mut self, part: &Words) {
        for (room, part) in self.room.iter_mut().zip(part) {
            *room = room.wrapping_add_unsigned(*part);
        }
    }

    /// Takes from the room and adds to the settled amounts. Returns whether that was exact.
    #[inline]
    fn spend(&mut self, actual: &Words) -> bool {
        let words = self.room.iter().zip(&self.settled).zip(actual);
        let easy = words.fold(true, |easy, ((room, settled), actual)| {
            easy & (*room > -EASY_DEBT) & ((*settled | *actual) < EASY_AMOUNT)
        });
        if !easy {
            return self.spend_carefully(actual);
        }
        for ((room, settled), actual) in self.room.iter_mut().zip(&mut self.settled).zip(actual) {
            *room = room.wrapping_sub_unsigned(*actual);
            *settled = settled.wrapping_add(*actual);
        }
        true
    }

    #[cold]
    fn spend_carefully(&mut self, actual: &Words) -> bool {
        let mut exact = true;
        for ((room, settled), actual) in self.room.iter_mut().zip(&mut self.settled).zip(actual) {
            exact &= spend(room, settled, *actual);
        }
        exact
    }
}

/// All nodes of a tree.
#[derive(Debug, Default)]
pub(super) struct BudgetTree {
    entries: Vec<Entry>,
    free: Vec<usize>,
    next_id: u32,
    /// Where an amount first could not be kept exactly.
    overflow: Option<(u32, Dimension)>,
}

impl BudgetTree {
    /// A new node: its slot and its number.
    fn open(&mut self, parent: usize, limits: Limits) -> (usize, u32) {
        let id = self.next_id;
        self.next_id = id.saturating_add(1);
        let entry = Entry { room: caps(&limits), parent, settled: [0; DIMENSIONS], id, limits };
        let slot = self.free.pop().unwrap_or(self.entries.len());
        match self.entries.get_mut(slot) {
            Some(old) => *old = entry,
            None => self.entries.push(entry),
        }
        (slot, id)
    }

    fn close(&mut self, slot: usize) {
        self.free.push(slot);
    }

    /// The node of a walk to the root: `None` above the root, and only there. A walk that ended at a missing node would
    /// take the budgets above it for unlimited.
    #[inline]
    fn above(&self, at: usize) -> Option<&Entry> {
        let node = self.entries.get(at);
        if node.is_none() {
            check_end(at);
        }
        node
    }

    #[inline]
    fn above_mut(&mut self, at: usize) -> Option<&mut Entry> {
        let node = self.entries.get_mut(at);
        if node.is_none() {
            check_end(at);
        }
        node
    }

    /// The node of a handle.
    fn node(&self, slot: usize) -> &Entry {
        self.entries.get(slot).unwrap_or_else(|| missing(slot))
    }

    fn node_mut(&mut self, slot: usize) -> &mut Entry {
        self.entries.get_mut(slot).unwrap_or_else(|| missing(slot))
    }

    /// Whether so much could be reserved now. If not `ALL`, a dimension of which nothing is asked may be in debt.
    #[inline]
    pub(super) fn check<const ALL: bool>(&self, slot: usize, asked: &Words) -> Result<(), Refused> {
        let mut refusing = None;
        let mut at = slot;
        while let Some(node) = self.above(at) {
            // Not `all`: five comparisons without a branch are faster than one branch each.
            let pairs = node.room.iter().zip(asked);
            if !pairs.fold(true, |fit, (room, asked)| fit & fits::<ALL>(*asked, *room)) {
                refusing = Some(at);
            }
            at = node.parent;
        }
        if refusing.is_some() || self.overflow.is_some() {
            return Err(self.refusal::<ALL>(refusing.unwrap_or(slot), asked));
        }
        Ok(())
    }

    /// Reserves what [`check`](Self::check) admits.
    pub(super) fn reserve<const ALL: bool>(
        &mut self,
        slot: usize,
        asked: &Words,
    ) -> Result<(), Refused> {
        self.check::<ALL>(slot, asked)?;
        let mut at = slot;
        while let Some(node) = self.above_mut(at) {
            for (room, asked) in node.room.iter_mut().zip(asked) {
                // Exact, because it fits or is nothing.
                *room = room.wrapping_sub_unsigned(*asked);
            }
            at = node.parent;
        }
        Ok(())
    }

    /// Ends a hold, or none, with its actual spend.
    pub(super) fn settle(&mut self, slot: usize, held: &Words, actual: &Words) {
        let mut at = slot;
        while let Some(node) = self.above_mut(at) {
            let parent = node.parent;
            node.give_back(held);
            if !node.spend(actual) {
                self.latch(at);
            }
            at = parent;
        }
    }

    /// Settles at one node alone.
    pub(super) fn bring_in(&mut self, slot: usize, before: &Words) {
        if !self.node_mut(slot).spend(before) {
            self.latch(slot);
        }
    }

    /// Makes room again for the part of a hold that was not spent.
    pub(super) fn give_back(&mut self, slot: usize, part: &Words) {
        let mut at = slot;
        while let Some(node) = self.above_mut(at) {
            node.give_back(part);
            at = node.parent;
        }
    }

    pub(super) fn set_limits(&mut self, slot: usize, limits: Limits) {
        let node = self.node_mut(slot);
        let mut exact = true;
        let changed = caps(&limits).into_iter().zip(caps(&node.limits));
        for ((room, settled), (new, old)) in
            node.room.iter_mut().zip(&mut node.settled).zip(changed)
        {
            // Both caps are from 0 on, so their difference is exact.
            match room.checked_add(new.saturating_sub(old)) {
                Some(left) => *room = left,
                None => {
                    (*room, *settled) = (i64::MIN, u64::MAX);
                    exact = false;
                }
            }
        }
        node.limits = limits;
        if !exact {
            self.latch(slot);
        }
    }

    pub(super) fn room(&self, slot: usize) -> Limits {
        let mut least = [None; DIMENSIONS];
        let mut at = slot;
        while let Some(node) = self.above(at) {
            for ((least, room), limit) in least.iter_mut().zip(&node.room).zip(node.limits.words())
            {
                let room = u64::try_from(*room).unwrap_or(0);
                if limit.is_some() {
                    *least = Some(least.map_or(room, |least: u64| least.min(room)));
                }
            }
            at = node.parent;
        }
        if self.is_overflowed() {
            Limits::from_words([Some(0); DIMENSIONS])
        } else {
            Limits::from_words(least)
        }
    }

    /// Whether there is a room of tokens or money.
    pub(super) fn limits_usage(&self, slot: usize) -> bool {
        let mut at = slot;
        while let Some(node) = self.above(at) {
            if node.limits.tokens.is_some() || node.limits.cost.is_some() {
                return true;
            }
            at = node.parent;
        }
        self.is_overflowed()
    }

    pub(super) fn snapshot(&self, slot: usize, id: u32) -> BudgetSnapshot {
        let node = self.node(slot);
        BudgetSnapshot {
            budget: id,
            limits: node.limits,
            settled: Amounts::from_words(node.settled),
            held: Amounts::from_words(held(node)),
        }
    }

    /// The holds at the root above a node, and so anywhere in the tree.
    pub(super) fn held_at_root(&self, slot: usize) -> Amounts {
        Amounts::from_words(held(self.root_of(slot)))
    }

    /// The attempts that are held and settled at the root above a node.
    pub(super) fn attempts_at_root(&self, slot: usize) -> (u64, u64) {
        let root = self.root_of(slot);
        let of = |words: Words| Amounts::from_words(words).attempts;
        (of(held(root)), of(root.settled))
    }

    fn root_of(&self, slot: usize) -> &Entry {
        let mut root = self.node(slot);
        while let Some(above) = self.above(root.parent) {
            root = above;
        }
        root
    }

    pub(super) const fn is_overflowed(&self) -> bool {
        self.overflow.is_some()
    }

    /// Remembers that an amount of the node could not be kept exactly: which one reads `u64::MAX`.
    #[cold]
    fn latch(&mut self, slot: usize) {
        let node = self.node(slot);
        let mut dimensions = Dimension::ALL.into_iter().zip(node.settled);
        let first = dimensions.find(|(_, settled)| *settled == u64::MAX);
        let first = first.map(|(dimension, _)| (node.id, dimension));
        self.overflow = self.overflow.or(first);
    }

    /// What to say where the walk found that the node at `refusing` has too little room.
    #[cold]
    fn refusal<const ALL: bool>(&self, refusing: usize, asked: &Words) -> Refused {
        let asked = Amounts::from_words(*asked);
        if let Some((budget, dimension)) = self.overflow {
            let (limit, settled, asked) = (u64::MAX, u64::MAX, asked.get(dimension));
            return Refused { budget, dimension, limit, settled, held: 0, asked };
        }
        let node = self.node(refusing);
        let mut dimensions = Dimension::ALL.into_iter().zip(node.room);
        let full = dimensions.find(|(dimension, room)| !fits::<ALL>(asked.get(*dimension), *room));
        let Some((dimension, _)) = full else {
            unreachable!("node {} refuses, so it has too little of something", node.id)
        };
        let reading = self.snapshot(refusing, node.id);
        Refused {
            budget: reading.budget,
            dimension,
            limit: reading.limits.get(dimension).unwrap_or(u64::MAX),
            settled: reading.settled.get(dimension),
            held: reading.held.get(dimension),
            asked: asked.get(dimension),
        }
    }
}

/// Checks that a walk ended above the root.
#[cold]
fn check_end(at: usize) {
    if at != NOWHERE {
        missing(at)
    }
}

#[cold]
fn missing(slot: usize) -> ! {
    unreachable!("a handle keeps its node and the parents of it: no node in slot {slot}")
}

/// Whether there is room. In debt there is none; if `ALL`, not even for nothing.
#[inline]
fn fits<const ALL: bool>(asked: u64, room: i64) -> bool {
    (room >= 0) & (asked <= room.cast_unsigned()) | (!ALL & (asked == 0))
}

/// Takes from a room and adds to the settled amounts. Returns `false` if that is not exact; both then stay at their
/// end.
fn spend(room: &mut i64, settled: &mut u64, actual: u64) -> bool {
    let spent = settled.saturating_add(actual);
    match room.checked_sub_unsigned(actual) {
        Some(left) if spent < u64::MAX => {
            (*room, *settled) = (left, spent);
            true
        }
        _ => {
            (*room, *settled) = (i64::MIN, u64::MAX);
            false
        }
    }
}

/// The room of each dimension while nothing is committed.
fn caps(limits: &Limits) -> Rooms {
    limits
        .words()
        .map(|limit| limit.map_or(i64::MAX, |limit| i64::try_from(limit).unwrap_or(i64::MAX)))
}

fn held(node: &Entry) -> Words {
    let mut words = [0; DIMENSIONS];
    let rooms = caps(&node.limits).into_iter().zip(node.room).zip(node.settled);
    for (word, ((cap, room), settled)) in words.iter_mut().zip(rooms) {
        let free = i128::from(cap).saturating_sub(i128::from(room));
        *word = u64::try_from(free.saturating_sub(i128::from(settled))).unwrap_or(0);
    }
    words
}

#[cfg(test)]
mod tests;
