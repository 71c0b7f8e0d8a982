//! Results of unwinding: [`Frame`]s and an [`UnwindOutcome`].

/// One frame of an unwound stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Frame {
    /// AVMA of the next instruction for sampled and interrupted frames; otherwise the return
    /// address, without its signature.
    pub address: u64,
    /// Stack pointer in this frame: as sampled, or after the call returns. On x86-64 it is the
    /// canonical frame address of the preceding (inner) frame.
    pub sp: u64,
    /// Address of the stack slot that held `address`; 0 if a register held it.
    pub slot: u64,
    /// Kind of `address`.
    pub kind: FrameKind,
    /// Evidence for the frame.
    pub found_by: FoundBy,
}

/// Kind of a frame's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FrameKind {
    /// The sampled instruction.
    Sampled,
    /// A return address: the instruction after a call.
    Caller,
    /// The instruction at which a signal interrupted the thread.
    Interrupted,
}

/// Evidence for a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FoundBy {
    /// The sample's registers.
    Registers,
    /// Call frame information of the inner frame.
    Cfi,
    /// The frame pointer. The inner frame has no call frame information.
    FramePointer,
    /// The frame size that HotSpot (Java) stores beside its code.
    FrameSize,
    /// Simulation of the inner frame's code up to its return.
    Code,
    /// A return address at the place where a call puts it, before the function pushed anything: a
    /// PLT entry, a leaf function in assembly, a call to an unmapped address.
    JustCalled,
    /// The registers that the kernel saved when it delivered a signal.
    SignalContext,
    /// Other observations of the thread: see [`DeepStackCompleter`](crate::DeepStackCompleter).
    OtherSample,
}

impl Frame {
    /// Returns the frame where unwinding starts.
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

    /// Returns the address for symbol lookups. For callers it lies inside the call instruction,
    /// since a call may be the last instruction of its function.
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
    /// Returns true if the stack is complete.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        matches!(self, Self::Complete(_))
    }
}

/// Evidence that a frame is the outermost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Root {
    /// Call frame information marks the return address as undefined: `_start`, `clone` and
    /// `__start_context` of glibc, `runtime.goexit` and `runtime.rt0_go` of Go.
    UndefinedReturnAddress,
    /// The return address is 0: by call frame information, as at the bottom of coroutines, or by
    /// frame pointer, if the saved frame pointer is 0 too.
    NullReturnAddress,
    /// A chain of frame pointers ended with 0, as the psABI requires (section 3.4.1). At least one
    /// frame must have been found by frame pointer.
    NullFramePointer,
    /// Code at the image's entry point, without call frame information: `_start` of musl and of
    /// dynamic linkers.
    EntryPoint,
    /// Code without call frame information that ends the thread or the process after the call: the
    /// thread start and the caller of `main` in musl; Go's `goexit`.
    ExitFollows,
    /// A runtime switched to the start of another stack just before a call that never returns to
    /// its caller: Go's `mcall`, whose goroutine may meanwhile run on another thread; Erlang
    /// calling C code on a scheduler's stack; SBCL's `call_into_lisp` in the first thread, whose
    /// callers are on the stack of `main`.
    SwitchedStack,
    /// Erlang: the function returns to code that ends its process.
    EndOfProcess,
}

/// Missing word that would lead to callers on another stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MissingWord {
    /// The next return address, in the slot at this address.
    ReturnAddress(u64),
    /// The word at this address, which would locate the other stack.
    Link(u64),
    /// No word locates the other stack.
    Unknown,
}

/// Reason why unwinding ended before the root. Addresses are AVMAs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum TruncationReason {
    /// The copied stack bytes end before the needed address.
    #[error("the stack dump ends before {address:#x}")]
    StackEnded {
        /// Address of the failed read.
        address: u64,
    },
    /// The code has no unwind information, and its frame pointer is unusable.
    #[error("no unwind information for {address:#x}")]
    NoUnwindInfo {
        /// Address in the frame that could not be unwound.
        address: u64,
    },
    /// The call frame information is damaged or uses an unsupported feature.
    #[error("unusable call frame information for {address:#x}")]
    BadCfi {
        /// Address in the frame that could not be unwound.
        address: u64,
    },
    /// A rule needs a register whose value is unknown.
    #[error("the value of register {register} is not known at {address:#x}")]
    MissingRegister {
        /// Address in the frame that could not be unwound.
        address: u64,
        /// DWARF number of the register.
        register: u8,
    },
    /// A rule led to unknown memory far from the stack.
    #[error("cannot read memory at {address:#x}")]
    BadMemory {
        /// Address of the failed read.
        address: u64,
    },
    /// The callers are on another stack, which was not copied: a goroutine's below `systemstack`, a
    /// C stack below a callback, or the stack that a signal interrupted.
    #[error("the callers of {address:#x} are on another stack")]
    OtherStack {
        /// Address in the frame whose caller is on the other stack.
        address: u64,
        /// Missing word.
        missing: MissingWord,
    },
    /// The return address is invalid: no code is mapped there.
    #[error("return address {address:#x} is not in any code")]
    NotMapped {
        /// The invalid return address.
        address: u64,
    },
    /// The caller's stack pointer is not above the callee's.
    #[error("the stack does not grow at {address:#x}")]
    NotProgressing {
        /// Address in the frame whose caller is implausible.
        address: u64,
    },
    /// The stack has more frames than requested.
    #[error("too many frames")]
    TooDeep,
}

// `DeepStackCompleter` may hold half a million of them.
const _: () = assert!(size_of::<Frame>() == 32);
