//! [`SourceName`]: the parts of a name.

use crate::language::Language;

/// A function of an interpreted language, as its runtime names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SourceName<'n> {
    /// Language of the runtime that wrote the name.
    pub language: Language,
    /// Name with class or enclosing functions; empty for an anonymous function.
    pub name: &'n str,
    /// Source file: a path, or a name such as `node:fs` or `<string>`. Empty if unknown.
    pub file: &'n str,
    /// First line of the function; 0 if unknown.
    pub line: u32,
    /// Column of that line; 0 if unknown.
    pub column: u32,
    /// True if the name describes machine code: a trampoline, or compiled code with V8's tier mark.
    /// False for a frame that a profiler added.
    pub is_of_code: bool,
}

pub(super) fn with_number(text: &str) -> Option<(&str, u32)> {
    let (before, number) = text.rsplit_once(':')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    Some((before, number.parse().ok().filter(|_| is_number)?))
}
