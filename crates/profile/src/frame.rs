//! Functions, their objects, and frames.

use std::sync::Arc;

use rprof_image::Reason;
use rprof_records::BuildId;

use crate::language::Language;
use crate::runtime::Runtime;

/// Id of a function: an index into [`Profile::functions`](crate::Profile::functions).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionId(pub u32);

/// Set of functions, by id.
pub type FunctionSet = Arc<[bool]>;

/// Id of an object: an index into [`Profile::objects`](crate::Profile::objects).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId(pub u32);

/// Id of a source file: an index into [`Profile::files`](crate::Profile::files).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// Id of a frame: see [`Profile::frame`](crate::Profile::frame). Its number has a meaning only
/// within its profile: [`ProfileBuilder::intern_frame`](crate::ProfileBuilder::intern_frame) makes
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameId(pub(crate) u32);

impl FrameId {
    /// Returns an index for tables over a profile's frames, at most twice the number of frames.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// An ELF file, the kernel, or a JIT region.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Object {
    /// Recorded path, or a name such as `[kernel.kallsyms]`. May contain any character: escape it
    /// for display.
    pub name: Box<str>,
    /// Origin of the code.
    pub kind: ObjectKind,
    /// Build-id, if recorded. Profiles without addresses merge objects of one name and keep the
    /// first build-id.
    pub build_id: Option<BuildId>,
    /// Runtime of the process, for JIT code. `None` otherwise, or if unknown.
    pub runtime: Option<Runtime>,
}

/// Origin of an object's code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// Program, library, or a similar region.
    #[default]
    File,
    /// The kernel or one of its modules.
    Kernel,
    /// JIT code, named by a perf map or jitdump.
    Jit,
    /// No code: wait reasons ([`waits`](crate::waits)).
    Waiting,
}

impl Object {
    /// Returns the part of the name after the last slash.
    pub fn base_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or(&self.name)
    }
}

/// A function, or an object's unnamed code.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Function {
    /// Demangled name, or the reason why there is none. May contain any character: escape it for
    /// display.
    pub name: Result<Box<str>, Reason>,
    /// Object of the function.
    pub object: ObjectId,
    /// Position in stacks, as the name implies.
    pub position: StackPosition,
    /// A line of the function, without column. `None` unless the profile distinguishes functions by
    /// line.
    pub line: Option<Line>,
    /// Reason for the missing symbol, if only unwind information describes the function. Its `name`
    /// is object and start address: `cc1+0x5a3c10`.
    pub located: Option<Reason>,
    /// Parts of the name, after [folding](crate::Profile::fold_languages). `None` for native code.
    pub source: Option<Box<SourceFunction>>,
}

/// A function of an interpreted language. Its [`Function::name`] combines these parts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SourceFunction {
    /// Language of the source code.
    pub language: Language,
    /// Name without place. May contain any character: escape it for display.
    pub name: Box<str>,
    /// Source file, if known.
    pub file: Option<FileId>,
    /// First line; 0 if unknown.
    pub line: u32,
    /// Column of the first line; 0 if unknown.
    pub column: u32,
}

impl Function {
    /// Returns the reason for a missing symbol, also of [`located`](Self::located) functions.
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
    /// Called only by the C library's start code: `main`, or a runtime's thread start function.
    Entry,
    /// Outermost: a program's entry point, or the C library's start code.
    Root,
}

/// A line of source code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Line {
    /// Source file, in the profile's table of files.
    pub file: FileId,
    /// Line, from 1; 0 for compiler-generated code.
    pub line: u32,
    /// Column, from 1; 0 if unknown.
    pub column: u32,
}

/// Returns true for the upper half of the address space, which belongs to the kernel (x86-64, arm64
/// and riscv64: `Documentation/arch/*/mm.rst`).
pub fn is_kernel_address(address: u64) -> bool {
    address >> 63 == 1
}

/// Address of a frame: an offset in the object's file, or a memory address of code without a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FrameAddress {
    /// The executed or interrupted instruction.
    InstructionPointer(u64),
    /// The instruction after a call.
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

    /// Returns the address for lookups of symbols and lines. For a return address it is one byte
    /// less: the call may end its function.
    pub fn lookup_address(self) -> u64 {
        match self {
            FrameAddress::InstructionPointer(address) => address,
            FrameAddress::ReturnAddress(address) => address.wrapping_sub(1),
        }
    }
}

/// An activation of a function. An inlined call follows the frame of its enclosing function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Called or inlined function, in the profile's table of functions.
    pub function: FunctionId,
    /// Address; `None` if the profile has none.
    pub address: Option<FrameAddress>,
    /// Line of the next inlined call, or of the address for the innermost frame. `None` if unknown
    /// or not requested.
    pub line: Option<Line>,
    /// Inline depth at this address: 0 for the enclosing function. Without addresses, 1 for inlined
    /// calls if the profile distinguishes them.
    pub inline_depth: u32,
    /// First line; 0 if unknown or not requested.
    pub start_line: u32,
}

impl Frame {
    /// Returns a frame without address.
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
