//! Name patterns with `*` and `?`. Brackets are literal: function names contain them.

use crate::language::SourceName;
use crate::language::source_name::place_of_text;

/// Returns true if `name` equals the pattern or matches it as a glob: `*` matches any characters,
/// `?` one.
///
/// ```
/// use rprof_profile::pattern::matches_name;
///
/// assert!(matches_name("std::*::push", "std::vector<int>::push"));
/// assert!(matches_name("operator*", "operator*"));
/// assert!(!matches_name("push", "push_back"));
/// ```
pub fn matches_name(pattern: &str, name: &str) -> bool {
    matches_bytes(pattern.as_bytes(), name.as_bytes())
}

/// Returns true if a function matches by its full [name](matches_name), or without file and line,
/// parameters, or linkage name. A name from an interpreter's runtime also matches as people write
/// it.
///
/// ```
/// use rprof_profile::pattern::matches_function;
///
/// for pattern in ["step", "step*", "step (parser.rs:12)"] {
///     assert!(matches_function(pattern, "step (parser.rs:12)"), "{pattern}");
/// }
/// assert!(matches_function("step", "step (int)"));
/// assert!(!matches_function("step (int)", "step (long)"));
/// for pattern in ["step", "step (app.py:3)", "step (x/app.py:3)", "py::*"] {
///     assert!(matches_function(pattern, "py::step:/x/app.py:3"), "{pattern}");
/// }
/// ```
pub fn matches_function(pattern: &str, name: &str) -> bool {
    matches_name(pattern, name)
        || without_distinction(name).is_some_and(|bare| matches_name(pattern, bare))
        || place_of_text(name).is_some_and(|(_, at)| matches_name(pattern, &name[..at]))
        || SourceName::parse(name).is_some_and(|source| matches_source(pattern, &source))
}

/// Returns true for a function's name alone, or with any end of its path.
fn matches_source(pattern: &str, source: &SourceName<'_>) -> bool {
    let parts = source.file.matches('/').count() + 1;
    matches_name(pattern, &source.bare())
        || pattern.ends_with(')')
            && (0..=parts.min(MAX_PARTS)).any(|parts| matches_name(pattern, &source.text(parts)))
}

/// Maximum number of path components in a pattern.
const MAX_PARTS: usize = 16;

/// Removes a `(file:line)` suffix; `None` if there is none.
pub(crate) fn without_place(name: &str) -> Option<&str> {
    let (bare, place) = name.strip_suffix(')')?.rsplit_once(" (")?;
    let (file, line) = place.rsplit_once(':')?;
    let is_line = !line.is_empty() && line.bytes().all(|b| b.is_ascii_digit());
    (is_line && !file.is_empty() && !bare.is_empty()).then_some(bare)
}

/// Removes a suffix of `rprof_symbols`: file and line, parameters (`f (int) const`) or linkage name
/// (`f [_Z1fi]`). `None` if there is none.
pub(crate) fn without_distinction(name: &str) -> Option<&str> {
    let shorter = without_place(name)
        .or_else(|| without_linkage_name(name))
        .or_else(|| without_parameters(name))?;
    Some(without_place(shorter).unwrap_or(shorter))
}

fn without_linkage_name(name: &str) -> Option<&str> {
    let (bare, linkage) = name.strip_suffix(']')?.rsplit_once(" [")?;
    // The last one is of Ada.
    let is_mangled = ["_Z", "_R", "_D"]
        .iter()
        .any(|start| linkage.starts_with(start))
        || linkage.contains("__");
    let is_linkage = is_mangled && !linkage.contains(' ');
    (is_linkage && !bare.is_empty()).then_some(bare)
}

fn without_parameters(name: &str) -> Option<&str> {
    let mut rest = name;
    while let Some(shorter) = [" const", " volatile", " &", " &&"]
        .iter()
        .find_map(|end| rest.strip_suffix(end))
    {
        rest = shorter;
    }
    let list = rest.strip_suffix(')')?;
    let mut depth = 1_usize;
    let open = list.rfind(|letter| {
        match letter {
            ')' => depth += 1,
            '(' => depth -= 1,
            _ => {}
        }
        depth == 0
    })?;
    let (bare, parameters) = (list[..open].strip_suffix(' ')?, &list[open + 1..]);
    // Other programs write such notes behind names.
    const NOTES: [&str; 5] = ["deleted", "inlined", "anonymous", "native", "program"];
    let is_place = parameters.contains('/') || parameters.replace("::", "").contains(':');
    let is_note = is_place || NOTES.contains(&parameters);
    (!is_note && !bare.is_empty() && !bare.ends_with("decltype")).then_some(bare)
}

/// Matches bytes like [`matches_name`].
pub fn matches_bytes(pattern: &[u8], name: &[u8]) -> bool {
    pattern == name || is_glob(pattern) && matches_glob(pattern, name)
}

/// Returns true if an object's path or file name [matches](matches_name). Libraries also match
/// without version, the kernel without suffix.
///
/// ```
/// use rprof_profile::pattern::matches_object;
///
/// for pattern in ["libc", "libc.so.6", "libc*", "/usr/lib/libc.so.6"] {
///     assert!(matches_object(pattern, "/usr/lib/libc.so.6"), "{pattern}");
/// }
/// assert!(matches_object("libc", "/lib/libc-2.31.so"));
/// assert!(matches_object("kernel", "[kernel.kallsyms]"));
/// assert!(!matches_object("libc", "/usr/lib/libcrypt.so.1"));
/// ```
pub fn matches_object(pattern: &str, path: &str) -> bool {
    let base = path.rsplit('/').next().unwrap_or(path);
    if matches_name(pattern, path) || matches_name(pattern, base) {
        return true;
    }
    let bracketed = base.strip_prefix('[').and_then(|b| b.strip_suffix(']'));
    let name = bracketed.unwrap_or(base);
    match name.strip_prefix(pattern) {
        _ if pattern.is_empty() => false,
        Some("") => true,
        Some(rest) if bracketed.is_some() => rest.starts_with('.'),
        Some(rest) => {
            let has_version = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
            rest.starts_with(".so") || rest.strip_prefix('-').is_some_and(has_version)
        }
        None => false,
    }
}

fn is_glob(pattern: &[u8]) -> bool {
    pattern.iter().any(|byte| matches!(byte, b'*' | b'?'))
}

/// Matches from the left. On a mismatch, the last `*` takes one more byte. Worst case: product of
/// the lengths.
fn matches_glob(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut of_name) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while of_name < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, of_name));
                at += 1;
            }
            Some(b'?') => {
                at += 1;
                of_name += 1;
                while name.get(of_name).is_some_and(|byte| is_continuation(*byte)) {
                    of_name += 1;
                }
            }
            Some(byte) if *byte == name[of_name] => {
                at += 1;
                of_name += 1;
            }
            _ => match &mut star {
                None => return false,
                Some((place, end)) => {
                    *end += 1;
                    at = *place + 1;
                    of_name = *end;
                }
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_as_in_a_shell() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("a*c*e", "abcde", true),
            ("a*c*e", "abcdef", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("caf?", "café", true),
            ("?é", "éé", true),
            ("c?f??", "café", false),
            ("*??", "é", false),
            ("**a", "bba", true),
            ("*aab", "aaaaaab", true),
            ("a", "b", false),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(matches_name(pattern, name), expected, "{pattern} {name}");
        }
    }
}
