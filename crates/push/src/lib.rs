//! Sends profiles to remote servers: Pyroscope, Parca, and receivers of OpenTelemetry profiles.
//!
//! A profile is split so that each request meets the server's [`ServerLimits`]. A request that
//! fails temporarily is retried ([`Policy`]). A rejected one is lost, and counted ([`DeliveryReport`]).
//!
//! | module | holds |
//! |---|---|
//! | [`target`] | [`ServerKind`]: server types, with their addresses, limits and labels |
//! | [`labels`] | [`Label`]: name-value pairs sent with profiles |
//! | [`credentials`] | [`SenderCredentials`]: headers read from files, certificates |
//! | [`parts`] | [`Parts`]: splits a profile to meet the limits |
//! | [`client`] | [`PushClient`]: sends one request, and returns its [`Answer`] |
//! | [`policy`] | [`Policy`]: delays and time limit of retries |
//! | [`delivery`] | [`Delivery`]: sends all requests of a profile, and returns a [`DeliveryReport`] |
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
pub use client::{ClientOptions, PushClient, http_agent};
pub use credentials::SenderCredentials;
pub use delivery::{Delivery, DeliveryProgress, DeliveryReport};
pub use error::PushError;
pub use labels::Label;
pub use parts::{EncodedPart, Parts};
pub use policy::{Policy, retry_after};
pub use target::{ServerKind, ServerLimits};
