//! [`Runtime`]: an interpreted language, and [`Interpreter`]: its reader in one process.

use std::fmt::Debug;
use std::sync::Arc;

use crate::{Found, ImageSymbols, Names, NativeFrame, ProcessMemory, Stack, Watcher};

/// A language runtime, as an image in a process.
pub trait Runtime: Debug + Send + Sync {
    /// Returns true if an image with this file name may contain the runtime.
    fn is_image(&self, name: &[u8]) -> bool;

    /// Returns true if the reader needs a symbol of this name.
    fn wants_symbol(&self, name: &[u8]) -> bool;

    /// Returns true if these symbols suffice, so that further symbol tables are not read.
    fn has_all(&self, symbols: &ImageSymbols) -> bool {
        let _ = symbols;
        false
    }

    /// Returns the name of a function whose parts are [needed](ImageSymbols::find_parts).
    fn split_function(&self) -> Option<&'static str> {
        None
    }

    /// Returns the runtime in an image with these symbols and this file name. `None` if the image
    /// does not contain the runtime, or a version that is not supported.
    fn image(&self, name: &[u8], symbols: &ImageSymbols) -> Option<Arc<dyn RuntimeImage>>;
}

/// A runtime's image. Processes share it, and the learned facts about its code.
pub trait RuntimeImage: Debug + Send + Sync {
    /// Returns a reader for a process that maps the image with this bias (AVMA minus SVMA).
    fn process(self: Arc<Self>, bias: u64) -> Box<dyn Interpreter>;
}

/// Reader of one process's stacks.
pub trait Interpreter: Debug + Send {
    /// Returns true if a native frame may be one of the interpreter's, by its code alone.
    fn is_own(&self, frame: &NativeFrame) -> bool;

    /// Finds the functions of a stack with at least one of its own frames, and adds them to
    /// `found`.
    fn read(
        &mut self,
        stack: &Stack<'_>,
        memory: &mut dyn ProcessMemory,
        names: &mut dyn Names,
        found: &mut Found,
    );

    /// Called once if a perf map or a jitdump of the process names its generated code.
    fn handle_named_code(&mut self) {}

    /// Returns a new watcher, which the caller may run on another thread. Without it, each sample
    /// has reads of its own.
    fn take_watcher(&mut self) -> Option<Box<dyn Watcher>> {
        None
    }

    /// Forgets a thread that has ended.
    fn forget_thread(&mut self, thread: u64) {
        let _ = thread;
    }
}
