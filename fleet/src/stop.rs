//! Cancels cluster jobs before this process ends. The cluster would continue abandoned jobs.
//!
//! The state is global, because signals apply to the whole process.

use std::sync::LazyLock;
use std::time::Duration;

use tokio::sync::watch;

static STOP: LazyLock<watch::Sender<bool>> = LazyLock::new(|| watch::Sender::new(false));

/// Guard of a job to be cancelled before the process ends.
pub(crate) struct Job(watch::Receiver<bool>);

impl Job {
    pub(crate) fn new() -> Job {
        Job(STOP.subscribe())
    }

    /// Returns true if the process was asked to end.
    pub(crate) fn is_stopped(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns when the process is asked to end.
    pub(crate) async fn stopped(&mut self) {
        // The sender is never dropped.
        self.0.wait_for(|is_stopped| *is_stopped).await.ok();
    }
}

/// Cancels all jobs of this process. Returns when all are cancelled, or after `patience`.
pub async fn cancel_jobs(patience: Duration) {
    STOP.send_replace(true);
    tokio::time::timeout(patience, STOP.closed()).await.ok();
}
