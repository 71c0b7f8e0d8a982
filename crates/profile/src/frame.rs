//! Functions, the objects that they lie in, and frames: activations of a function at an address.

use rprof_image::Reason;
use rprof_records::BuildId;

use crate::runtime::Runtime;

/// Id of a function: an index into [`Profile::functions`](crate::Profile::functions).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionId(pub u32);

/// Id of an object: an index into [`Profile::objects`](crate::Profile::objects).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId(pub u32);

/// Id of a source file: an index into [`Profile::files`](crate::Profile::files).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// Id of a frame: see [`Profile::frame`](crate::Profile::frame).
///
/// In a profile without addresses a frame is a function, and has the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameId(pub u32);

impl From<FunctionId> for FrameId {
    fn from(function: FunctionId) -> FrameId {
        FrameId(function.0)
    }
}

/// Object that functions lie in: an ELF file, the kernel, or a region of JIT code.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Object {
    /// Path, or a name such as `[kernel.kallsyms]`, as recorded. May hold any
    /// character: escape it before showing it.
    pub name: Box<str>,
    /// What it is.
    pub kind: ObjectKind,
    /// Build-id of the recorded file, if the recording has it. Objects of one name are one
    /// object whose first build-id is kept, unless the profile keeps addresses: those mean
    /// another place in another build.
    pub build_id: Option<BuildId>,
    /// Runtime of the process, for code that a process generated while it ran; `None` for all else, and where the process has
    /// loaded no runtime that is known.
    pub runtime: Option<Runtime>,
}

/// What an object is: where its code came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// A program or a library, or what is mapped like one.
    #[default]
    File,
    /// The kernel or one of its modules.
    Kernel,
    /// Code that a runtime made while it ran, named by its perf map or jitdump.
    Jit,
    /// No code: reasons for which threads waited ([`waits`](crate::waits)).
    Waiting,
}

impl Object {
    /// Returns the name after its last slash.
    pub fn base_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or(&self.name)
    }
}

/// A function, or the part of an object of which no name is known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Function {
    /// The name, demangled; or why there is none. May hold any character: escape
    /// it before showing it.
    pub name: Result<Box<str>, Reason>,
    /// The object that it lies in.
    pub object: ObjectId,
    /// Position in the stacks of a thread, as far as the name implies it.
    pub position: StackPosition,
    /// A line in it, without the column: only where functions were told apart by line, and the
    /// line is known.
    pub line: Option<Line>,
    /// Reason for which no table of symbols names it, if only unwinding information describes it. `name` is made of the
    /// object's name and the function's start then: `cc1+0x5a3c10`.
    pub located: Option<Reason>,
}

impl Function {
    /// Returns the reason for which it has no name of its own, whether it is located or not.
    pub fn nameless(&self) -> Option<Reason> {
        self.located.or_else(|| self.name.as_ref().err().copied())
    }
}

/// Position of a function in the stacks of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StackPosition {
    /// Anywhere.
    #[default]
    Inner,
    /// Called by nothing but the C library's start code: `main`, or the function that a
    /// language's runtime gives a new thread.
    Entry,
    /// Outermost: a program's entry, or the C library's start code.
    Root,
}

/// A line of source code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Line {
    /// The file.
    pub file: FileId,
    /// The line, from 1; 0 where the compiler made code that belongs to none.
    pub line: u32,
    /// The column, from 1; 0 where it is unknown.
    pub column: u32,
}

/// Returns true for addresses in the upper half of the address space, where kernels lie (x86-64, arm64 and riscv64: their
/// `Documentation/arch/*/mm.rst`).
pub fn is_kernel_address(address: u64) -> bool {
    address >> 63 == 1
}

/// Address of a frame: an offset into the object's file, or the address in memory for objects
/// without a file (the kernel, generated code, unmapped memory).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FrameAddress {
    /// The instruction that was executed, or interrupted.
    InstructionPointer(u64),
    /// The instruction behind a call: the one that the callee returns to.
    ReturnAddress(u64),
}

impl FrameAddress {
    /// Returns the address as it was found.
    pub fn address(self) -> u64 {
        match self {
            FrameAddress::InstructionPointer(address) | FrameAddress::ReturnAddress(address) => {
                address
            }
        }
    }

    /// Returns the address by which function and line are looked up: one byte before a return
    /// address, since the call may be the last instruction of its function.
    pub fn lookup_address(self) -> u64 {
        match self {
            FrameAddress::InstructionPointer(address) => address,
            FrameAddress::ReturnAddress(address) => address.wrapping_sub(1),
        }
    }
}

/// An activation of a function. An inlined call is a frame of its own, behind that of the
/// function that it was inlined into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The function.
    pub function: FunctionId,
    /// The address; `None` where the profile keeps none.
    pub address: Option<FrameAddress>,
    /// The line: that of the next inlined call, or for the innermost frame at an address that
    /// of the address itself. `None` where it is unknown or was not asked for.
    pub line: Option<Line>,
    /// Number of calls inlined into each other at this address, up to this one: 0 for the
    /// function that lies there. Where the profile keeps no addresses it is 1 for each inlined call,
    /// if the profile tells these apart, and always 0 if not.
    pub inline_depth: u32,
    /// Line where the function begins; 0 where that is unknown or was not asked for.
    pub start_line: u32,
}

impl Frame {
    /// Returns the frame of a function without an address.
    pub fn of(function: FunctionId) -> Frame {
        Frame {
            function,
            address: None,
            line: None,
            inline_depth: 0,
            start_line: 0,
        }
    }
}
