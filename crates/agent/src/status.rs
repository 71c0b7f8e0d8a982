//! [`Status`]: status file of the agent.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use rprof_output::Folder;
use rprof_profile::unit::counted;
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::error::{AgentError, failed};
use crate::ledger::write_whole;
use crate::schedule::unix_micros;
use crate::sent::Sent;

const FILE: &str = "status.json";

/// Status of an agent, written at the end of each window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// Version of rprof.
    pub version: String,
    /// Process id of the agent.
    pub pid: u32,
    /// Name of the host.
    pub host: String,
    /// Start time, in seconds since 1970.
    pub started: i64,
    /// Time of the last update, in seconds since 1970.
    pub updated: i64,
    /// `recording`, `resting` in an hour when this host does not sample, `failing` while the
    /// recording cannot start, or `stopped`.
    pub state: String,
    /// Current rate, in samples a second per CPU.
    pub rate_hz: u32,
    /// Configured rate, in samples a second per CPU.
    pub wanted_rate_hz: u32,
    /// Length of a window in seconds.
    pub window_seconds: u32,
    /// Windows completed since the start.
    pub windows: u64,
    /// Samples in them.
    pub samples: u64,
    /// Records lost by the kernel in them.
    pub lost_samples: u64,
    /// Services in the last window.
    pub services: usize,
    /// CPU time of the agent in the last window, in percent of a core.
    pub cpu_percent: f64,
    /// Resident memory of the agent in bytes.
    pub memory_bytes: u64,
    /// Size of the spool in bytes.
    pub spool_bytes: u64,
    /// Maximum size of the spool in bytes.
    pub spool_max_bytes: u64,
    /// State of each configured destination, in the order of the file.
    pub destinations: Vec<DestinationStatus>,
}

/// State of a destination.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DestinationStatus {
    /// Name of the destination, as in the configuration.
    pub name: String,
    /// Type of the destination, as in the configuration: `folder`, `s3`, `pyroscope`, `parca`,
    /// `otlp`.
    pub kind: String,
    /// Number of windows in the spool that wait for this destination.
    pub queued_windows: usize,
    /// Total number of lost windows.
    pub lost_windows: u64,
    /// Number of rejected files in quarantine.
    pub quarantined: usize,
    /// Upload counters since the start, by outcome.
    #[serde(flatten)]
    pub sent: Sent,
}

impl Status {
    /// Writes the file atomically.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, folder: &Folder) -> std::io::Result<()> {
        write_whole(folder, FILE, serde_json::to_string_pretty(self)?.as_bytes())
    }

    /// Returns the path of the file.
    pub fn path(config: &Config) -> PathBuf {
        config.spool.folder.join(FILE)
    }

    /// Reads the status of the agent with these settings.
    ///
    /// # Errors
    /// [`AgentError::NoStatus`], [`AgentError::File`].
    pub fn read(config: &Config) -> Result<Status, AgentError> {
        let path = Status::path(config);
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(AgentError::NoStatus { path });
            }
            read => read.map_err(failed("read", &path))?,
        };
        serde_json::from_str(&text).map_err(|error| failed("read", &path)(error.into()))
    }

    /// Returns true if the agent runs, and has updated the status in time.
    pub fn is_current(&self) -> bool {
        let age = unix_micros() / 1_000_000 - self.updated;
        let most = i64::from(self.window_seconds) * 5 / 2 + 30;
        self.state != "stopped" && age <= most && Path::new(&format!("/proc/{}", self.pid)).exists()
    }

    /// Formats the status for a terminal.
    pub fn text(&self) -> String {
        let now = unix_micros() / 1_000_000;
        let mut text = String::new();
        let state = match (self.is_current(), &*self.state) {
            (_, "stopped") => "stopped".to_owned(),
            (true, state) => state.to_owned(),
            (false, _) => "not running".to_owned(),
        };
        let _ = writeln!(
            text,
            "agent {} on {}: {state}, process {}, last status {} s ago",
            self.version,
            self.host,
            self.pid,
            now - self.updated
        );
        let rate = match self.rate_hz == self.wanted_rate_hz {
            true => format!("{} Hz", self.rate_hz),
            false => format!(
                "{} Hz instead of {}, as it exceeded its budget",
                self.rate_hz, self.wanted_rate_hz
            ),
        };
        let _ = writeln!(
            text,
            "records   {rate}, windows of {} s: {} so far with {} samples, {} lost; {} services in the last",
            self.window_seconds, self.windows, self.samples, self.lost_samples, self.services
        );
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let _ = writeln!(
            text,
            "uses      {:.2} % of a core, {:.0} MiB of memory; spool {:.1} of {:.0} MiB",
            self.cpu_percent,
            mib(self.memory_bytes),
            mib(self.spool_bytes),
            mib(self.spool_max_bytes)
        );
        for to in &self.destinations {
            let _ = write!(
                text,
                "to {:<6} {}: {} sent, {:.1} MiB; {} waiting, {} lost, {} refused",
                to.name,
                to.kind,
                counted(to.sent.files, "file"),
                mib(to.sent.bytes),
                counted(to.queued_windows as u64, "window"),
                to.lost_windows,
                counted(to.quarantined as u64, "file")
            );
            if let Some(error) = &to.sent.last_error {
                let _ = write!(text, "\n          last error: {error}");
            }
            if let Some(seconds) = to.sent.next_try_seconds {
                let _ = write!(text, "\n          next try in {seconds} s");
            }
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_comes_back_and_says_what_is_wrong() {
        let dir = tempfile::tempdir().unwrap();
        let text = format!(
            "[spool]\nfolder = {:?}\n[[to]]\nkind = \"folder\"\npath = \"/data\"",
            dir.path()
        );
        let config = Config::parse(&text).unwrap();
        assert!(matches!(
            Status::read(&config),
            Err(AgentError::NoStatus { .. })
        ));
        let status = Status {
            pid: std::process::id(),
            updated: unix_micros() / 1_000_000,
            state: "recording".into(),
            rate_hz: 9,
            wanted_rate_hz: 19,
            window_seconds: 60,
            destinations: vec![DestinationStatus {
                name: "fleet".into(),
                sent: Sent {
                    last_error: Some("status 503".into()),
                    ..Sent::default()
                },
                ..DestinationStatus::default()
            }],
            ..Status::default()
        };
        status.write(&Folder::open(dir.path()).unwrap()).unwrap();
        let read = Status::read(&config).unwrap();
        assert_eq!(read, status);
        assert!(read.is_current());
        let words = read.text();
        assert!(
            words.contains("9 Hz instead of 19") && words.contains("status 503"),
            "{words}"
        );
        let old = Status {
            updated: status.updated - 1_000,
            ..status
        };
        assert!(!old.is_current() && old.text().contains("not running"));
    }
}
