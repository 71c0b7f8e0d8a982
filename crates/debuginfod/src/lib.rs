//! Downloads debug files from [debuginfod](https://sourceware.org/elfutils/Debuginfod.html)
//! servers, by build-id.
//!
//! [`Client`] implements [`RemoteFiles`](rprof_image::RemoteFiles). A symbolizer uses it for files
//! missing on this machine. It queries the servers in `DEBUGINFOD_URLS`, and shares the cache of
//! the elfutils client.
//!
//! | module | holds |
//! |---|---|
//! | [`settings`] | [`Settings`]: servers, cache and limits, from the environment |
//! | [`client`] | [`Client`]: searches the cache, then each server; reports outcomes |
//! | `cache` | cache folder shared with elfutils |
//! | `transfer` | download of one file with limits on time and size |
//! | `sources` | source files, which are not cached |
//! | `outcome` | [`RequestOutcome`], [`Failure`]: outcomes, with messages for the user |
//!
//! Servers are not trusted. Downloads have limits on time and size. A file is accepted, and moved
//! to its cache path, only if its build-id matches the request.

pub mod client;
mod outcome;
mod redirect;
pub mod settings;

mod cache;
mod sources;
mod transfer;

pub use client::{Client, DownloadProgress};
pub use outcome::{Failure, FetchResult, RequestOutcome};
pub use settings::{Settings, SettingsError};
