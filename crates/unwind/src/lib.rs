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
//!                                 |           WithFallback            |
//!                                 +---------------+-------------------+
//!                                                 v
//!                                        Unwinder::unwind
//!                                                 |
//!                              Vec<Frame>, End ---+
//!                                                 v
//!                                      ThreadStacks::complete    (deep stacks, small dumps)
//!                                                 |
//!                                                 v
//!                              Vec<Frame>, End: Root, Joined, Truncated(Cause)
//! ```
//!
//! | module | idea |
//! |---|---|
//! | [`table`] | [`UnwindTable`]: the rows of one image, found by binary search, compiled when used |
//! | `registers` | [`Registers`]: values by DWARF number, and which of them are known |
//! | `memory` | [`Memory`]: what stacks are read from |
//! | `modules` | [`Modules`]: which image is mapped at an address |
//! | `step` | one step by call frame information |
//! | `cache` | the steps taken lately, by address |
//! | `expression` | DWARF expressions |
//! | `without_cfi` | one step where there is none: frame pointers, leaf functions, PLT entries |
//! | `hotspot` | one step out of what Java's compilers and interpreter made |
//! | `signal_context` | signal frames by their contents |
//! | `walk` | the way out of a function, as its code shows it |
//! | `code` | calls and exits, as code shows them |
//! | `unwinder` | [`Unwinder`]: from step to step |
//! | `frame` | [`Frame`], [`End`], [`Root`], [`Cause`] |
//! | `join` | [`ThreadStacks`]: what is remembered of each thread |
//! | `outer` | [`OuterFrames`]: what is believed of a stack that was cut, by what was seen before and after |
//!
//! It knows no perf records, no files and no names, and makes no system calls.
//!
//! # Example
//!
//! ```
//! use rprof_unwind::{
//!     Arch, End, Frame, Module, Modules, Registers, StackDump, UnwindTable, Unwinder,
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
//! fn unwind(sample: &Registers, stack: &[u8], image: &OneImage) -> (Vec<Frame>, End) {
//!     let memory = StackDump::new(sample.sp(), stack);
//!     let mut frames = Vec::new();
//!     let end = Unwinder::new(Arch::X86_64).unwind(sample, &memory, image, 1000, &mut frames);
//!     (frames, end)
//! }
//! ```
//!
//! # What counts as complete
//!
//! [`Root`] lists what is taken for the outermost frame. A stack that ended otherwise
//! is [`Truncated`](End::Truncated), with a [`Cause`] and an address whose image is to blame.
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
mod code;
mod error;
mod expression;
mod frame;
mod hotspot;
mod join;
mod memory;
mod modules;
mod outer;
mod registers;
mod signal_context;
mod step;
pub mod table;
mod unwinder;
mod walk;
mod without_cfi;

pub use arch::Arch;
pub use error::TableError;
pub use frame::{Cause, End, FoundBy, Frame, FrameKind, Root};
pub use join::ThreadStacks;
pub use memory::{Memory, StackDump, WithFallback};
pub use modules::{Module, Modules};
pub use outer::{Functions, OuterFrames, Place, Sighting, Verdict};
pub use registers::Registers;
pub use table::{TableStats, UnwindTable};
pub use unwinder::Unwinder;
