//! Continuous low-rate recording of a whole machine, for a fleet.
//!
//! ```text
//!   kernel --> Recording --> RecentRecords (memory)     a window ends      Analyst (nice 19)
//!                      \---> ProcessWatch (identity) ------------------->  profile, rows or bodies
//!                                                                               |  one rename
//!                                                                               v
//!   folder, S3, Pyroscope, Parca, OTLP  <--  Uploader, a thread for each  <--  Spool (bounded)
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`config`] | [`Config`]: the configuration file, validated |
//! | [`identity`] | workload of a sample: cgroups, rules, services |
//! | [`watch`] | [`ProcessWatch`](watch::ProcessWatch): facts about processes, from their records and /proc |
//! | [`schedule`] | windows on the wall clock, and the share of hosts that samples |
//! | [`budget`] | [`Budget`](budget::Budget): lowers and raises the sampling rate |
//! | [`live`] | recording without a file |
//! | [`analyst`] | converts windows to table rows and request bodies |
//! | `heap` | returns freed memory to the system |
//! | [`ledger`] | count of lost windows, which survives crashes |
//! | [`spool`] | windows queued for a destination, bounded in bytes |
//! | [`destination`] | folder, S3 bucket, profile servers |
//! | [`uploader`] | the thread that empties a spool |
//! | `sent` | [`Sent`](uploader::Sent): upload counters |
//! | [`status`] | [`Status`](status::Status): status file of the agent |
//! | [`metrics`] | the same as Prometheus text, on loopback |
//! | [`check`] | checks of `rprof-agent check` |
//! | `log` | [`Log`]: messages of a running agent |
//! | [`agent`] | the main loop |
//!
//! The library does not print: it sends messages to a [`Log`]. The program `rprof-agent` has the
//! arguments and exit statuses.

pub mod agent;
pub mod analyst;
pub mod budget;
pub mod check;
pub mod config;
pub mod destination;
mod error;
mod heap;
pub mod identity;
pub mod ledger;
pub mod live;
mod log;
pub mod metrics;
pub mod schedule;
mod sent;
pub mod spool;
pub mod status;
pub mod uploader;
pub mod watch;

pub use agent::run;
pub use config::Config;
pub use error::AgentError;
pub use log::Log;
