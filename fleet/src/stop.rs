//! End of this process on request: jobs in clusters are cancelled first, since a cluster goes on with what nobody waits for.
//!
//! Signals are of the whole process, and so is what stands here.

use std::sync::LazyLock;
use std::time::Duration;

use tokio::sync::watch;

static STOP: LazyLock<watch::Sender<bool>> = LazyLock::new(|| watch::Sender::new(false));

/// Guard of a job that is cancelled before the process ends.
pub(crate) struct Job(watch::Receiver<bool>);

impl Job {
    pub(crate) fn new() -> Job {
        Job(STOP.subscribe())
    }

    /// Returns whether the process is asked to end already.
    pub(crate) fn is_stopped(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns once the process is asked to end.
    pub(crate) async fn stopped(&mut self) {
        // The sender is never dropped.
        self.0.wait_for(|is_stopped| *is_stopped).await.ok();
    }
}

/// Has all jobs of this process cancelled, and returns once they are, or after `patience`.
pub async fn cancel_jobs(patience: Duration) {
    STOP.send_replace(true);
    tokio::time::timeout(patience, STOP.closed()).await.ok();
}
