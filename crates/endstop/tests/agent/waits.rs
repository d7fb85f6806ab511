//! Runs that wait for the end of a budget's window.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use endstop::account::{Account, AccountSet, MemoryBudgetStore, OnFull, RunAccounts};
use endstop::core::signal::StopReason;
use endstop::core::units::WallTime;

use crate::support::*;

/// The end of November 2026 in UTC.
const DECEMBER: u64 = 1_796_083_200_000;

#[tokio::test(start_paused = true)]
async fn a_run_that_waits_for_a_budget_continues_when_its_window_is_over() {
    let now = Arc::new(AtomicU64::new(DECEMBER - 1));
    let wall = Arc::clone(&now);
    let store =
        MemoryBudgetStore::with_clock(Arc::new(move || WallTime(wall.load(Ordering::SeqCst))));
    let me = Account::new("me", &["2 steps per month"]).unwrap();
    let set = AccountSet::new([Account { on_full: OnFull::Pause, ..me }]).unwrap();
    let accounts = RunAccounts::new(Arc::new(store), set, &["me"], "test").unwrap();
    let model = caller("look");
    let builder = agent(&model, "steps >= 3").tool(ok_tool("look")).accounts(accounts);
    let agent = builder.build().unwrap();
    let (state, ()) = tokio::join!(agent.run("Go."), async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(model.calls(), 2, "the third waits");
        now.store(DECEMBER, Ordering::SeqCst);
    });
    let state = state.unwrap();
    let reason = Some(StopReason::StepsLimitReached);
    assert_eq!((state.step_count(), state.stop_reason()), (3, reason), "{}", state.explain());
    assert_eq!(model.calls(), 3);
}
