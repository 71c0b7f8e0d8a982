//! Continuous recording of a whole system at a low rate, for a fleet.
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
//! | [`config`] | [`Config`]: the file of settings, checked |
//! | [`identity`] | whose time a sample is: control groups, rules, services |
//! | [`watch`] | [`ProcessWatch`](watch::ProcessWatch): what processes are, from their records and /proc |
//! | [`schedule`] | windows on the wall clock, and the share of hosts that is sampled |
//! | [`budget`] | [`Budget`](budget::Budget): when the rate is halved, and when it comes back |
//! | [`live`] | recording without a file |
//! | [`analyst`] | windows to rows of tables and to bodies of requests |
//! | `heap` | memory that was freed goes back to the system |
//! | [`ledger`] | windows that were lost, counted over crashes |
//! | [`spool`] | windows that wait for a destination, bounded in bytes |
//! | [`destination`] | folder, S3 bucket, servers of profiles |
//! | [`uploader`] | the thread that empties a spool |
//! | `sent` | [`Sent`](uploader::Sent): outcomes of sending |
//! | [`status`] | [`Status`](status::Status): the file that tells how it goes |
//! | [`metrics`] | the same as Prometheus text, on loopback |
//! | [`check`] | what `rprof agent check` finds out |
//! | `log` | [`Log`]: messages of a running agent |
//! | [`agent`] | all of it together |
//!
//! Nothing here prints: what is to be told goes to a [`Log`].

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
