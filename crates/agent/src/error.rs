//! [`AgentError`]: reasons for which an agent cannot run.

use std::io;
use std::path::{Path, PathBuf};

/// Reason for which an agent cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// A file or folder could not be read, made or written.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// `read`, `make` or `write`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file of settings is not TOML, or has a key or value that is none of it.
    #[error("{}: {message}", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// Key, what is wrong with it, and what helps.
        message: String,
    },
    /// Another agent uses the spool.
    #[error(
        "{} is used by another agent (process {pid}); stop it, or give this one another spool.folder", folder.display()
    )]
    InUse {
        /// The spool.
        folder: PathBuf,
        /// The other process.
        pid: String,
    },
    /// A thread or a socket could not be made.
    #[error("cannot create a thread or a socket: {0}")]
    System(io::Error),
    /// The recording could not be started, or ended.
    #[error(transparent)]
    Record(#[from] rprof_recorder::RecordError),
    /// The page of metrics could not be opened.
    #[error("cannot listen on {address} for metrics: {why}")]
    Metrics {
        /// Address as it was configured.
        address: String,
        /// Why.
        why: String,
    },
    /// There is no status file.
    #[error(
        "{} does not exist: no agent has run with this configuration; start one with `rprof agent \
         --config`", path.display()
    )]
    NoStatus {
        /// The status file.
        path: PathBuf,
    },
}

/// Makes errors of a path.
pub(crate) fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> AgentError {
    let path = path.to_owned();
    move |source| AgentError::File {
        action,
        path,
        source,
    }
}
