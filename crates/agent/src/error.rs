//! [`AgentError`]: errors that prevent an agent from running.

use std::io;
use std::path::{Path, PathBuf};

/// Error that prevents an agent from running.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// A file or folder could not be read, created or written.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// `read`, `make` or `write`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The configuration file is not TOML, or has an invalid key or value.
    #[error("{}: {message}", path.display())]
    Config {
        /// Path of the configuration file.
        path: PathBuf,
        /// Key, problem and remedy.
        message: String,
    },
    /// Another agent uses the spool.
    #[error(
        "{} is used by another agent (process {pid}); stop it, or give this one another spool.folder", folder.display()
    )]
    InUse {
        /// Folder of the spool.
        folder: PathBuf,
        /// Pid of the other agent.
        pid: String,
    },
    /// A thread or a socket could not be created.
    #[error("cannot create a thread or a socket: {0}")]
    System(io::Error),
    /// The recording failed to start or to end.
    #[error(transparent)]
    Record(#[from] rprof_recorder::RecordError),
    /// The metrics endpoint could not be opened.
    #[error("cannot listen on {address} for metrics: {why}")]
    Metrics {
        /// Configured address.
        address: String,
        /// Cause.
        why: String,
    },
    /// There is no status file.
    #[error(
        "{} does not exist: no agent has run with this configuration; start one with `rprof-agent \
         --config FILE`", path.display()
    )]
    NoStatus {
        /// Path of the status file.
        path: PathBuf,
    },
}

pub(crate) fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> AgentError {
    let path = path.to_owned();
    move |source| AgentError::File {
        action,
        path,
        source,
    }
}
