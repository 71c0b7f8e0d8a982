//! The result of unwinding: [`Frame`]s and an [`UnwindOutcome`].

/// One frame of an unwound stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Frame {
    /// For the first frame, and one that a signal interrupted, the next instruction; for
    /// all others the return address, as it was recorded but without a signature. An AVMA.
    pub address: u64,
    /// The stack pointer in this frame: at the time of the sample, or after the call returns.
    /// On x86-64 that is the canonical frame address of the frame before.
    pub sp: u64,
    /// Address of the stack slot that `address` was read from; 0 if it was in a register.
    pub slot: u64,
    /// Kind of `address`.
    pub kind: FrameKind,
    /// Evidence by which the frame was found.
    pub found_by: FoundBy,
}

/// Kind of a frame's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FrameKind {
    /// The instruction at which the sample was taken.
    Sampled,
    /// A return address: the instruction behind a call.
    Caller,
    /// The instruction at which a signal interrupted the thread.
    Interrupted,
}

/// Evidence by which a frame was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FoundBy {
    /// The sample's registers.
    Registers,
    /// Call frame information of the frame before.
    Cfi,
    /// The frame pointer, where the frame before has no call frame information.
    FramePointer,
    /// The frame's size, which HotSpot (Java) keeps beside its code.
    FrameSize,
    /// The frame before has no call frame information, but its code was followed to its return.
    Code,
    /// The return address was where a call puts it, and nothing had been pushed yet: a PLT
    /// entry, a leaf function in assembly, a call of something that is not there.
    JustCalled,
    /// The registers that the kernel stored when it delivered a signal.
    SignalContext,
    /// Known from other moments of the thread: see [`DeepStackCompleter`](crate::DeepStackCompleter).
    OtherSample,
}

impl Frame {
    /// Returns the frame at which unwinding starts.
    #[must_use]
    pub const fn sampled(ip: u64, sp: u64) -> Self {
        Self {
            address: ip,
            sp,
            slot: 0,
            kind: FrameKind::Sampled,
            found_by: FoundBy::Registers,
        }
    }

    /// Returns the address to look functions up with: inside of the call for callers, since a call may be
    /// the last instruction of its function.
    #[must_use]
    pub const fn lookup_address(&self) -> u64 {
        match self.kind {
            FrameKind::Caller => self.address.wrapping_sub(1),
            FrameKind::Sampled | FrameKind::Interrupted => self.address,
        }
    }
}

/// Outcome of unwinding a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UnwindOutcome {
    /// The last frame is the outermost: the stack is complete.
    Complete(Root),
    /// The last frame is not the outermost.
    Truncated(TruncationReason),
}

impl UnwindOutcome {
    /// Returns true if all frames are there.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        matches!(self, Self::Complete(_))
    }
}

/// Evidence that a frame is the outermost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Root {
    /// Call frame information says that there is no return address: `_start`, `clone` and
    /// `__start_context` of glibc, `runtime.goexit` and `runtime.rt0_go` of Go.
    UndefinedReturnAddress,
    /// The return address is 0. By call frame information, as at the bottom of
    /// coroutines; or by a frame pointer, if the frame pointer saved beside it is 0 too.
    NullReturnAddress,
    /// A chain of frame pointers ended with 0, as the psABI wants it (section 3.4.1), after at
    /// least one frame had been found by it.
    NullFramePointer,
    /// The code at the image's entry point, without call frame information: `_start` of musl and
    /// of dynamic linkers.
    EntryPoint,
    /// Code without call frame information that ends the thread or the process when the call
    /// returns: the start of threads in musl, or what calls `main` there; Go's `goexit`.
    ExitFollows,
    /// A runtime switched to another stack just before the call, at whose beginning it is, and nobody waits for its return:
    /// Go's `mcall`, whose goroutine another thread may run meanwhile; Erlang's calls of C code, on the stack of a scheduler;
    /// SBCL's `call_into_lisp` of the first thread, whose callers are on the stack of `main`.
    SwitchedStack,
    /// Erlang: the function returns to the start of one that ends its process.
    EndOfProcess,
}

/// Word that is missing where the callers are on another stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MissingWord {
    /// The next return address, in the slot at this address.
    ReturnAddress(u64),
    /// The word at this address, which tells where the other stack is.
    Link(u64),
    /// Nothing tells where the other stack is.
    Unknown,
}

/// Reason why unwinding ended before the root. Addresses are AVMAs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum TruncationReason {
    /// The stack bytes did not reach far enough.
    #[error("the stack dump ends before {address:#x}")]
    StackEnded {
        /// Address that would have been read.
        address: u64,
    },
    /// The code has no unwind information, and its frame pointer register holds something else.
    #[error("no unwind information for {address:#x}")]
    NoUnwindInfo {
        /// The frame that could not be unwound.
        address: u64,
    },
    /// The call frame information is damaged, or says something that is not supported.
    #[error("unusable call frame information for {address:#x}")]
    BadCfi {
        /// The frame that could not be unwound.
        address: u64,
    },
    /// A rule needs a register whose value is not known.
    #[error("the value of register {register} is unknown at {address:#x}")]
    MissingRegister {
        /// The frame that could not be unwound.
        address: u64,
        /// DWARF number.
        register: u8,
    },
    /// A rule led to memory that is not the stack, and that is not known.
    #[error("cannot read memory at {address:#x}")]
    BadMemory {
        /// Address that would have been read.
        address: u64,
    },
    /// The callers are on another stack, which was not copied: that of a goroutine below `systemstack`, of C code below a
    /// callback, or the one that a signal interrupted.
    #[error("the callers of {address:#x} are on another stack")]
    OtherStack {
        /// The frame whose caller is there.
        address: u64,
        /// What is missing.
        missing: MissingWord,
    },
    /// The return address is not one: nothing executable is mapped there.
    #[error("return address {address:#x} is outside all code")]
    NotMapped {
        /// The return address.
        address: u64,
    },
    /// The caller's stack pointer is not above that of the frame it called.
    #[error("the stack does not grow at {address:#x}")]
    NotProgressing {
        /// The frame whose caller made no sense.
        address: u64,
    },
    /// There are more frames than were asked for.
    #[error("too many frames")]
    TooDeep,
}

// Half a million may be kept: see `DeepStackCompleter`.
const _: () = assert!(size_of::<Frame>() == 32);
