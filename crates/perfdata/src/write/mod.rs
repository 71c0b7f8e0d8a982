//! Writing a recording.
//!
//! | module | holds |
//! |---|---|
//! | [`file`] | [`FileWriter`](file::FileWriter): a file |
//! | [`growing`] | [`GrowingWriter`](growing::GrowingWriter): a file that is whole whenever its writer dies |
//! | [`pipe`] | [`PipeWriter`](pipe::PipeWriter): a stream |
//! | `compress` | records to COMPRESSED records |

mod compress;
pub mod file;
pub mod growing;
pub mod pipe;
