//! What a run waits for beside its tool calls, which go on meanwhile.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

use super::{Ran, Running};

/// Waits for `work`, a hook or a person; calls that come to their end meanwhile are put into `done`.
pub(super) async fn beside<T>(
    running: &mut FuturesUnordered<Running>,
    done: &mut VecDeque<Ran>,
    work: impl Future<Output = T>,
) -> T {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            biased;
            output = &mut work => return output,
            Some(ran) = running.next() => done.push_back(ran),
        }
    }
}
