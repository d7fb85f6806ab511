//! Calls of a tree that wait for the reset of a budget over time.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, MutexGuard, PoisonError};

use super::{RunHandle, RunNode};
use crate::account::{AccountRefused, AccountWait};

/// The waits of a tree. Observers get begin and end in this order, because they are called under its lock.
#[derive(Debug, Default)]
pub(super) struct TreeAccountWaits {
    calls: usize,
    /// The latest reason why one of them waits.
    current: Option<Box<AccountRefused>>,
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
    of: Option<Arc<RunNode>>,
}

impl ShownAccountWait {
    /// Shows why the call waits now. A wait for the store, or for other calls in flight, is not shown.
    pub fn show(&mut self, run: &RunHandle, wait: &AccountWait) {
        let AccountWait::Room { refused, until: Some(_) } = wait else {
            self.end();
            return;
        };
        let node = run.node();
        let mut waits = node.account_waits();
        if self.of.is_none() {
            waits.calls = waits.calls.saturating_add(1);
            self.of = Some(Arc::clone(node));
        }
        node.set_account_wait(&mut waits, Some(refused.clone()));
    }

    fn end(&mut self) {
        let Some(node) = self.of.take() else { return };
        let mut waits = node.account_waits();
        waits.calls = waits.calls.saturating_sub(1);
        if waits.calls == 0 {
            node.set_account_wait(&mut waits, None);
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
    /// Returns the refusal of the budget over time whose reset calls of the tree wait for now.
    #[must_use]
    pub fn awaited_account(&self) -> Option<AccountRefused> {
        self.node().account_waits().current.as_deref().cloned()
    }
}

impl RunNode {
    fn account_waits(&self) -> MutexGuard<'_, TreeAccountWaits> {
        self.tree.account_waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the budget that calls wait for, and reports it to observers if it is another one.
    fn set_account_wait(&self, waits: &mut TreeAccountWaits, wait: Option<Box<AccountRefused>>) {
        let name = |wait: Option<&AccountRefused>| wait.map(|wait| wait.account.clone());
        let is_new = name(waits.current.as_deref()) != name(wait.as_deref());
        waits.current = wait;
        if !is_new {
            return;
        }
        let mut root = self;
        while let Some(parent) = &root.parent {
            root = parent;
        }
        for observer in &self.tree.observers {
            // An observer that fails must not end what it watches.
            let _ = catch_unwind(AssertUnwindSafe(|| {
                observer.account_awaited(&root.info, waits.current.as_deref());
            }));
        }
    }
}
