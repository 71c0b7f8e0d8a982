//! Reading a recording: files, streams and folders.
//!
//! | module | holds |
//! |---|---|
//! | [`reader`] | [`PerfData`](reader::PerfData): an opened recording |
//! | [`blocks`] | [`Blocks`](blocks::Blocks): the records in pieces of about a MiB, decompressed |
//! | [`walk`] | [`Walk`](walk::Walk): record after record through a piece |
//! | [`by_time`] | [`RecordsByTime`](by_time::RecordsByTime): the records in order of time |
//! | [`events`] | [`Events`](events::Events): which record belongs to which event |
//! | `pipe` | the header records of a stream |
//! | `folder` | the files of a folder |
//! | `inflate` | the zstd stream in COMPRESSED records |

pub mod blocks;
pub mod by_time;
pub mod events;
mod folder;
mod inflate;
pub(crate) mod pipe;
pub mod reader;
pub mod walk;
