//! Work that waits for a disk, kept away from the tasks of the runtime.

use tokio::runtime::Handle;

use super::StoreError;

/// Runs `work` on the runtime's threads for blocking work; at once where there is no runtime.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    match Handle::try_current() {
        Ok(runtime) => runtime.spawn_blocking(work).await.map_err(|_| StoreError::Ended)?,
        Err(_) => work(),
    }
}
