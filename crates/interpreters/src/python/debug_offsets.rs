//! `_Py_DebugOffsets`: offsets that CPython 3.13 and later state about their own structures.
//!
//! They lie at the start of `_PyRuntime`. A build with other options has other offsets, or is
//! refused. Source: `Include/internal/pycore_runtime.h` of 3.13 and
//! `Include/internal/pycore_debug_offsets.h` of 3.14.

use super::codes::TYPE;
use super::layout::{Bytecode, CODE_BYTES, CodeLayout, FRAME_BYTES, FrameLayout, Layout};

/// First bytes.
const COOKIE: &[u8; 8] = b"xdebugpy";

/// Bytes from the start that the known versions need.
pub(super) const LEN: usize = 416;

/// `version`, as `PY_VERSION_HEX`, and `free_threaded`.
const VERSION: usize = 8;
const FREE_THREADED: usize = 16;

/// Maximum offset of a field in `PyThreadState`, and of instructions in a code object.
const MAX_OFFSET: u64 = 1024;

/// Offsets of the groups of offsets. Each begins with a size.
#[derive(Clone, Copy, Debug)]
struct Groups {
    thread: usize,
    frame: usize,
    code: usize,
    object: usize,
}

impl Groups {
    const fn of(minor: u8) -> Option<Self> {
        match minor {
            13 => Some(Self {
                thread: 152,
                frame: 224,
                code: 272,
                object: 352,
            }),
            14 => Some(Self {
                thread: 176,
                frame: 248,
                code: 312,
                object: 400,
            }),
            _ => None,
        }
    }
}

/// Returns true if version 3.`minor` states its offsets.
pub(super) const fn are_stated(minor: u8) -> bool {
    Groups::of(minor).is_some()
}

/// Replaces offsets of a version's layout by the stated ones. `None` if the bytes are no offsets of
/// this version, or describe structures that the reader does not support.
pub(super) fn apply(layout: &Layout, minor: u8, bytes: &[u8]) -> Option<Layout> {
    let groups = Groups::of(minor)?;
    let word = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    if bytes.get(..COOKIE.len())? != COOKIE || word(FREE_THREADED)? != 0 {
        return None;
    }
    if word(VERSION)? >> 16 != 0x300 | u64::from(minor) || word(groups.object + 8)? != TYPE as u64 {
        return None;
    }
    let field = |group: usize, number: usize| word(group + 8 * number);
    let within = |at: u64, bytes: usize, end: usize| {
        let at = usize::try_from(at).ok()?;
        at.checked_add(bytes)
            .filter(|last| *last <= end)
            .map(|_| at)
    };
    let of_frame = |number, bytes| within(field(groups.frame, number)?, bytes, FRAME_BYTES);
    let of_code = |number, bytes| within(field(groups.code, number)?, bytes, CODE_BYTES);
    Some(Layout {
        thread: field(groups.thread, 4).filter(|at| *at < MAX_OFFSET)?,
        younger: field(groups.thread, 1).filter(|at| *at < MAX_OFFSET)?,
        older: field(groups.thread, 2).filter(|at| *at < MAX_OFFSET)?,
        thread_id: field(groups.thread, 6).filter(|at| *at < MAX_OFFSET)?,
        frame: FrameLayout {
            previous: of_frame(1, 8)?,
            code: of_frame(2, 8)?,
            owner: Some(of_frame(5, 1)?),
        },
        code: CodeLayout {
            file: of_code(1, 8)?,
            name: of_code(3, 8)?,
            first_line: of_code(5, 4)?,
            bytes: Bytecode::Inside(within(field(groups.code, 9)?, 0, MAX_OFFSET as usize)?),
            ..layout.code
        },
        ..*layout
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds the offsets of a version, from its layout.
    fn stated(minor: u8) -> (Layout, Vec<u8>) {
        let layout = Layout::of(minor).unwrap();
        let groups = Groups::of(minor).unwrap();
        let mut bytes = vec![0; LEN];
        let mut put = |at: usize, word: u64| {
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        };
        put(0, u64::from_le_bytes(*COOKIE));
        put(VERSION, 0x300_00f0 | u64::from(minor) << 16);
        put(groups.thread + 8 * 4, layout.thread);
        put(groups.thread + 8, layout.younger);
        put(groups.thread + 8 * 2, layout.older);
        put(groups.thread + 8 * 6, layout.thread_id);
        put(groups.frame + 8, layout.frame.previous as u64);
        put(groups.frame + 8 * 2, layout.frame.code as u64);
        put(groups.frame + 8 * 5, layout.frame.owner.unwrap() as u64);
        put(groups.code + 8, layout.code.file as u64);
        put(groups.code + 8 * 3, layout.code.name as u64);
        put(groups.code + 8 * 5, layout.code.first_line as u64);
        let Bytecode::Inside(inside) = layout.code.bytes else {
            panic!("{layout:?}");
        };
        put(groups.code + 8 * 9, inside as u64);
        put(groups.object + 8, TYPE as u64);
        (layout, bytes)
    }

    #[test]
    fn stated_offsets_replace_those_of_the_version() {
        for minor in [13, 14] {
            let (layout, mut bytes) = stated(minor);
            assert_eq!(apply(&layout, minor, &bytes), Some(layout));
            let thread = Groups::of(minor).unwrap().thread + 8 * 4;
            bytes[thread] = 96;
            let moved = Layout {
                thread: 96,
                ..layout
            };
            assert_eq!(apply(&layout, minor, &bytes), Some(moved));
        }
    }

    #[test]
    fn other_versions_and_implausible_offsets_are_refused() {
        let (layout, bytes) = stated(14);
        assert_eq!(apply(&layout, 13, &bytes), None);
        assert_eq!(apply(&layout, 12, &bytes), None);
        assert_eq!(apply(&layout, 14, &bytes[..LEN - 16]), None);
        let groups = Groups::of(14).unwrap();
        for (at, byte) in [
            (0, b'y'),
            (FREE_THREADED, 1),
            (groups.object + 8, 24),
            (groups.thread + 8 * 4 + 7, 255),
            (groups.frame + 8 + 7, 255),
            (groups.frame + 8 * 5, 80),
            (groups.code + 8 * 3, 200),
            (groups.code + 8 * 9 + 2, 1),
        ] {
            let mut damaged = bytes.clone();
            damaged[at] = byte;
            assert_eq!(apply(&layout, 14, &damaged), None, "byte {at}");
        }
    }
}
