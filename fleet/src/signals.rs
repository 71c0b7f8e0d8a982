//! SIGINT and SIGTERM during cluster queries.

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use futures::future::{FutureExt, select_all};
use rprof_fleet::stop::cancel_jobs;
use tokio::signal::unix::{SignalKind, signal};

use crate::output;

/// Time limit for cancelling jobs before the process ends anyway.
const PATIENCE: Duration = Duration::from_secs(13);

/// Handled signals.
const SIGNALS: [SignalKind; 2] = [SignalKind::interrupt(), SignalKind::terminate()];

/// Returns a future of the next signal's number. Ignored signals stay ignored: shells ignore some
/// for background commands.
///
/// # Errors
/// A signal handler cannot be installed.
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

/// Cancels the jobs, unless another signal comes. Returns the exit status of shells for this
/// signal.
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
