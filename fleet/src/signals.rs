//! SIGINT and SIGTERM while a cluster works for this process.

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use futures::future::{FutureExt, select_all};
use rprof_fleet::stop::cancel_jobs;
use tokio::signal::unix::{SignalKind, signal};

use crate::output;

/// Time in which jobs are cancelled before the process ends all the same.
const PATIENCE: Duration = Duration::from_secs(13);

/// Signals that are listened to.
const SIGNALS: [SignalKind; 2] = [SignalKind::interrupt(), SignalKind::terminate()];

/// Returns a future that is the number of the next signal. One that is ignored, as a shell does for what runs in the background, stays so.
///
/// # Errors
/// Signals cannot be listened to.
pub fn asked_to_end() -> io::Result<impl Future<Output = u8> + Send + Unpin> {
    let mut all = Vec::new();
    for kind in SIGNALS {
        let number = kind.as_raw_value();
        if rprof_launch::signal_is_ignored(number) {
            continue;
        }
        let mut of_kind = signal(kind)?;
        let next = async move {
            match of_kind.recv().await {
                Some(()) => u8::try_from(number).unwrap_or(u8::MAX),
                None => std::future::pending().await,
            }
        };
        all.push(next.boxed());
    }
    all.push(std::future::pending().boxed());
    Ok(select_all(all).map(|(number, ..)| number))
}

/// Has the jobs cancelled, unless another signal comes, and returns the status that shells give what ended by the signal.
pub async fn end(number: u8) -> ExitCode {
    output::note("rprof-fleet: cancelling what runs in the cluster; once more ends at once");
    match asked_to_end() {
        Ok(again) => {
            tokio::select! {
                () = cancel_jobs(PATIENCE) => {}
                _ = again => {}
            }
        }
        Err(_) => cancel_jobs(PATIENCE).await,
    }
    ExitCode::from(128 + number)
}
