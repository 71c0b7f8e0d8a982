//! [`Stack`]: an unwound native stack, with the registers of each frame.

use rprof_unwind::{Memory, Registers, StackFrame};

/// Code of a native frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeKind {
    /// Code of the runtime's image, with the stated address (SVMA) of the
    /// [lookup address](StackFrame::lookup_address).
    Image(u64),
    /// Memory without a file, such as code of a JIT compiler.
    Generated,
    /// Code of a library that [switches](crate::switches_stacks) between stacks.
    Switch,
    /// Other code.
    Other,
}

/// Native frame with the registers known in it.
#[derive(Clone, Copy, Debug)]
pub struct NativeFrame {
    /// The frame.
    pub frame: StackFrame,
    /// Registers at the frame's address: all for the sampled frame, those restored for callers.
    pub registers: Registers,
    /// Code at the frame's address.
    pub code: CodeKind,
}

/// Native stack of a sample.
#[derive(Clone, Copy)]
pub struct Stack<'a> {
    /// Number of the thread.
    pub thread: u64,
    /// Time of the sample in nanoseconds, monotonic.
    pub time: u64,
    /// Native frames, innermost first.
    pub frames: &'a [NativeFrame],
    /// Stack bytes of the moment of the sample.
    pub memory: &'a dyn Memory,
    /// True if the last frame is the outermost.
    pub is_complete: bool,
    /// True if the thread has slept since then. All memory that only it changes is of this moment.
    pub is_asleep: bool,
}

impl Stack<'_> {
    /// Returns the canonical frame address of a frame: the stack pointer of its caller. `None` for
    /// the last frame.
    #[must_use]
    pub fn frame_address(&self, index: usize) -> Option<u64> {
        let caller = self.frames.get(index.checked_add(1)?)?;
        Some(caller.frame.sp)
    }
}

impl std::fmt::Debug for Stack<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (formatter.debug_struct("Stack"))
            .field("thread", &self.thread)
            .field("time", &self.time)
            .field("frames", &self.frames)
            .finish_non_exhaustive()
    }
}
