//! A call that waits for the reset of a budget over time, as its run shows it.

use std::fmt;
use std::sync::Arc;

use super::{RunHandle, RunNode};
use crate::account::{AccountRefused, AccountWait};

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
        if waits.is_empty() {
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
        self.node().account_waits().last().cloned()
    }
}

impl RunNode {
    /// Reports to the observers which budget calls of the tree begin to wait for, or that none of them waits any longer. The caller
    /// holds the lock of the waits.
    fn report_account_wait(&self, refused: Option<&AccountRefused>) {
        let root = self.root_info();
        self.tell_observers(|observer| observer.account_awaited(root, refused));
    }
}
