//! Reads a stream in pipe mode, like `file_reader`, with a valid header.
//!
//! Input: one byte of options (bit 0: big-endian), then the records.

use super::file_reader;

pub(crate) fn run(data: &[u8]) {
    let Some((options, records)) = data.split_first() else {
        return;
    };
    let header = match options & 1 {
        0 => [*b"PERFILE2", 16u64.to_le_bytes()],
        _ => [*b"2ELIFREP", 16u64.to_be_bytes()],
    };
    let mut bytes = header.concat();
    bytes.extend_from_slice(records);
    file_reader::run(&bytes);
}
