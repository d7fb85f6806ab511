//! Waiting for something, unless the run stops first.

use std::future::Future;
use std::time::Duration;

use endstop_runtime::RunHandle;

use crate::limits::LIMIT_RECHECK;

/// The run has stopped, and what was waited for was dropped with it.
pub(super) struct RunCut;

/// Waits for `future`, unless the run is cut first or a time limit stops it.
pub(super) async fn unless_cut<F: Future>(run: &RunHandle, future: F) -> Result<F::Output, RunCut> {
    let mut future = std::pin::pin!(future);
    let token = run.in_flight();
    loop {
        let limit = async {
            match run.next_limit_in_time() {
                None => std::future::pending().await,
                Some(left) if left.0 == 0 => tokio::time::sleep(LIMIT_RECHECK).await,
                Some(left) => tokio::time::sleep(Duration::from_millis(left.0)).await,
            }
        };
        tokio::select! {
            biased;
            () = token.cut() => return Err(RunCut),
            output = &mut future => return Ok(output),
            () = limit => {
                if run.tick().stops() {
                    return Err(RunCut);
                }
            }
        }
    }
}
