//! Finds the functions of interpreted languages on unwound stacks of running processes.
//!
//! A native stack of a Python program shows the interpreter's own C functions. This crate finds the
//! program's functions: from the registers and the stack bytes of the sample, which are exact, and
//! from reads of process memory, which happen later. It reports only functions that the evidence
//! proves. The rest is a [gap](Found::push_gap), and counted.
//!
//! ```text
//!   file name --> Runtime::is_image        symbols of the image --> Runtime::image
//!                                                                        |  once per image
//!                                                                        v
//!                                                                  RuntimeImage::process
//!                                                                        |  once per process
//!   Stack: frames with registers, stack bytes --+                        v
//!   ProcessMemory: one call per batch ----------+-------------> Interpreter::read --> Found
//!   Names: name to address ---------------------+
//! ```
//!
//! | module | idea |
//! |---|---|
//! | `runtime` | [`RuntimeKind`], [`Interpreter`], [`Watcher`]: what each language implements |
//! | `registry` | [`runtimes_of`]: the supported runtimes |
//! | `stack` | [`Stack`], [`NativeFrame`]: the input |
//! | `memory` | [`ProcessMemory`]: batches of reads |
//! | `found` | [`Found`]: the output |
//! | `python` | CPython 3.8 to 3.14 |
//! | `split` | parts of a function without symbols |
//! | `symbols` | [`ImageSymbols`]: the symbols that a runtime needs |
//! | `v8` | Node.js 18, 20, 22, 24 and 26 |
//! | `hotspot` | Java 11, 17, 21 and 25 |
//! | `snapshot` | process memory of one stack, read in rounds |
//!
//! The crate makes no system calls, and knows no records and no files.
//!
//! # Hostile input
//!
//! A process controls its memory, so every word may lie. Reads and loops are bounded, arithmetic
//! wraps, and nothing panics.
#![forbid(unsafe_code)]

mod found;
mod hotspot;
mod memory;
mod python;
mod registry;
mod runtime;
mod snapshot;
mod split;
mod stack;
mod symbols;
mod v8;

pub use found::{
    FROZEN_JAVA_CALLERS, Found, InterpretedFrame, JAVA_STUB, Names, UNNAMED_JAVA,
    UNNAMED_JAVASCRIPT, UNNAMED_PYTHON, UNPROVEN_CALLERS, Urgency,
};
pub use memory::{MemoryRead, ProcessMemory};
pub use registry::{may_contain_runtime, runtimes_in, runtimes_of, switches_stacks};
pub use runtime::{Interpreter, RuntimeImage, RuntimeKind, Watcher};
pub use stack::{CodeKind, NativeFrame, Stack};
pub use symbols::{ImageSymbol, ImageSymbols};
