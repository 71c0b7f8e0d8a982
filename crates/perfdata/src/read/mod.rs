//! Reads recordings: files, streams and folders.

pub mod blocks;
pub mod by_time;
pub mod events;
mod folder;
mod inflate;
pub(crate) mod pipe;
pub mod reader;
pub mod walk;
