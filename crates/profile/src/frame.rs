//! Functions, the objects that contain them, and frames: activations of a function.

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
/// In a profile without addresses, a frame is a function and has the function's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameId(pub u32);

impl From<FunctionId> for FrameId {
    fn from(function: FunctionId) -> FrameId {
        FrameId(function.0)
    }
}

/// Object that contains functions: an ELF file, the kernel, or a JIT region.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Object {
    /// Path, or a name such as `[kernel.kallsyms]`, as recorded. May contain any character: escape
    /// it for display.
    pub name: Box<str>,
    /// Origin of the code.
    pub kind: ObjectKind,
    /// Build-id of the recorded file, if recorded. Profiles without addresses merge objects of one
    /// name and keep the first build-id. Profiles with addresses do not, since addresses differ
    /// between builds.
    pub build_id: Option<BuildId>,
    /// Runtime of the process, for JIT code. `None` for other code, and if no known runtime is
    /// loaded.
    pub runtime: Option<Runtime>,
}

/// Origin of an object's code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// A program or a library, or a region mapped like one.
    #[default]
    File,
    /// The kernel or one of its modules.
    Kernel,
    /// JIT code, named by a perf map or jitdump.
    Jit,
    /// No code: frames for wait reasons ([`waits`](crate::waits)).
    Waiting,
}

impl Object {
    /// Returns the part of the name after the last slash.
    pub fn base_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or(&self.name)
    }
}

/// A function, or the unnamed code of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Function {
    /// The demangled name, or the reason why there is none. May contain any character: escape it
    /// for display.
    pub name: Result<Box<str>, Reason>,
    /// The object that contains it.
    pub object: ObjectId,
    /// Position in a thread's stacks, as the name implies it.
    pub position: StackPosition,
    /// A line of the function, without column. `None` unless the profile distinguishes functions by
    /// line.
    pub line: Option<Line>,
    /// Reason why no symbol table names the function, if only unwind information describes it.
    /// `name` then consists of object name and start address: `cc1+0x5a3c10`.
    pub located: Option<Reason>,
}

impl Function {
    /// Returns the reason why the function has no symbol name, even if [`located`](Self::located).
    pub fn nameless(&self) -> Option<Reason> {
        self.located.or_else(|| self.name.as_ref().err().copied())
    }
}

/// Position of a function in a thread's stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StackPosition {
    /// Anywhere.
    #[default]
    Inner,
    /// Called only by the C library's start code: `main`, or the start function of a language
    /// runtime's thread.
    Entry,
    /// Outermost: a program's entry point, or the C library's start code.
    Root,
}

/// A line of source code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Line {
    /// The file.
    pub file: FileId,
    /// The line, from 1; 0 for compiler-generated code without a line.
    pub line: u32,
    /// The column, from 1; 0 if unknown.
    pub column: u32,
}

/// Returns true for kernel addresses: the upper half of the address space (x86-64, arm64 and
/// riscv64: `Documentation/arch/*/mm.rst`).
pub fn is_kernel_address(address: u64) -> bool {
    address >> 63 == 1
}

/// Address of a frame: an offset into the object's file, or the address in memory for objects
/// without a file (kernel, JIT code, unmapped memory).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FrameAddress {
    /// The executed or interrupted instruction.
    InstructionPointer(u64),
    /// The instruction after a call, where the callee returns to.
    ReturnAddress(u64),
}

impl FrameAddress {
    /// Returns the recorded address.
    pub fn address(self) -> u64 {
        match self {
            FrameAddress::InstructionPointer(address) | FrameAddress::ReturnAddress(address) => {
                address
            }
        }
    }

    /// Returns the address for symbol and line lookup. For a return address this is one byte less,
    /// because the call may be the last instruction of its function.
    pub fn lookup_address(self) -> u64 {
        match self {
            FrameAddress::InstructionPointer(address) => address,
            FrameAddress::ReturnAddress(address) => address.wrapping_sub(1),
        }
    }
}

/// An activation of a function. An inlined call has its own frame, which follows the frame of the
/// enclosing function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The function.
    pub function: FunctionId,
    /// The address. `None` if the profile has none.
    pub address: Option<FrameAddress>,
    /// The line of the next inlined call, or of the address itself for the innermost frame. `None`
    /// if unknown or not requested.
    pub line: Option<Line>,
    /// Inline depth at this address: 0 for the function that contains the address. Without
    /// addresses it is 1 for each inlined call if the profile distinguishes these, and otherwise 0.
    pub inline_depth: u32,
    /// First line of the function; 0 if unknown or not requested.
    pub start_line: u32,
}

impl Frame {
    /// Returns a function's frame without an address.
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
