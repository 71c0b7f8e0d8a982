//! Reads the files of JIT compilers that describe their code, for names and unwinding.
//!
//! JIT compilers write no ELF files, but one of two files for profilers:
//!
//! | | perf map | jitdump |
//! |---|---|---|
//! | path | `/tmp/perf-PID.map` | `.../jit-PID.dump`, mapped executably |
//! | format | one line of text per function | binary records, with times |
//! | moved or replaced code | the last entry only | every address, with its time |
//! | lines, unwinding information | no | yes |
//! | type | [`PerfMap`] | [`JitDump`]; [`LiveDump`] for a growing file |
//!
//! | module | contents |
//! |---|---|
//! | [`perf_map`] | [`PerfMap`] |
//! | [`jitdump`] | [`JitDump`], [`LiveDump`] |
//! | `history` | interval index: the latest code range at an address and time |
//! | `function` | [`JitFunction`], [`JitLine`]: lookup results |
//! | `by_process` | [`JitProcesses`]: processes with JIT code, and their files |
//! | `process_root` | [`ProcessRoot`]: the file system as a process sees it |
//! | [`source`] | [`MapFile`]: safe opening of an untrusted file |
//! | `live_files` | [`LiveFiles`]: the files of a live process |
//! | `interpreted` | [`InterpretedNames`]: addresses for functions without machine code |
//! | `unwind_tables` | [`JitUnwindTables`]: unwind tables for live processes |
//!
//! The crate must not depend on records or samples: callers pass process events.
//!
//! # Example
//!
//! ```
//! use rprof_jit::PerfMap;
//!
//! let map = PerfMap::parse(b"7f0000001000 40 add\n7f0000001040 80 main.loop\n".to_vec());
//! let function = map.lookup(0x7f00_0000_1050).expect("an entry covers it");
//! assert_eq!((&*function.name, function.start, function.size), ("main.loop", 0x7f00_0000_1040, 0x80));
//! assert_eq!(map.bad_lines(), 0);
//! ```
//!
//! # Hostile input
//!
//! The recorded program writes both files, and `/tmp` is world-writable. So [`source`] checks a
//! file before opening it. Only the bad lines or records of a file are skipped. Memory use is
//! bounded by its length.

mod by_process;
mod function;
mod history;
mod interpreted;
pub mod jitdump;
mod live_files;
pub mod perf_map;
mod process_root;
pub mod source;
mod unwind_tables;

pub use by_process::{
    JitMapping, JitProcesses, MAX_JITDUMPS, MAX_LINEAGE, is_jitdump, may_hold_jit_code,
};
pub use function::{JitFunction, JitLine};
pub use interpreted::{INTERPRETED, INTERPRETED_PATH, InterpretedNames};
pub use jitdump::{DumpError, JitBytes, JitDump, JitUnwinding, LiveCode, LiveDump};
pub use live_files::LiveFiles;
pub use perf_map::PerfMap;
pub use process_root::{ProcessRoot, boot_time};
pub use source::{MapFile, Refusal};
pub use unwind_tables::JitUnwindTables;
