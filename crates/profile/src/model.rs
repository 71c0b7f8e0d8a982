//! The analysed profile: what an export is made from.

use std::path::PathBuf;

use rprof_symbols::Reason;

use crate::intern::Lists;
use crate::quality::Quality;

/// A function: an index into [`Profile::functions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionId(pub u32);

/// An object: an index into [`Profile::objects`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId(pub u32);

/// A source file: an index into [`Profile::files`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// A stack: see [`Profile::stack`]. Those of two entries may be equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackId(pub u32);

/// A program, a library, the kernel: what functions lie in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Object {
    /// Path, or a name such as `[kernel.kallsyms]`, as recorded. May hold any
    /// character: escape it before showing it.
    pub name: Box<str>,
    /// Whether it is the kernel or a part of it.
    pub is_kernel: bool,
}

impl Object {
    /// The name after its last slash.
    pub fn base_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or(&self.name)
    }
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

/// A function, or the part of an object of which no name is known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Function {
    /// The name, demangled; or why there is none. May hold any character: escape
    /// it before showing it.
    pub name: Result<Box<str>, Reason>,
    /// What it lies in.
    pub object: ObjectId,
    /// Where it stands in the life of a thread.
    pub start: Start,
    /// The line in it, without the column: only where functions were told apart
    /// by line, and the line is known.
    pub line: Option<Line>,
}

/// Where a function stands in the life of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Start {
    /// Anywhere.
    #[default]
    Inner,
    /// What only the C library's start code calls: `main`, or the function that a
    /// language's runtime gives a new thread.
    Entry,
    /// Where stacks begin: a program's entry, or the C library's start code.
    Root,
}

/// Samples that are alike in everything but time and CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Index into [`Profile::events`].
    pub event: usize,
    /// Index into [`Profile::comms`].
    pub comm: u32,
    /// Process; 0 unless samples were told apart by task.
    pub pid: i32,
    /// Thread; 0 unless samples were told apart by task.
    pub tid: i32,
    /// The stack.
    pub stack: StackId,
    /// Number of samples.
    pub samples: u64,
    /// Sum of their periods.
    pub weight: u64,
}

/// What a profile holds of one event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventSummary {
    /// Name.
    pub name: String,
    /// Samples that count.
    pub samples: u64,
    /// Sum of their periods.
    pub weight: u64,
    /// Records lost, in the whole recording.
    pub lost: u64,
}

/// A profile.
#[derive(Debug, Default)]
pub struct Profile {
    /// Where it was read from.
    pub source: PathBuf,
    /// Events, in the file's order; those without samples too.
    pub events: Vec<EventSummary>,
    /// Names of threads. Bytes that are no UTF-8 are replaced.
    pub comms: Vec<String>,
    /// Distinct functions.
    pub functions: Vec<Function>,
    /// Distinct objects.
    pub objects: Vec<Object>,
    /// Distinct source files, by path, of the lines of functions. May hold any character.
    pub files: Vec<Box<str>>,
    /// The samples, grouped, in no order.
    pub entries: Vec<Entry>,
    /// How much is known.
    pub quality: Quality,
    /// Time of the first and the last sample that counts, in nanoseconds.
    pub time: Option<(u64, u64)>,
    /// Whether samples have callchains, or only an address.
    pub has_callchains: bool,
    /// The stacks: see [`stack`](Self::stack).
    pub stacks: FunctionStacks,
}

/// Stacks of functions, each of two lists: many have their callers in common.
#[derive(Debug, Default)]
pub struct FunctionStacks {
    /// Lists of numbers of functions.
    pub parts: Lists<u32>,
    /// By stack, the numbers of its outer list, root first, and of its inner one.
    pub stacks: Vec<(u32, u32)>,
}

impl Profile {
    /// The functions of a stack (two may be equal), root first, leaf last. Calls that were inlined are among them.
    pub fn stack(&self, id: StackId) -> impl DoubleEndedIterator<Item = FunctionId> + '_ {
        let FunctionStacks { parts, stacks } = &self.stacks;
        let (outer, inner) = stacks[id.0 as usize];
        let functions = parts.get(outer).iter().chain(parts.get(inner));
        functions.map(|f| FunctionId(*f))
    }

    /// A function by its number.
    pub fn function(&self, id: FunctionId) -> &Function {
        &self.functions[id.0 as usize]
    }

    /// An object by its number.
    pub fn object(&self, id: ObjectId) -> &Object {
        &self.objects[id.0 as usize]
    }

    /// The first event that has samples: what a report of one event shows.
    pub fn main_event(&self) -> Option<usize> {
        self.events.iter().position(|e| e.samples > 0)
    }
}
