//! The used part of the subscription's windows that providers reported to one run.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use endstop_core::run::WindowReset;
use endstop_core::units::WallTime;

use crate::limits::{MAX_QUOTA_WINDOWS, MAX_WINDOW_NAME, RESET_JITTER};

/// The last report of each window.
#[derive(Debug, Default)]
pub(crate) struct Quotas(Mutex<BTreeMap<String, ReportedWindow>>);

#[derive(Clone, Copy, Debug)]
struct ReportedWindow {
    /// In hundredths of a percent.
    used: u64,
    resets_at: Option<WallTime>,
}

impl Quotas {
    /// Takes a report. Returns whether it says something new.
    pub(crate) fn take(&self, window: &str, used: u64, resets_at: Option<WallTime>) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = known.get_mut(window) {
            let has_moved = resets_at.is_some_and(|at| {
                last.resets_at.is_none_or(|before| before.0.abs_diff(at.0) > RESET_JITTER)
            });
            let is_new = last.used != used || has_moved;
            *last = ReportedWindow { used, resets_at: resets_at.or(last.resets_at) };
            return is_new;
        }
        let fits = window.len() <= MAX_WINDOW_NAME && known.len() < MAX_QUOTA_WINDOWS;
        if fits {
            known.insert(window.to_owned(), ReportedWindow { used, resets_at });
        }
        fits
    }

    /// A window has reset: nothing of it is used, and the next reset is unknown.
    pub(super) fn reset(&self, window: &str) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = known.get_mut(window) {
            *last = ReportedWindow { used: 0, resets_at: None };
        }
    }

    /// Every window with its used part, by name.
    pub(crate) fn all(&self) -> Vec<(String, u64)> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().map(|(window, last)| (window.clone(), last.used)).collect()
    }

    /// The windows whose next reset is known, by name.
    pub(crate) fn resets(&self) -> Vec<WindowReset> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known =
            known.iter().filter_map(|(window, last)| Some((window.clone(), last.resets_at?)));
        known.map(|(window, at)| WindowReset { window, at }).collect()
    }
}
