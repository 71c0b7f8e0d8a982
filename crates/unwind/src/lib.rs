//! Unwinds call stacks of x86-64, AArch64 and i386 threads.
//!
//! A perf sample holds a thread's registers and a copy of the top of its stack, but no callers.
//! Most programs keep no frame pointers. But nearly every image has *call frame information* (CFI)
//! in `.eh_frame` or `.debug_frame`: the location of the caller's registers for each instruction.
//! This crate applies it. For code without CFI it has checked fallbacks.
//!
//! ```text
//!   ELF bytes                 registers      stack bytes      what is mapped where
//!       |                         |               |                    |
//!       v                         v               v                    v
//!   UnwindTable  <- once     Registers       dyn Memory          dyn Modules ---> UnwindTable, bias
//!   (per image, shared)           |           StackDump               |
//!                                 +---------------+-------------------+
//!                                                 v
//!                                        Unwinder::unwind
//!                                                 |
//!                                   Vec<Frame>, UnwindOutcome
//!                                       |                  |
//!                           Complete(Root)      Truncated(TruncationReason)
//!                                |                         |  the stack bytes ended:
//!                                |                         v
//!   reads of the process's       |          DeepStackCompleter::register_cut
//!   memory, while recording      |                         |
//!        |                       |                         |  0.2 s later, or when the thread ends
//!        v                       v                         v
//!   DeepStackCompleter::observe, ::recheck ---> DeepStackCompleter::complete
//!                                                          |
//!                                 Completion: Callers(frames, Root) or Unknown
//! ```
//!
//! The lower half is for live processes only. This crate never joins the stacks of two samples
//! because their frames look alike.
//!
//! | module | idea |
//! |---|---|
//! | [`table`] | [`UnwindTable`]: CFI rows of one image, compiled on demand |
//! | `registers` | [`Registers`]: register values by DWARF number; unknown values are absent |
//! | `memory` | [`Memory`]: source of stack bytes |
//! | `modules` | [`Modules`]: code of a process, by address |
//! | `unwinder` | [`Unwinder`]: steps from frame to frame until the root |
//! | `step` | one step by CFI |
//! | `cache` | recently used rules, by address |
//! | `expression` | DWARF expressions |
//! | `without_cfi` | one step without CFI: frame pointers, leaf functions, PLT entries |
//! | `hotspot` | one step in code of Java's JIT compilers and interpreter |
//! | `runtimes` | one step in code of Erlang, Guile, LuaJIT and SBCL; Go's stacks |
//! | `signal_context` | signal frames, recognised by their contents |
//! | `simulate` | simulates the rest of a function up to its return |
//! | `code` | recognises calls and exits in machine code |
//! | `frame` | [`StackFrame`], [`UnwindOutcome`], [`Root`], [`TruncationReason`] |
//! | `deep` | [`DeepStackCompleter`]: finds the callers of truncated stacks of live threads |
//!
//! The crate makes no system calls. It does not parse perf records, open files or look up symbols.
//!
//! # Example
//!
//! ```
//! use rprof_unwind::{
//!     Arch, Module, Modules, Registers, StackDump, StackFrame, UnwindOutcome, UnwindTable, Unwinder,
//! };
//!
//! /// A process with one image, mapped as its only code.
//! struct OneImage {
//!     table: UnwindTable,
//!     start: u64,
//!     end: u64,
//!     bias: u64,
//! }
//!
//! impl Modules for OneImage {
//!     fn find(&self, avma: u64) -> Option<Module<'_>> {
//!         (self.start..self.end).contains(&avma).then_some(Module {
//!             table: Some(&self.table),
//!             bias: self.bias,
//!         })
//!     }
//! }
//!
//! fn unwind(sample: &Registers, stack: &[u8], image: &OneImage) -> (Vec<StackFrame>, UnwindOutcome) {
//!     let memory = StackDump::new(sample.sp(), stack);
//!     let mut frames = Vec::new();
//!     let outcome = Unwinder::new(Arch::X86_64).unwind(sample, &memory, image, 1000, &mut frames);
//!     (frames, outcome)
//! }
//! ```
//!
//! # What counts as complete
//!
//! [`Root`] lists the accepted evidence for the outermost frame. Every other stack is
//! [`Truncated`](UnwindOutcome::Truncated), with a [`TruncationReason`]. A return address of 0
//! counts only by CFI or by a chain of frame pointers. A frame pointer of 0 counts only in such a
//! chain, since programs also use the register for other values.
//!
//! # Hostile input
//!
//! Any images, registers and memory are safe. Parsing a table takes linear time. A stack takes at
//! most one bounded step per requested frame. Address arithmetic wraps, nothing panics, and there
//! is no unsafe code.
#![forbid(unsafe_code)]

mod arch;
mod branch;
mod cache;
mod call_edges;
mod code;
mod deep;
mod expression;
mod frame;
mod hotspot;
mod memory;
mod modules;
mod registers;
mod runtimes;
mod signal_context;
mod simulate;
mod step;
pub mod table;
mod unwinder;
mod without_cfi;

pub use arch::Arch;
pub use cache::RuleCacheStats;
pub use deep::{CodeLookup, Completion, CutPoint, DeepStackCompleter, StackObservation};
pub use frame::{
    FoundBy, FrameKind, MissingWord, Root, StackFrame, TruncationReason, UnwindOutcome,
};
pub use hotspot::is_return_barrier;
pub use memory::{Memory, StackDump};
pub use modules::{Module, Modules};
pub use registers::Registers;
pub use runtimes::v8::goes_on_with_bytecode;
pub use simulate::SimulationCacheStats;
pub use table::{
    CalledFunctions, FunctionRanges, GoNames, TableError, TableStats, UnwindTable, go_functions_in,
    go_text_start,
};
pub use unwinder::{CacheStats, Unwinder};
