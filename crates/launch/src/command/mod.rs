//! Starts a command so that events miss nothing: the child waits before its exec until released.
//!
//! ```text
//!   spawn()              release()
//!   parent: build argv,  open events for the     write a byte,
//!           fork ------> child's pid, start ---> read the exec pipe ---> wait
//!   child:  block on the release pipe . . . . .  execve (pipe closes, or errno comes back)
//! ```
//!
//! Events are opened disabled with `enable_on_exec`, so a recording starts with the program's own
//! first instruction. The child inherits the caller's standard streams, process group and working
//! directory.

mod candidates;
mod child;
mod error;
mod exec;
mod launcher;
mod signals;
mod usage;

pub use candidates::find_program;
pub use child::{Child, WaitOutcome};
pub use error::{ExecError, LaunchError};
pub use launcher::Launcher;
pub use signals::{block_all_signals, signal_is_ignored};
pub use usage::ResourceUsage;

#[cfg(test)]
mod tests;
