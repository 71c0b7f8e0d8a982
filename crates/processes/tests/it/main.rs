//! Behaviour of the public API.

mod behaviour;
mod fuzz_corpus;
mod hostile;
mod model;

use rprof_processes::{ImageIdentity, NewMapping};

fn map(path: &str, start: u64, len: u64) -> NewMapping<'_> {
    NewMapping {
        start,
        len,
        file_offset: 0x100,
        path: path.as_bytes(),
        identity: ImageIdentity::PathOnly,
        executable: true,
    }
}
