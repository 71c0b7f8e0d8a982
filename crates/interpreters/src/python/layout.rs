//! [`Layout`]: where CPython keeps what, by version.
//!
//! Source: `Include/cpython/code.h`, `Include/cpython/frameobject.h`,
//! `Include/internal/pycore_frame.h` and `Include/cpython/unicodeobject.h` of each version. All
//! builds for 64-bit machines without the free-threading and tracing options share them.

use crate::MemoryRead;

/// Offsets in bytes within CPython's structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) code: CodeLayout,
    pub(super) frame: FrameLayout,
    pub(super) kind: FrameKind,
    /// In `PyThreadState`: the innermost `_PyCFrame`, or the current frame without these.
    pub(super) thread: u64,
    /// In `PyThreadState`: the states of the next older and the next younger thread.
    pub(super) older: u64,
    pub(super) younger: u64,
    /// In `PyThreadState`: the number of its thread, as gettid(2) returns; 0 before 3.11.
    pub(super) thread_id: u64,
    /// Opcode that makes a generator of a frame, if it has one.
    pub(super) return_generator: Option<u8>,
    /// Characters of a compact ASCII string, and of another compact string.
    pub(super) ascii: usize,
    pub(super) compact: usize,
}

/// `PyCodeObject`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CodeLayout {
    pub(super) flags: usize,
    pub(super) first_line: usize,
    pub(super) file: usize,
    /// `co_qualname`, or `co_name` before 3.11.
    pub(super) name: usize,
    pub(super) bytes: Bytecode,
    pub(super) frame_words: FrameWords,
    /// `co_consts`: each code object has a tuple of its own.
    pub(super) consts: usize,
    /// `co_version`, a number that no other code object of the process has.
    pub(super) version: Option<usize>,
}

/// Number of words of a frame in the data stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameWords {
    /// `co_framesize` at this offset.
    Stored(usize),
    /// The sum of `co_nlocalsplus`, `co_stacksize` and the words of `_PyInterpreterFrame`.
    Sum {
        locals: usize,
        stack: usize,
        fixed: u64,
    },
    /// There is no data stack.
    None,
}

impl FrameWords {
    /// Returns the number of words, by the bytes of a code object.
    pub(super) fn of(self, read: &MemoryRead) -> Option<u64> {
        Some(match self {
            Self::Stored(at) => read.u32(at)?.into(),
            Self::Sum {
                locals,
                stack,
                fixed,
            } => u64::from(read.u32(locals)?) + u64::from(read.u32(stack)?) + fixed,
            Self::None => 0,
        })
    }
}

/// Place of a function's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bytecode {
    /// In the code object, from this offset. `ob_size` is the number of 2-byte instructions.
    Inside(usize),
    /// In a bytes object, with its address at this offset.
    Object(usize),
}

/// `PyFrameObject` before 3.11, `_PyInterpreterFrame` since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameLayout {
    pub(super) code: usize,
    pub(super) previous: usize,
    pub(super) owner: Option<usize>,
}

/// Path from a native frame of the interpreter to its Python frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameKind {
    /// Each Python frame has a native frame, with a pointer to its `PyFrameObject`.
    Objects,
    /// A native frame runs several Python frames. It has a `_PyCFrame` with the current one.
    CFrames {
        current: u64,
        previous: u64,
        /// `is_entry` of the outermost Python frame of a native frame, if that has one. Otherwise
        /// the frame before it lies in the native frame.
        is_entry: Option<usize>,
    },
    /// A native frame runs several Python frames, and has a pointer to the current one.
    Entries,
}

/// Bits of the reference to the code object in 3.14 that are not part of its address
/// (`_PyStackRef`). Before, they are 0.
pub(super) const TAGS: u64 = 3;

/// Bytes of a frame that are read.
pub(super) const FRAME_BYTES: usize = 80;

/// Bytes of a code object that are read.
pub(super) const CODE_BYTES: usize = 136;

impl Layout {
    /// Returns true if each running generator has a native frame of its own.
    pub(super) const fn has_separate_generators(&self) -> bool {
        matches!(
            self.kind,
            FrameKind::CFrames {
                is_entry: Some(_),
                ..
            }
        )
    }

    /// Returns the layout of version 3.`minor`. `None` if it is not supported.
    pub(super) const fn of(minor: u8) -> Option<Self> {
        let old = Self {
            code: CodeLayout {
                flags: 36,
                first_line: 40,
                file: 104,
                name: 112,
                bytes: Bytecode::Object(48),
                frame_words: FrameWords::None,
                consts: 56,
                version: None,
            },
            frame: FrameLayout {
                code: 32,
                previous: 24,
                owner: None,
            },
            kind: FrameKind::Objects,
            thread: 24,
            older: 8,
            younger: 0,
            thread_id: 0,
            return_generator: None,
            ascii: 48,
            compact: 72,
        };
        let new = Self {
            code: CodeLayout {
                flags: 48,
                first_line: 68,
                file: 112,
                name: 128,
                bytes: Bytecode::Inside(192),
                frame_words: FrameWords::Stored(76),
                consts: 24,
                version: Some(92),
            },
            frame: FrameLayout {
                code: 0,
                previous: 8,
                owner: Some(70),
            },
            kind: FrameKind::CFrames {
                current: 0,
                previous: 8,
                is_entry: None,
            },
            thread: 56,
            older: 8,
            younger: 0,
            thread_id: 144,
            return_generator: Some(75),
            ascii: 40,
            compact: 56,
        };
        Some(match minor {
            8..=10 => old,
            11 => Self {
                code: CodeLayout {
                    first_line: 72,
                    bytes: Bytecode::Inside(184),
                    frame_words: FrameWords::Sum {
                        locals: 76,
                        stack: 68,
                        fixed: 9,
                    },
                    version: None,
                    ..new.code
                },
                frame: FrameLayout {
                    code: 32,
                    previous: 48,
                    owner: Some(69),
                },
                kind: FrameKind::CFrames {
                    current: 8,
                    previous: 16,
                    is_entry: Some(68),
                },
                thread_id: 160,
                ascii: 48,
                compact: 72,
                ..new
            },
            12 => new,
            13 => Self {
                code: CodeLayout {
                    bytes: Bytecode::Inside(200),
                    ..new.code
                },
                kind: FrameKind::Entries,
                thread: 72,
                thread_id: 160,
                return_generator: Some(35),
                ..new
            },
            14 => Self {
                code: CodeLayout {
                    bytes: Bytecode::Inside(208),
                    ..new.code
                },
                frame: FrameLayout {
                    owner: Some(74),
                    ..new.frame
                },
                kind: FrameKind::Entries,
                thread: 72,
                thread_id: 160,
                return_generator: Some(34),
                ..new
            },
            _ => return None,
        })
    }
}
