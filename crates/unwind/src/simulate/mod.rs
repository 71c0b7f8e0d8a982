//! Simulation of a function's remaining code, where there is no call frame information.
//!
//! From the next instruction on, the code is followed to its return, and what it does to the stack
//! pointer and to the registers that it must restore is done here, too. Where that ends is the caller.
//! It takes nothing but the code, and works in leaf functions, prologues, epilogues and callers alike,
//! with and without frame pointers: musl, `_init`, PLT entries, assembly.
//!
//! Conditions are not evaluated: at a branch the next instruction is tried first, then the target. A
//! call is taken to return; where it does not (`abort`), what follows may belong to something else, so
//! the caller of this checks what it gets.
//!
//! | module | idea |
//! |---|---|
//! | `search` | [`simulate_to_return`]: tries all paths |
//! | `path` | [`PathState`]: registers and stack along one path |
//! | `aarch64` | the same search for AArch64, by its own few instructions |
//! | `cache` | [`SimulationCache`]: searches of before, done again |
//! | `frame_pointer` | [`frame_pointer_use`]: whose frame the frame pointer leads to |
//! | `window` | [`CodeWindow`]: code bytes, read in pieces |

mod aarch64;
mod cache;
mod frame_pointer;
mod path;
mod search;
mod window;

pub(crate) use cache::SimulationCache;
pub use cache::SimulationCacheStats;
pub(crate) use frame_pointer::{FramePointerUse, frame_pointer_use};
pub(crate) use path::{Exit, PathState, Stop};
pub(crate) use search::simulate_to_return;
pub(crate) use window::CodeSource;
