//! [`Watcher`]: looks at a thread between its samples.

use std::fmt::Debug;
use std::ops::Range;

use crate::ProcessMemory;

/// Looks at one thread of a process at short intervals, and keeps the evidence for the
/// [`Interpreter`](crate::Interpreter) that made it.
///
/// A sample needs a look at the thread soon after it. A thread that only takes looks wakes up once
/// for each, and the reader of samples takes several of them together.
pub trait Watcher: Debug + Send {
    /// Returns when looks are useful: from the next one to the end of samples. In nanoseconds of the
    /// clock of [`Stack::time`](crate::Stack::time).
    fn due(&self) -> Range<u64>;

    /// Returns true once the interpreter has forgotten the thread.
    fn is_over(&self) -> bool;

    /// Takes a look. Keeps its results only if they are
    /// [confirmed](ProcessMemory::is_confirmed).
    fn look(&mut self, memory: &mut dyn ProcessMemory);
}
