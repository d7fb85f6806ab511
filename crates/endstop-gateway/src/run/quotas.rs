//! The used part of the subscription's windows that providers reported to one run.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::limits::{MAX_QUOTA_WINDOWS, MAX_WINDOW_NAME};

/// The last report of each window, in hundredths of a percent.
#[derive(Debug, Default)]
pub(crate) struct Quotas(Mutex<BTreeMap<String, u64>>);

impl Quotas {
    /// Takes a report. Returns whether it says something new.
    pub(crate) fn take(&self, window: &str, used: u64) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = known.get_mut(window) {
            return std::mem::replace(last, used) != used;
        }
        let fits = window.len() <= MAX_WINDOW_NAME && known.len() < MAX_QUOTA_WINDOWS;
        if fits {
            known.insert(window.to_owned(), used);
        }
        fits
    }

    /// Every window with its last report, by name.
    pub(crate) fn all(&self) -> Vec<(String, u64)> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().map(|(window, used)| (window.clone(), *used)).collect()
    }
}
