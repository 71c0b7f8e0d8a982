//! Profiles sent to servers that others run: Pyroscope, Parca, and whatever takes OpenTelemetry's profiles.
//!
//! A profile is split until no request has more than its server takes ([`Limits`]). A request that a server cannot take now
//! is sent again later ([`Policy`]); one that it refuses is lost, and counted ([`Report`]).
//!
//! | module | holds |
//! |---|---|
//! | [`target`] | [`Target`]: kinds of servers, with their addresses, limits and labels |
//! | [`labels`] | [`Label`]: names and values of what is sent |
//! | [`credentials`] | [`Credentials`]: headers out of files, certificates |
//! | [`parts`] | [`Parts`]: a profile in parts that fit the limits |
//! | [`client`] | [`Client`]: one request and its [`Answer`] |
//! | [`policy`] | [`Policy`]: when a request is sent again, and for how long |
//! | [`delivery`] | [`Delivery`]: all requests of one profile, and the [`Report`] of what became of them |
//! | [`follow`] | finished files of `rprof record --switch-output`, and the name of the last one that was sent |
//! | `body` | bodies of requests, as the published protos have them |
//! | `answer` | answers of servers, as they tell what they took |
//!
//! Nothing here knows how a profile was recorded, and nothing prints.

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
