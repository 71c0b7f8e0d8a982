//! [`RuntimeKind`]: an interpreted language. [`Interpreter`]: its reader in one process. [`Watcher`]:
//! looks at a thread between its samples.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use crate::{Found, ImageSymbols, Names, NativeFrame, ProcessMemory, Stack};

/// A language runtime, as an image in a process.
pub trait RuntimeKind: Debug + Send + Sync {
    /// Returns true if an image with this file name may contain the runtime.
    fn is_image(&self, name: &[u8]) -> bool;

    /// Returns a symbol that programs with the runtime inside export, whatever their file name.
    fn exported_symbol(&self) -> Option<&'static str> {
        None
    }

    /// Returns the name of a constant with the version, for images whose file name does not tell it.
    fn version_symbol(&self) -> Option<&'static str> {
        None
    }

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

    /// Returns true if the runtime may copy its image's code into memory without a file.
    fn copies_text(&self) -> bool {
        false
    }

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

/// Looks at one thread of a process at short intervals, and keeps the evidence for the
/// [`Interpreter`] that made it.
///
/// A sample needs a look at the thread soon after it. A thread that only takes looks wakes up once
/// for each, and the reader of samples takes several of them together.
pub trait Watcher: Debug + Send {
    /// Returns when looks are useful: from the next one to the end of samples. In nanoseconds of the
    /// clock of [`Stack::time`].
    fn due(&self) -> Range<u64>;

    /// Returns true once the interpreter has forgotten the thread.
    fn is_over(&self) -> bool;

    /// Takes a look. Keeps its results only if they are
    /// [confirmed](ProcessMemory::is_confirmed).
    fn look(&mut self, memory: &mut dyn ProcessMemory);
}
