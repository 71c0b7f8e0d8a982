//! From registers, stack bytes and images to return addresses.
//!
//! A sample says where a thread was and holds a piece of its stack. Which calls led there
//! is written nowhere: most programs keep no frame pointers. But nearly every image describes, for
//! each of its instructions, where the caller's registers are: the *call frame information* in
//! `.eh_frame` and `.debug_frame`. This crate follows it, on x86-64 and AArch64.
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
//! The lower half is for live processes only. A stack that ends before its root is otherwise what it
//! is: nothing in this crate joins the stacks of two samples because their frames look alike.
//!
//! | module | idea |
//! |---|---|
//! | [`table`] | [`UnwindTable`]: the rows of one image, found by binary search, compiled when used |
//! | `registers` | [`Registers`]: values by DWARF number, and which of them are known |
//! | `memory` | [`Memory`]: the source of stack bytes |
//! | `modules` | [`Modules`]: the code of a process, by address |
//! | `unwinder` | [`Unwinder`]: from step to step until the root |
//! | `step` | one step by call frame information |
//! | `cache` | rules that were used lately, by address |
//! | `expression` | DWARF expressions |
//! | `without_cfi` | one step where there is none: frame pointers, leaf functions, PLT entries |
//! | `hotspot` | one step in code of Java's JIT compilers and interpreter |
//! | `runtimes` | one step in code of Erlang, Guile, LuaJIT and SBCL; Go's stacks |
//! | `signal_context` | signal frames by their contents |
//! | `simulate` | a function's remaining code, simulated to its return |
//! | `code` | calls and exits, recognised in machine code |
//! | `frame` | [`Frame`], [`UnwindOutcome`], [`Root`], [`TruncationReason`] |
//! | `deep` | [`DeepStackCompleter`]: callers beyond the end of a copy, from what was observed before and after |
//!
//! It knows no perf records, no files and no names, and makes no system calls.
//!
//! # Example
//!
//! ```
//! use rprof_unwind::{
//!     Arch, Frame, Module, Modules, Registers, StackDump, UnwindOutcome, UnwindTable, Unwinder,
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
//! fn unwind(sample: &Registers, stack: &[u8], image: &OneImage) -> (Vec<Frame>, UnwindOutcome) {
//!     let memory = StackDump::new(sample.sp(), stack);
//!     let mut frames = Vec::new();
//!     let outcome = Unwinder::new(Arch::X86_64).unwind(sample, &memory, image, 1000, &mut frames);
//!     (frames, outcome)
//! }
//! ```
//!
//! # What counts as complete
//!
//! [`Root`] lists the evidence that is accepted for the outermost frame. A stack that ends otherwise is
//! [`Truncated`](UnwindOutcome::Truncated), with a [`TruncationReason`] that has the address at fault.
//! In particular a return address of 0 is believed only from call frame information, and a frame
//! pointer of 0 only after a frame that was found by frame pointer; a program that
//! uses the register for something else has zeros in it, too.
//!
//! # Hostile input
//!
//! Images, registers and memory may hold anything. Tables are read in time linear in
//! their size, a stack takes no more steps than frames are asked for, a step has a bounded
//! number of operations, arithmetic on addresses wraps, and nothing panics. There is no unsafe
//! code.
#![forbid(unsafe_code)]

mod arch;
mod cache;
mod call_edges;
mod code;
mod deep;
mod error;
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
pub use error::TableError;
pub use frame::{FoundBy, Frame, FrameKind, MissingWord, Root, TruncationReason, UnwindOutcome};
pub use memory::{Memory, StackDump};
pub use modules::{Module, Modules};
pub use registers::Registers;
pub use simulate::SimulationCacheStats;
pub use table::{FunctionRanges, TableStats, UnwindTable};
pub use unwinder::{CacheStats, Unwinder};
