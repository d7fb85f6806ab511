//! Fields of the requests of a run that no table has.
//!
//! A separate file because the lock stays private to it.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use crate::limits::MAX_UNKNOWN_FIELDS;

/// The unknown fields of a run, each once.
#[derive(Debug, Default)]
pub(crate) struct UnknownFields(Mutex<BTreeSet<String>>);

impl UnknownFields {
    /// Notes fields of a request. Returns a warning for the client if one of them is new.
    pub(crate) fn note(&self, fields: &[String]) -> Option<String> {
        if fields.is_empty() {
            return None;
        }
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new: Vec<String> = fields
            .iter()
            .filter(|field| all.len() < MAX_UNKNOWN_FIELDS && all.insert((*field).clone()))
            .map(|field| format!("`{field}`"))
            .collect();
        let names = new.join(", ");
        (!new.is_empty())
            .then(|| format!("unknown fields passed: {names}; they may change the price"))
    }

    pub(crate) fn all(&self) -> Vec<String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().cloned().collect()
    }
}
