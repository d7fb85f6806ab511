//! Calls of a tree that wait for the reset of a budget over time.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, MutexGuard, PoisonError};

use super::{RunHandle, RunNode};
use crate::account::{AccountRefused, AccountWait};

/// The accounts that calls of a tree wait for, in the order in which the first call of each began. Observers get begin and end
/// in this order, because they are called under its lock.
#[derive(Debug, Default)]
pub(super) struct TreeAccountWaits(Vec<AwaitedAccount>);

/// An account that calls wait for.
#[derive(Debug)]
struct AwaitedAccount {
    calls: usize,
    /// The latest reason why one of them waits.
    refused: Box<AccountRefused>,
}

impl TreeAccountWaits {
    /// Replaces the reason why calls wait for an account. `None` if no call waits for it.
    fn renew(&mut self, refused: &AccountRefused) -> Option<&mut AwaitedAccount> {
        let awaited = self.0.iter_mut().find(|one| one.refused.account == refused.account)?;
        *awaited.refused = refused.clone();
        Some(awaited)
    }

    /// Adds a call. Returns whether it is the first that waits for this account.
    fn add(&mut self, refused: &AccountRefused) -> bool {
        if let Some(awaited) = self.renew(refused) {
            awaited.calls = awaited.calls.saturating_add(1);
            return false;
        }
        self.0.push(AwaitedAccount { calls: 1, refused: Box::new(refused.clone()) });
        true
    }

    /// Removes a call that was added.
    fn remove(&mut self, account: &str) {
        self.0.retain_mut(|one| {
            if one.refused.account == account {
                one.calls = one.calls.saturating_sub(1);
            }
            one.calls > 0
        });
    }
}

/// The wait of one call for the reset of a budget over time, which its run shows until this is dropped.
///
/// ```
/// # use std::sync::Arc;
/// # use endstop_core::{Policy, Program, condition::named::max_steps, probe::Probes};
/// # use endstop_runtime::{RunEnvironment, observe::RunInfo, store::RunId};
/// # let (agent, model, provider) = ("main".to_owned(), String::new(), String::new());
/// # let id = RunId::new();
/// # let info = RunInfo { id, parent: None, agent, model, provider, depth: 0, is_resumed: false };
/// # let program = Arc::new(Program::new(&Policy::from(max_steps(9)), &Probes::new())?);
/// use endstop_runtime::account::AccountWait;
/// use endstop_runtime::{RunHandle, ShownAccountWait};
///
/// /// Waits once; the driver then tries to begin the call again.
/// async fn wait(run: &RunHandle, shown: &mut ShownAccountWait, wait: &AccountWait) {
///     shown.show(run, wait);
///     run.wait_for_account(wait).await;
/// }
///
/// let run = RunHandle::root(info, program, RunEnvironment::default());
/// assert_eq!(run.awaited_account(), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct ShownAccountWait {
    /// The run, and the account that the call waits for.
    of: Option<(Arc<RunNode>, String)>,
}

impl ShownAccountWait {
    /// Shows why the call waits now. A wait for the store is not shown. While only calls in flight are in the way, the last
    /// account stays.
    pub fn show(&mut self, run: &RunHandle, wait: &AccountWait) {
        let AccountWait::Room { refused, until } = wait else {
            self.end();
            return;
        };
        if until.is_none() {
            return;
        }
        let node = run.node();
        if self.of.as_ref().is_some_and(|(of, _)| !Arc::ptr_eq(of, node)) {
            self.end();
        }
        let mut waits = node.account_waits();
        if self.of.as_ref().is_some_and(|(_, account)| *account == refused.account) {
            waits.renew(refused);
            return;
        }
        let is_first = waits.add(refused);
        if let Some((_, account)) = self.of.replace((Arc::clone(node), refused.account.clone())) {
            waits.remove(&account);
        }
        if is_first {
            node.report_account_wait(Some(refused));
        }
    }

    /// Shows no wait of this call any longer, because it waits for something else now. It can be shown again.
    pub fn end(&mut self) {
        let Some((node, account)) = self.of.take() else { return };
        let mut waits = node.account_waits();
        waits.remove(&account);
        if waits.0.is_empty() {
            node.report_account_wait(None);
        }
    }
}

impl Drop for ShownAccountWait {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for ShownAccountWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShownAccountWait").field("is_shown", &self.of.is_some()).finish()
    }
}

impl RunHandle {
    /// Returns the refusal of the budget over time whose reset calls of the tree wait for now; of several, the one that they began
    /// to wait for last.
    #[must_use]
    pub fn awaited_account(&self) -> Option<AccountRefused> {
        self.node().account_waits().0.last().map(|awaited| (*awaited.refused).clone())
    }
}

impl RunNode {
    fn account_waits(&self) -> MutexGuard<'_, TreeAccountWaits> {
        self.tree.account_waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports to the observers which budget calls of the tree begin to wait for, or that none of them waits any longer. The caller
    /// holds the lock of the waits.
    fn report_account_wait(&self, refused: Option<&AccountRefused>) {
        let mut root = self;
        while let Some(parent) = &root.parent {
            root = parent;
        }
        for observer in &self.tree.observers {
            // An observer that fails must not end what it watches.
            let _ = catch_unwind(AssertUnwindSafe(|| {
                observer.account_awaited(&root.info, refused);
            }));
        }
    }
}
