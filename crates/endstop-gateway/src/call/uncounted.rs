//! The models whose upstreams do not count tokens.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use endstop_llm::Api;

use crate::limits::MAX_UNCOUNTED_MODELS;

/// Models that an upstream does not count, by API: it is asked once. By model, because an unknown model is answered like
/// an unknown endpoint.
#[derive(Debug, Default)]
pub(super) struct NoCounting(Mutex<BTreeSet<u64>>);

impl NoCounting {
    pub(super) fn key(api: Api, model: &str) -> u64 {
        xxhash_rust::xxh3::xxh3_64(format!("{api:?} {model}").as_bytes())
    }

    pub(super) fn has(&self, key: u64) -> bool {
        self.known().contains(&key)
    }

    pub(super) fn add(&self, key: u64) {
        let mut known = self.known();
        if known.len() >= MAX_UNCOUNTED_MODELS {
            known.clear();
        }
        known.insert(key);
    }

    fn known(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
