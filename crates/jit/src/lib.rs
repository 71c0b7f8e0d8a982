//! Code that was made at run time: which function lies where, and since when.
//!
//! | module | idea |
//! |---|---|
//! | [`perf_map`] | [`PerfMap`]: `/tmp/perf-PID.map`, a line of text for each function |
//! | [`jitdump`] | [`JitDump`]: `jit-PID.dump`, records with times, moves, lines and unwinding information; [`LiveDump`]: the last while it is written |
//! | `history` | who lay at an address at a time |
//! | `by_process` | [`JitProcesses`]: which processes have JIT code, and whose files describe it |
//! | `process_root` | [`ProcessRoot`]: the file system as a process sees it |
//! | `live_files` | [`LiveFiles`]: the files of a live process, held open |
//! | `unwind_tables` | [`JitUnwindTables`]: unwind tables of what living processes made, from their jitdumps |
//! | [`source`] | [`MapFile`]: opening these files, which anybody may have put there |
//!
//! Both are written by the program that was recorded, so whatever stands in them is taken for
//! data of a stranger: a bad line or record costs itself and no other, and what is kept of a
//! file is bounded by its length.

mod by_process;
mod history;
pub mod jitdump;
mod live_files;
pub mod perf_map;
mod process_root;
pub mod source;
mod unwind_tables;

pub use by_process::{
    JitMapping, JitProcesses, MAX_JITDUMPS, MAX_LINEAGE, is_jitdump, may_hold_jit_code,
};
pub use jitdump::{DumpError, JitDump, JitUnwinding, LiveCode, LiveDump};
pub use live_files::{AwaitedFile, LiveFiles};
pub use perf_map::PerfMap;
pub use process_root::ProcessRoot;
pub use source::{MapFile, Refusal};
pub use unwind_tables::JitUnwindTables;

use std::borrow::Cow;

/// Longest name that is shown, in bytes. What runtimes write stays far below.
const LONGEST_NAME: usize = 4096;

/// A function that was made at run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JitFunction<'a> {
    /// Its name as the runtime wrote it, bytes that are no UTF-8 replaced. It may hold any
    /// character: escape it before showing it.
    pub name: Cow<'a, str>,
    /// Where it starts: AVMA.
    pub start: u64,
    /// Its length in bytes.
    pub size: u64,
}

/// A line of source code, as a jitdump tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JitLine<'a> {
    /// The file's name, as the runtime wrote it.
    pub file: &'a str,
    /// The line, from 1.
    pub line: u32,
}

/// A name as text, cut where it is too long.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    match bytes.len() > LONGEST_NAME {
        true => Cow::Owned(format!(
            "{}…",
            String::from_utf8_lossy(&bytes[..LONGEST_NAME])
        )),
        false => String::from_utf8_lossy(bytes),
    }
}
