//! [`JitFunction`] and [`JitLine`]: what a lookup answers.

use std::borrow::Cow;

/// Maximum length of a name, in bytes; longer ones are cut. What runtimes write stays far below.
const MAX_NAME: usize = 4096;

/// A function that was made at run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JitFunction<'a> {
    /// Name as the runtime wrote it, with invalid UTF-8 replaced. It may hold any character: escape it
    /// before showing it.
    pub name: Cow<'a, str>,
    /// Start of the code: AVMA.
    pub start: u64,
    /// Length in bytes.
    pub size: u64,
}

/// A line of source code, from a jitdump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JitLine<'a> {
    /// File name as the runtime wrote it.
    pub file: &'a str,
    /// Line number, from 1.
    pub line: u32,
}

/// Converts a name to text, and cuts it where it is too long.
pub(crate) fn text(bytes: &[u8]) -> Cow<'_, str> {
    match bytes.len() > MAX_NAME {
        true => Cow::Owned(format!("{}…", String::from_utf8_lossy(&bytes[..MAX_NAME]))),
        false => String::from_utf8_lossy(bytes),
    }
}
