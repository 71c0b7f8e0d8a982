//! Sends profiles to remote servers: Pyroscope, Parca, and receivers of OpenTelemetry profiles.
//!
//! A profile is split so that each request meets the server's [`Limits`]. A request that fails
//! temporarily is retried ([`Policy`]). A rejected one is lost, and counted ([`Report`]).
//!
//! | module | holds |
//! |---|---|
//! | [`target`] | [`Target`]: server types, with their addresses, limits and labels |
//! | [`labels`] | [`Label`]: name-value pairs sent with profiles |
//! | [`credentials`] | [`Credentials`]: headers read from files, certificates |
//! | [`parts`] | [`Parts`]: splits a profile to meet the limits |
//! | [`client`] | [`Client`]: sends one request, and returns its [`Answer`] |
//! | [`policy`] | [`Policy`]: delays and time limit of retries |
//! | [`delivery`] | [`Delivery`]: sends all requests of a profile, and returns a [`Report`] |
//! | [`follow`] | finished files of `rprof record --switch-output`, and the journal of sent ones |
//! | `body` | request bodies, according to the published protos |
//! | `answer` | interpretation of responses |
//!
//! The crate does not depend on how a profile was recorded, and prints nothing.

mod answer;
mod body;
pub mod client;
pub mod credentials;
pub mod delivery;
mod error;
pub mod follow;
pub mod labels;
pub mod parts;
pub mod policy;
pub mod target;

pub use answer::Answer;
pub use client::{Client, ClientOptions, http_agent};
pub use credentials::Credentials;
pub use delivery::{Delivery, Progress, Report};
pub use error::PushError;
pub use labels::Label;
pub use parts::{Part, Parts};
pub use policy::{Policy, retry_after};
pub use target::{Limits, Target};
