//! Code made at run time: which function is at an address of a process, since when, and how it is
//! unwound.
//!
//! JIT compilers write no ELF files. They publish what they made in one of two files, by which profilers
//! name and unwind it:
//!
//! | | perf map | jitdump |
//! |---|---|---|
//! | path | `/tmp/perf-PID.map` | `.../jit-PID.dump`, mapped executably |
//! | format | a line of text for each function | binary records, with times |
//! | of code that moves, or is replaced | the last entry only | each time and place |
//! | lines, unwinding information | no | yes |
//! | type | [`PerfMap`] | [`JitDump`]; [`LiveDump`] while it is written |
//!
//! [`JitProcesses`] says whose files describe a process: its own, then its ancestors'.
//!
//! | module | idea |
//! |---|---|
//! | [`perf_map`] | [`PerfMap`] |
//! | [`jitdump`] | [`JitDump`], [`LiveDump`] |
//! | `history` | interval index: the latest code range that covers an address at a time |
//! | `function` | [`JitFunction`], [`JitLine`]: the answers |
//! | `by_process` | [`JitProcesses`]: which processes have JIT code, and whose files describe it |
//! | `process_root` | [`ProcessRoot`]: the file system as a process sees it |
//! | [`source`] | [`MapFile`]: opens a file that a stranger may have put there |
//! | `live_files` | [`LiveFiles`]: the files of a live process, opened for each look |
//! | `unwind_tables` | [`JitUnwindTables`]: unwind tables of the JIT code of live processes |
//!
//! The crate knows no records and no samples: it is fed with process events.
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
//! Both files are written by the program that was recorded, and `/tmp` is anybody's. So a file is looked
//! at before it is opened ([`source`]), a bad line or record costs itself and no other, and what is
//! kept of a file is bounded by its length.

mod by_process;
mod function;
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
pub use function::{JitFunction, JitLine};
pub use jitdump::{DumpError, JitBytes, JitDump, JitUnwinding, LiveCode, LiveDump};
pub use live_files::LiveFiles;
pub use perf_map::PerfMap;
pub use process_root::ProcessRoot;
pub use source::{MapFile, Refusal};
pub use unwind_tables::JitUnwindTables;
