//! Simulates the rest of a function where there is no call frame information.
//!
//! The simulation runs up to the return. It tracks the stack pointer and the callee-saved
//! registers, so the final state is the caller's. It works anywhere in a function, with and without
//! frame pointers: musl, `_init`, PLT entries, assembly.
//!
//! Conditions are not evaluated: at a branch, the next instruction is tried first, then the target.
//! Calls are assumed to return. After one that does not (`abort`), the path may run into another
//! function, so the result must be checked.
//!
//! | module | idea |
//! |---|---|
//! | `search` | [`simulate_to_return`]: tries all paths |
//! | `path` | [`PathState`]: registers and stack along one path |
//! | `aarch64` | the same search for AArch64 |
//! | `cache` | [`SimulationCache`]: replays earlier searches |
//! | `frame_pointer` | [`frame_pointer_use`]: whether the frame pointer is the function's own |
//! | `moves` | [`undescribed_move`]: moves of the stack pointer that no description has |
//! | `prologue` | the code before a frame; calls that are a part of a prologue or of a return |
//! | `window` | [`CodeWindow`]: buffered reads of code |

mod aarch64;
mod cache;
mod frame_pointer;
mod moves;
mod path;
mod prologue;
mod search;
mod window;

pub(crate) use aarch64::moves_stack;
pub(crate) use cache::SimulationCache;
pub use cache::SimulationCacheStats;
pub(crate) use frame_pointer::frame_pointer_use;
pub(crate) use moves::{UndescribedMove, undescribed_move};
pub(crate) use path::{Exit, PathState, Stop, pushes_own_address};
pub(crate) use prologue::{
    FramePointerUse, depth_from, entered_by, entries_before, inline_thunk, makes_frame,
};
pub(crate) use search::{is_plt_jump, simulate_to_return};
pub(crate) use window::CodeSource;
