//! The tree behind the tokens: all nodes of one tree under one short lock, plus an atomic per node for readers that
//! only check whether it is cancelled. The invariants are those of [`super`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;
use std::task::Waker;

use endstop_core::signal::StopSignal;

use super::Urgency;
use crate::limits::MAX_CANCELLATIONS;
use crate::sync::atomic::{AtomicU8, Ordering};
use crate::sync::{Arc, Mutex, MutexGuard};

const NOT_CANCELLED: u8 = 0;
const GRACEFUL: u8 = 1;
const NOW: u8 = 2;

/// An urgency that is read without the lock and written under it.
struct Level(AtomicU8);

impl Level {
    fn new(urgency: Option<Urgency>) -> Self {
        Self(AtomicU8::new(match urgency {
            None => NOT_CANCELLED,
            Some(Urgency::Graceful) => GRACEFUL,
            Some(Urgency::Now) => NOW,
        }))
    }

    fn get(&self) -> Option<Urgency> {
        // Acquire, so that a reader that sees the urgency also sees the writes before it.
        match self.0.load(Ordering::Acquire) {
            NOT_CANCELLED => None,
            GRACEFUL => Some(Urgency::Graceful),
            _ => Some(Urgency::Now),
        }
    }

    fn set(&self, urgency: Urgency) {
        let level = match urgency {
            Urgency::Graceful => GRACEFUL,
            Urgency::Now => NOW,
        };
        self.0.store(level, Ordering::Release);
    }
}

struct Waiter {
    least: Urgency,
    waker: Waker,
}

struct TokenNode {
    parent: Option<u64>,
    children: BTreeSet<u64>,
    level: Arc<Level>,
    /// In order of arrival.
    signals: Vec<std::sync::Arc<StopSignal>>,
    waiters: BTreeMap<u64, Waiter>,
}

/// All nodes of one tree. Keys are never used twice, so a stale one finds nothing.
#[derive(Default)]
struct Nodes {
    by_id: BTreeMap<u64, TokenNode>,
    last_key: u64,
}

impl Nodes {
    const fn next_key(&mut self) -> u64 {
        // At one a nanosecond these last for five centuries.
        self.last_key = self.last_key.wrapping_add(1);
        self.last_key
    }

    fn add(&mut self, parent: Option<u64>) -> (u64, Arc<Level>) {
        let id = self.next_key();
        let mut signals = Vec::new();
        let mut urgency = None;
        if let Some(parent) = parent.and_then(|parent| self.by_id.get_mut(&parent)) {
            signals.clone_from(&parent.signals);
            urgency = parent.level.get();
            parent.children.insert(id);
        }
        let level = Arc::new(Level::new(urgency));
        let (children, waiters) = (BTreeSet::new(), BTreeMap::new());
        let node = TokenNode { parent, children, level: Arc::clone(&level), signals, waiters };
        self.by_id.insert(id, node);
        (id, level)
    }

    /// Takes a node out; its children go to its parent.
    fn remove(&mut self, id: u64) -> Option<TokenNode> {
        let mut node = self.by_id.remove(&id)?;
        for child in &node.children {
            if let Some(child) = self.by_id.get_mut(child) {
                child.parent = node.parent;
            }
        }
        if let Some(parent) = node.parent.and_then(|parent| self.by_id.get_mut(&parent)) {
            parent.children.remove(&id);
            parent.children.append(&mut node.children);
        }
        Some(node)
    }

    /// Raises a node and its descendants to `urgency`, with `signal` as their last one. Adds the waiters to wake to
    /// `woken`.
    fn raise(
        &mut self,
        id: u64,
        signal: &std::sync::Arc<StopSignal>,
        urgency: Urgency,
        woken: &mut Vec<Waiter>,
    ) {
        let mut pending = vec![id];
        while let Some(id) = pending.pop() {
            let Some(node) = self.by_id.get_mut(&id) else { continue };
            let is_known = node.signals.len() >= MAX_CANCELLATIONS || node.signals.contains(signal);
            let is_raised = node.level.get() >= Some(urgency);
            if is_known && is_raised {
                // The same applies to its descendants.
                continue;
            }
            if !is_known {
                node.signals.push(std::sync::Arc::clone(signal));
            }
            if !is_raised {
                node.level.set(urgency);
                let woken_here = node.waiters.extract_if(.., |_, w| w.least <= urgency);
                woken.extend(woken_here.map(|(_, w)| w));
            }
            pending.extend(&node.children);
        }
    }
}

/// A node as its token holds it. When it is dropped, the node leaves the tree.
pub(super) struct Handle {
    tree: Arc<Mutex<Nodes>>,
    id: u64,
    level: Arc<Level>,
}

impl Handle {
    pub(super) fn root() -> Self {
        let mut nodes = Nodes::default();
        let (id, level) = nodes.add(None);
        Self { tree: Arc::new(Mutex::new(nodes)), id, level }
    }

    pub(super) fn child(&self) -> Self {
        let (id, level) = self.nodes().add(Some(self.id));
        Self { tree: Arc::clone(&self.tree), id, level }
    }

    pub(super) fn cancel(&self, signal: std::sync::Arc<StopSignal>, urgency: Urgency) -> bool {
        let mut woken = Vec::new();
        let is_first = {
            let mut nodes = self.nodes();
            let is_first = self.level.get().is_none();
            nodes.raise(self.id, &signal, urgency, &mut woken);
            is_first
        };
        for waiter in woken {
            waiter.waker.wake();
        }
        is_first
    }

    pub(super) fn urgency(&self) -> Option<Urgency> {
        self.level.get()
    }

    pub(super) fn signal(&self) -> Option<std::sync::Arc<StopSignal>> {
        self.nodes().by_id.get(&self.id)?.signals.first().cloned()
    }

    pub(super) fn signals(&self) -> Vec<std::sync::Arc<StopSignal>> {
        self.nodes().by_id.get(&self.id).map(|node| node.signals.clone()).unwrap_or_default()
    }

    /// Lists a waiter, in place of the one under `key` if that is still listed, and returns its key; `None` if the
    /// wait is over.
    pub(super) fn wait(&self, key: Option<u64>, least: Urgency, waker: Waker) -> Option<u64> {
        let mut nodes = self.nodes();
        let key = key.unwrap_or_else(|| nodes.next_key());
        let node = nodes.by_id.get_mut(&self.id)?;
        if node.level.get() >= Some(least) {
            drop(nodes);
            return None;
        }
        let replaced = node.waiters.insert(key, Waiter { least, waker });
        drop(nodes);
        drop(replaced);
        Some(key)
    }

    /// Takes a waiter off the list, if it is still there.
    pub(super) fn leave(&self, key: u64) {
        let mut nodes = self.nodes();
        let left = nodes.by_id.get_mut(&self.id).and_then(|node| node.waiters.remove(&key));
        drop(nodes);
        drop(left);
    }

    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        // Nothing under the lock leaves the nodes half changed, so a panic elsewhere is no reason to fail.
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let removed = self.nodes().remove(self.id);
        drop(removed);
    }
}

#[cfg(test)]
mod tests;
