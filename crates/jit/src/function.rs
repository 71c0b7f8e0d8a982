//! [`JitFunction`] and [`JitLine`]: results of a lookup.

use std::borrow::Cow;

/// Maximum length of a name, in bytes; longer names are truncated.
const MAX_NAME: usize = 4096;

/// Function compiled at run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JitFunction<'a> {
    /// Name from the runtime. May contain control characters: escape it before display.
    pub name: Cow<'a, str>,
    /// Start AVMA.
    pub start: u64,
    /// Length in bytes.
    pub size: u64,
}

/// Source line, from a jitdump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JitLine<'a> {
    /// File name from the runtime.
    pub file: &'a str,
    /// Line number in `file`, from 1.
    pub line: u32,
}

pub(crate) fn text(bytes: &[u8]) -> Cow<'_, str> {
    match bytes.len() > MAX_NAME {
        true => Cow::Owned(format!("{}…", String::from_utf8_lossy(&bytes[..MAX_NAME]))),
        false => String::from_utf8_lossy(bytes),
    }
}
