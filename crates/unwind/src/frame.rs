//! Results of unwinding: [`StackFrame`]s and an [`UnwindOutcome`].

/// One frame of an unwound stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StackFrame {
    /// AVMA of the next instruction for sampled and interrupted frames; otherwise the return
    /// address, without signature. At the start of an interrupted function it is one byte higher,
    /// since readers look up the byte before the address of each outer frame.
    pub address: u64,
    /// Stack pointer in this frame: as sampled, or after the call returns. On x86 this is the
    /// canonical frame address of the inner frame. On AArch64 it is a lower bound if a frame
    /// pointer, or the link register alone, led here.
    pub sp: u64,
    /// Address of the slot that held `address`; 0 for a register.
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
    /// The instruction interrupted by a signal.
    Interrupted,
}

/// Evidence for a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FoundBy {
    /// The sample's registers.
    Registers,
    /// Call frame information.
    Cfi,
    /// The frame pointer, without call frame information.
    FramePointer,
    /// The frame size that HotSpot (Java) stores beside its code.
    FrameSize,
    /// Simulation of the inner frame's code.
    Code,
    /// A return address where a call puts it: in a PLT entry, a leaf function in assembly, or after
    /// a call to an unmapped address.
    JustCalled,
    /// Registers saved by the kernel for a signal.
    SignalContext,
    /// Other observations of the thread: see [`DeepStackCompleter`](crate::DeepStackCompleter).
    OtherSample,
}

impl StackFrame {
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

    /// Returns the address for symbol lookups. For callers it lies inside the call, which may be
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
    /// The last frame is the outermost.
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
    /// CFI marks the return address as undefined: `_start`, `clone` and `__start_context` of glibc,
    /// `runtime.goexit` and `runtime.rt0_go` of Go, also by the runtime's own table.
    UndefinedReturnAddress,
    /// The return address is 0: by CFI, as at the bottom of coroutines, or by frame pointer, if the
    /// saved frame pointer is 0 too.
    NullReturnAddress,
    /// A chain of at least one frame pointer ended with 0, as the psABI requires (section 3.4.1).
    NullFramePointer,
    /// Code at the image's entry point, without CFI: `_start` of musl and of dynamic linkers.
    EntryPoint,
    /// Code without CFI that ends the thread or the process: the callers of threads and of `main`
    /// in musl; Go's `goexit`.
    ExitFollows,
    /// The runtime has switched stacks, and the call never returns: Go's `mcall`; Erlang calling C
    /// code on a scheduler's stack; SBCL's `call_into_lisp` in the first thread.
    SwitchedStack,
    /// Erlang: the function returns to code that ends its process.
    EndOfProcess,
}

/// Missing word on the way to another stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MissingWord {
    /// The next return address, in the slot at this address.
    ReturnAddress(u64),
    /// The word at this address, which locates the other stack.
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
    /// No unwind information, and no usable frame pointer.
    #[error("no unwind information for {address:#x}")]
    NoUnwindInfo {
        /// Address in the frame.
        address: u64,
    },
    /// The call frame information is damaged or unsupported.
    #[error("unusable call frame information for {address:#x}")]
    BadCfi {
        /// Address in the frame.
        address: u64,
    },
    /// A rule needs an unknown register.
    #[error("the value of register {register} is unknown at {address:#x}")]
    MissingRegister {
        /// Address in the frame.
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
    /// The callers are on another, uncopied stack: a goroutine's below `systemstack`, a C stack
    /// below a callback, or the one interrupted by a signal.
    #[error("the callers of {address:#x} are on another stack")]
    OtherStack {
        /// Address in the last frame.
        address: u64,
        /// Missing word.
        missing: MissingWord,
    },
    /// No code is mapped at the return address.
    #[error("return address {address:#x} is outside all code")]
    NotMapped {
        /// The return address.
        address: u64,
    },
    /// The caller's stack pointer is not above the callee's.
    #[error("the stack does not grow at {address:#x}")]
    NotProgressing {
        /// Address in the callee.
        address: u64,
    },
    /// The stack has more frames than requested.
    #[error("too many frames")]
    TooDeep,
}

// `DeepStackCompleter` may hold half a million of them.
const _: () = assert!(size_of::<StackFrame>() == 32);
