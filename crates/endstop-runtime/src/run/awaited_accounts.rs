//! The accounts that calls of a tree wait for.
//!
//! A separate file because the tree holds them, and the waits of its calls, which hold the tree, change them.

use crate::account::AccountRefused;

/// The accounts that calls of a tree wait for, in the order in which the first call of each began. Observers get begin and end
/// in this order, because they are called under its lock.
#[derive(Debug, Default)]
pub(super) struct AwaitedAccounts(Vec<AwaitedAccount>);

/// An account that calls wait for.
#[derive(Debug)]
struct AwaitedAccount {
    calls: usize,
    /// The latest reason why one of them waits.
    refused: Box<AccountRefused>,
}

impl AwaitedAccounts {
    /// Replaces the reason why calls wait for an account. `None` if no call waits for it.
    fn replaced(&mut self, refused: &AccountRefused) -> Option<&mut AwaitedAccount> {
        let awaited = self.0.iter_mut().find(|one| one.refused.account == refused.account)?;
        *awaited.refused = refused.clone();
        Some(awaited)
    }

    /// Replaces the reason why calls wait for an account.
    pub(super) fn renew(&mut self, refused: &AccountRefused) {
        self.replaced(refused);
    }

    /// Adds a call. Returns whether it is the first that waits for this account.
    pub(super) fn add(&mut self, refused: &AccountRefused) -> bool {
        if let Some(awaited) = self.replaced(refused) {
            awaited.calls = awaited.calls.saturating_add(1);
            return false;
        }
        self.0.push(AwaitedAccount { calls: 1, refused: Box::new(refused.clone()) });
        true
    }

    /// Removes a call that was added.
    pub(super) fn remove(&mut self, account: &str) {
        self.0.retain_mut(|one| {
            if one.refused.account == account {
                one.calls = one.calls.saturating_sub(1);
            }
            one.calls > 0
        });
    }

    /// Whether no call waits.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The reason why calls wait for the account that they began to wait for last.
    pub(super) fn last(&self) -> Option<&AccountRefused> {
        self.0.last().map(|awaited| &*awaited.refused)
    }
}
