//! Checks stacks against disassembly, independent of the unwinder.
//!
//! A stack says that each function was called by the next one. The code can contradict this:
//!
//! 1. Before the return address must stand a call.
//! 2. A direct call must lead to the callee: its target is the callee's function, or jumps to it, or
//!    is a stub for a symbol that leads there.
//! 3. After a call through a pointer, something must name the callee's address.
//!
//! [`check`] reads the text of `rprof script` or `perf script`, and applies these rules to each pair
//! of frames. It shares no code with `rprof-unwind`: decoding, bounds of functions and linkage
//! tables are its own. Its answer is "possible" wherever it cannot know better, so each impossible
//! pair is an error in the stack, or one of the checker.
//!
//! | exception | rule |
//! |---|---|
//! | signals | a handler returns to a trampoline; the frame behind it was interrupted anywhere |
//! | roots | a return address that no call wrote has a description without a caller, or code that ends the process |
//! | other stacks | a callee that has just loaded the stack pointer has the callers of another stack |
//! | generated code | pairs with it are counted as not checked |
//!
//! # Examples
//!
//! ```
//! use rprof_edges::{Callers, check};
//!
//! let report = check("", Callers::Return);
//! assert_eq!((report.checked(), report.impossible()), (0, 0));
//! ```

mod checker;
mod code;
mod decode;
mod elf;
mod entries;
mod go;
mod image;
mod reach;
mod report;
mod script;
mod unwind_info;
mod verdict;

pub use report::{Callers, EdgeCount, EdgeFinding, EdgeSide, Report, check};
pub use script::FIELDS;
pub use verdict::EdgeVerdict;
