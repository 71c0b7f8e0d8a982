//! Debug files from [debuginfod](https://sourceware.org/elfutils/Debuginfod.html) servers, by build-id.
//!
//! [`Client`] is a [`RemoteFiles`](rprof_image::RemoteFiles): a
//! symbolizer that is given one asks it for what this machine
//! lacks. It asks the servers in `DEBUGINFOD_URLS`, and keeps what they have in the cache of the
//! elfutils client, so that both share it.
//!
//! | module | idea |
//! |---|---|
//! | [`settings`] | [`Settings`]: servers, cache and limits, from the environment |
//! | [`client`] | [`Client`]: cache first, then each server; outcomes of requests |
//! | `cache` | the folder that is shared with elfutils |
//! | `transfer` | one file from one server, in bounded time and size |
//! | `sources` | source files, which are not kept |
//! | `outcome` | [`Outcome`], [`Failure`]: outcomes, with messages for the user |
//!
//! A server is not trusted: what it sends is bounded in size and time, is taken only if its
//! build-id is the one that was asked for, and appears in the cache under its name only then.

pub mod client;
mod outcome;
mod redirect;
pub mod settings;

mod cache;
mod sources;
mod transfer;

pub use client::{Client, Progress};
pub use outcome::{Failure, FetchResult, Outcome};
pub use settings::{Settings, SettingsError};
