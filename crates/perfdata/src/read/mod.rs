//! Reads recordings: files, streams and folders.
//!
//! | module | holds |
//! |---|---|
//! | [`reader`] | [`PerfData`](reader::PerfData): an opened recording |
//! | [`blocks`] | [`Blocks`](blocks::Blocks): decompressed records in blocks of about 1 MiB |
//! | [`walk`] | [`Walk`](walk::Walk): iterator over the records of a block |
//! | [`by_time`] | [`RecordsByTime`](by_time::RecordsByTime): records in time order |
//! | [`events`] | [`Events`](events::Events): assigns records to events |
//! | `pipe` | header records of a stream |
//! | `folder` | files of a folder |
//! | `inflate` | zstd stream in COMPRESSED records |

pub mod blocks;
pub mod by_time;
pub mod events;
mod folder;
mod inflate;
pub(crate) mod pipe;
pub mod reader;
pub mod walk;
