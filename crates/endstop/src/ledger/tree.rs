//! The books of one tree: nodes in a slab, behind one lock.

use std::sync::{Arc, PoisonError};

use super::amounts::{Amounts, DIMENSIONS, Dimension, Limits, Words};
use super::refused::Refused;
use super::{Budget, BudgetSnapshot};
use crate::sync::{Mutex, MutexGuard};

/// No node: the parent of the root.
const NOWHERE: usize = usize::MAX;

/// One signed number for each dimension.
type Rooms = [i64; DIMENSIONS];

/// The books, shared by all handles of a tree.
#[derive(Debug)]
struct Tree {
    books: Mutex<Books>,
}

/// What a handle points to: a slot of the books, which is free again when the last handle goes.
#[derive(Debug)]
pub(super) struct Node {
    tree: Arc<Tree>,
    slot: usize,
    id: u32,
    parent: Option<Budget>,
}

impl Node {
    pub(super) fn root(limits: Limits) -> Self {
        let mut books = Books::default();
        let (slot, id) = books.open(NOWHERE, limits);
        Self { tree: Arc::new(Tree { books: Mutex::new(books) }), slot, id, parent: None }
    }

    pub(super) fn child(parent: &Budget, limits: Limits) -> Self {
        let (slot, id) = parent.0.books().open(parent.0.slot, limits);
        Self { tree: Arc::clone(&parent.0.tree), slot, id, parent: Some(parent.clone()) }
    }

    /// Locks the tree. Nothing that runs under the lock panics; should it have, the books are still those of
    /// the last word written, and refusing to go on would lose what is settled later.
    pub(super) fn books(&self) -> MutexGuard<'_, Books> {
        self.tree.books.lock().unwrap_or_else(PoisonError::into_inner)
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
        self.books().close(self.slot);
        // One after the other: dropped as a field, a chain of a million parents would overflow the stack.
        let mut next = self.parent.take();
        while let Some(Budget(node)) = next {
            next = Arc::into_inner(node).and_then(|mut node| node.parent.take());
        }
    }
}

/// Amounts to reserve, as the books add them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    words: Rooms,
    asked: Words,
    /// Whether an amount is above `i64::MAX`, which no room holds.
    too_large: bool,
}

impl Ask {
    pub(super) const ZERO: Self =
        Self { words: [0; DIMENSIONS], asked: [0; DIMENSIONS], too_large: false };

    pub(super) fn new(amounts: &Amounts) -> Self {
        let asked = amounts.words();
        let too_large = asked.iter().any(|word| i64::try_from(*word).is_err());
        Self { words: asked.map(capped), asked, too_large }
    }
}

/// What a walk to the root reads and writes: one cache line.
#[derive(Debug)]
#[repr(align(64))]
struct Hot {
    /// Limit - settled - held. Negative is debt, which later releases pay back first.
    room: Rooms,
    parent: usize,
}

/// The rest of a node.
#[derive(Debug)]
struct Cold {
    settled: Words,
    limits: Limits,
    id: u32,
}

/// All nodes of a tree.
#[derive(Debug, Default)]
pub(super) struct Books {
    hot: Vec<Hot>,
    cold: Vec<Cold>,
    free: Vec<usize>,
    next_id: u32,
    /// Where an amount first could not be kept exactly.
    overflow: Option<(u32, Dimension)>,
}

impl Books {
    /// A new node: its slot and its number.
    fn open(&mut self, parent: usize, limits: Limits) -> (usize, u32) {
        let id = self.next_id;
        self.next_id = id.saturating_add(1);
        let hot = Hot { room: caps(&limits), parent };
        let cold = Cold { settled: [0; DIMENSIONS], limits, id };
        let slot = self.free.pop().unwrap_or(self.hot.len());
        match (self.hot.get_mut(slot), self.cold.get_mut(slot)) {
            (Some(old_hot), Some(old_cold)) => (*old_hot, *old_cold) = (hot, cold),
            _ => {
                self.hot.push(hot);
                self.cold.push(cold);
            }
        }
        (slot, id)
    }

    fn close(&mut self, slot: usize) {
        self.free.push(slot);
    }

    pub(super) fn reserve(&mut self, slot: usize, ask: &Ask) -> Result<(), Refused> {
        let mut refusing = None;
        let mut at = slot;
        while let Some(node) = self.hot.get(at) {
            if node.room.iter().zip(&ask.words).any(|(room, asked)| asked > room) {
                refusing = Some(at);
            }
            at = node.parent;
        }
        if refusing.is_some() || ask.too_large || self.overflow.is_some() {
            return Err(self.refusal(slot, refusing, ask));
        }
        let mut at = slot;
        while let Some(node) = self.hot.get_mut(at) {
            for (room, asked) in node.room.iter_mut().zip(&ask.words) {
                *room = room.saturating_sub(*asked);
            }
            at = node.parent;
        }
        Ok(())
    }

    /// Ends a hold, or none, with what was spent.
    pub(super) fn settle(&mut self, slot: usize, held: &Ask, actual: Words) {
        let mut change = held.words;
        for (change, actual) in change.iter_mut().zip(actual) {
            *change = change.saturating_sub(capped(actual));
        }
        let mut at = slot;
        while let (Some(hot), Some(cold)) = (self.hot.get_mut(at), self.cold.get_mut(at)) {
            let parent = hot.parent;
            let mut exact = true;
            for (((room, settled), change), actual) in
                hot.room.iter_mut().zip(&mut cold.settled).zip(&change).zip(&actual)
            {
                exact &= move_word(room, settled, *change, *actual);
            }
            if !exact {
                self.latch(at);
            }
            at = parent;
        }
    }

    /// Makes room again for what was held and not spent.
    pub(super) fn give_back(&mut self, slot: usize, part: &Ask) {
        let mut at = slot;
        while let Some(node) = self.hot.get_mut(at) {
            for (room, part) in node.room.iter_mut().zip(&part.words) {
                *room = room.saturating_add(*part);
            }
            at = node.parent;
        }
    }

    pub(super) fn set_limits(&mut self, slot: usize, limits: Limits) {
        let (Some(hot), Some(cold)) = (self.hot.get_mut(slot), self.cold.get_mut(slot)) else {
            return;
        };
        let mut exact = true;
        let caps = caps(&limits).into_iter().zip(caps(&cold.limits));
        for ((room, settled), (new, old)) in hot.room.iter_mut().zip(&mut cold.settled).zip(caps) {
            exact &= move_word(room, settled, new.saturating_sub(old), 0);
        }
        cold.limits = limits;
        if !exact {
            self.latch(slot);
        }
    }

    pub(super) fn room(&self, slot: usize) -> Limits {
        let mut least = [None; DIMENSIONS];
        let mut at = slot;
        while let (Some(hot), Some(cold)) = (self.hot.get(at), self.cold.get(at)) {
            for ((least, room), limit) in least.iter_mut().zip(&hot.room).zip(cold.limits.words()) {
                let room = u64::try_from(*room).unwrap_or(0);
                if limit.is_some() {
                    *least = Some(least.map_or(room, |least: u64| least.min(room)));
                }
            }
            at = hot.parent;
        }
        if self.is_overflowed() {
            Limits::from_words([Some(0); DIMENSIONS])
        } else {
            Limits::from_words(least)
        }
    }

    pub(super) fn snapshot(&self, slot: usize, id: u32) -> BudgetSnapshot {
        let (Some(hot), Some(cold)) = (self.hot.get(slot), self.cold.get(slot)) else {
            let (limits, nothing) = (Limits::unlimited(), Amounts::ZERO);
            return BudgetSnapshot { budget: id, limits, settled: nothing, held: nothing };
        };
        BudgetSnapshot {
            budget: id,
            limits: cold.limits,
            settled: Amounts::from_words(cold.settled),
            held: Amounts::from_words(held(hot, cold)),
        }
    }

    pub(super) const fn is_overflowed(&self) -> bool {
        self.overflow.is_some()
    }

    /// Remembers that an amount of the node could not be kept exactly: which one reads `u64::MAX`.
    #[cold]
    fn latch(&mut self, slot: usize) {
        let Some(cold) = self.cold.get(slot) else { return };
        let dimensions = Dimension::ALL.into_iter().zip(cold.settled);
        let first =
            dimensions.filter(|(_, settled)| *settled == u64::MAX).map(|(name, _)| name).next();
        self.overflow = self.overflow.or(first.map(|dimension| (cold.id, dimension)));
    }

    /// What to say where the walk found that the node at `refusing` has too little room.
    #[cold]
    fn refusal(&self, slot: usize, refusing: Option<usize>, ask: &Ask) -> Refused {
        let asked = |dimension| Amounts::from_words(ask.asked).get(dimension);
        if let Some((budget, dimension)) = self.overflow {
            let (limit, settled, asked) = (u64::MAX, u64::MAX, asked(dimension));
            return Refused { budget, dimension, limit, settled, held: 0, asked };
        }
        let outermost = if ask.too_large { None } else { refusing };
        let outermost = outermost.unwrap_or_else(|| self.root_of(slot));
        let BudgetSnapshot { limits, settled, held, .. } = self.snapshot(outermost, 0);
        let rooms = self.hot.get(outermost).map_or([0; DIMENSIONS], |node| node.room);
        let dimension = Dimension::ALL
            .into_iter()
            .zip(rooms)
            .find(|(dimension, room)| i128::from(asked(*dimension)) > i128::from(*room))
            .map_or(Dimension::Steps, |(dimension, _)| dimension);
        Refused {
            budget: self.cold.get(outermost).map_or(0, |node| node.id),
            dimension,
            limit: limits.get(dimension).unwrap_or(u64::MAX),
            settled: settled.get(dimension),
            held: held.get(dimension),
            asked: asked(dimension),
        }
    }

    fn root_of(&self, slot: usize) -> usize {
        let mut at = slot;
        while let Some(parent) =
            self.hot.get(at).map(|node| node.parent).filter(|at| *at != NOWHERE)
        {
            at = parent;
        }
        at
    }
}

/// Adds to a room and to what was settled; where that is not exact, both stay at their end, and it says so.
#[inline]
fn move_word(room: &mut i64, settled: &mut u64, change: i64, actual: u64) -> bool {
    let (left, past) = room.overflowing_add(change);
    let (spent, over) = settled.overflowing_add(actual);
    if past || over || i64::try_from(actual).is_err() {
        (*room, *settled) = (i64::MIN, u64::MAX);
        return false;
    }
    (*room, *settled) = (left, spent);
    true
}

/// The room of each dimension while nothing is committed.
fn caps(limits: &Limits) -> Rooms {
    limits.words().map(|limit| limit.map_or(i64::MAX, capped))
}

fn capped(word: u64) -> i64 {
    i64::try_from(word).unwrap_or(i64::MAX)
}

fn held(hot: &Hot, cold: &Cold) -> Words {
    let mut words = [0; DIMENSIONS];
    let rooms = caps(&cold.limits).into_iter().zip(hot.room).zip(cold.settled);
    for (word, ((cap, room), settled)) in words.iter_mut().zip(rooms) {
        let free = i128::from(cap).saturating_sub(i128::from(room));
        *word = u64::try_from(free.saturating_sub(i128::from(settled))).unwrap_or(0);
    }
    words
}
