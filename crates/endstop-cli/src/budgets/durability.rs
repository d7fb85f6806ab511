//! Warnings of the dollars, and the changes of keys, that a restart or a failover of the shared store can lose.

use endstop::account::{Account, AccountState, BudgetStore as _, LimitState, StorePersistence};
use endstop::core::units::Money;
use endstop::ledger::Dimension;

use super::Budgets;
use crate::output;

/// The end of a warning about a store that has the keys of clients.
const KEYS_UNDONE: &str = ". Changes of keys that it forgets are undone: a key that was just revoked is valid again, so check \
    `endstop key list` then";

impl Budgets {
    /// Warns of what the shared store can lose, also of keys if it has those of this gateway.
    pub(crate) fn warn_of_persistence(&self, has_keys: bool) {
        let Some(remote) = &self.remote else { return };
        let persistence = remote.persistence();
        if persistence != StorePersistence::Always {
            self.warn_of(persistence, has_keys);
        }
        // Without the permission to ask there is no warning.
        let replicas = remote.replicas().unwrap_or_default();
        if replicas > 0 {
            output::warn(&format!(
                "{}: it has {}, and no call waits for one (`WAIT`). After a failover, calls that the replica had not received \
                 could be spent twice{}",
                remote.server(),
                output::counted(replicas, "replica"),
                of_keys(has_keys)
            ));
        }
    }

    /// Warns of a server that loses more than its last moments: for the processes of one run, which end soon.
    pub(crate) fn warn_of_forgetting(&self) {
        let Some(remote) = &self.remote else { return };
        let persistence = remote.persistence();
        if loses_all(persistence) {
            self.warn_of(persistence, false);
        }
    }

    fn warn_of(&self, persistence: StorePersistence, has_keys: bool) {
        let Some(remote) = &self.remote else { return };
        let accounts: Vec<&Account> = self.set.iter().collect();
        let states = remote.read(&accounts).unwrap_or_default();
        let risk = at_risk(persistence, &states);
        let keys = of_keys(has_keys);
        output::warn(&format!("{}: {persistence}. {risk}{keys}", remote.server()));
    }
}

const fn of_keys(has_keys: bool) -> &'static str {
    if has_keys { KEYS_UNDONE } else { "" }
}

/// Whether a restart can take more than the last moments.
const fn loses_all(persistence: StorePersistence) -> bool {
    matches!(
        persistence,
        StorePersistence::Snapshots | StorePersistence::Nothing | StorePersistence::Evicts
    )
}

/// The dollars that can be spent twice: those of now, and the most in one window of a budget.
pub(super) fn at_risk(persistence: StorePersistence, states: &[AccountState]) -> String {
    let limits = || {
        let all = states.iter().flat_map(|state| &state.limits);
        all.filter(|it| it.limit.dimension == Dimension::Cost)
    };
    let largest = |of: fn(&LimitState) -> u64| {
        let picos = limits().map(of).max();
        output::money(Money::from_picos(picos.unwrap_or_default()))
    };
    let lost = if loses_all(persistence) {
        let counted = largest(|it| it.settled.saturating_add(it.held));
        format!("now {counted} is counted")
    } else {
        let held = largest(|it| it.held);
        format!("those of that time, and those in flight, now {held}")
    };
    let again = "Calls that it forgets could be spent twice";
    if limits().next().is_none() {
        return again.to_owned();
    }
    format!("{again} ({lost}): at most {} in one window", largest(|it| it.limit.amount))
}
