//! Names of V8, and of JavaScriptCore, which Bun runs.

use super::parts::{SourceName, with_number};
use crate::language::Language;

/// Prefixes of V8's code for JavaScript functions; `Script` and `Eval` are top-level code.
const V8: [&str; 7] = [
    "JS:",
    "LazyCompile:",
    "Function:",
    "Script:",
    "Eval:",
    "Interpreter:",
    "Baseline:",
];

/// V8's marks for interpreter, baseline compiler, and optimizing compilers.
const TIERS: [char; 5] = ['~', '^', '+', '*', '-'];

/// Mark behind a compiler's mark: code for one context. No function's name begins with it.
const OF_CONTEXT: char = '\'';

/// Marks of code that replaces a running loop.
const OF_LOOP: [&str; 2] = ["o+", "o*"];

fn without_marks(name: &str) -> &str {
    let marked = OF_LOOP.iter().find_map(|mark| name.strip_prefix(*mark));
    let unmarked = marked.unwrap_or(name).trim_start_matches(TIERS);
    let has_mark = unmarked.len() < name.len();
    (unmarked.strip_prefix(OF_CONTEXT).filter(|_| has_mark)).unwrap_or(unmarked)
}

/// Prefixes of V8's generated code that is no function of the program.
const V8_PLUMBING: [&str; 5] = [
    "Builtin:",
    "BytecodeHandler:",
    "Handler:",
    "Stub:",
    "Trampoline:",
];

/// Prefix of the names in JavaScriptCore's jitdump, and the compilers of functions. All other code
/// is inline caches and thunks.
const JSC: &str = "JSC-";
const JSC_COMPILERS: [&str; 3] = ["Baseline: ", "DFG: ", "FTL: "];

/// Length of the hash of a function's source text in its name.
const JSC_HASH: usize = 6;

pub(super) fn is_plumbing(name: &str) -> bool {
    let is_of_v8 = V8_PLUMBING.iter().any(|prefix| name.starts_with(prefix));
    is_of_v8 || name.starts_with(JSC) && jsc(name).is_none()
}

/// Parses `JSC-FTL: fib#CPBdlN`. Code of a module or script has the name of its file. An anonymous
/// function keeps the hash, since nothing else tells it from others.
pub(super) fn jsc(name: &str) -> Option<SourceName<'_>> {
    let rest = name.strip_prefix(JSC)?;
    let compiler = JSC_COMPILERS
        .iter()
        .find(|prefix| rest.starts_with(**prefix))?;
    let hashed = &rest[compiler.len()..];
    let is_hash = |hash: &str| {
        hash.len() == JSC_HASH && hash.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let named = hashed.rsplit_once('#').filter(|(_, hash)| is_hash(hash));
    let own = match named {
        Some(("", _)) | None => hashed,
        Some((name, _)) => name,
    };
    let (name, file) = match begins_file(own) {
        true => ("", own),
        false => (own, ""),
    };
    Some(SourceName {
        language: Language::JavaScript,
        name,
        file,
        line: 0,
        column: 0,
        is_of_code: true,
    })
}

pub(super) fn javascript(name: &str) -> Option<SourceName<'_>> {
    let prefix = V8.iter().find(|prefix| name.starts_with(**prefix))?;
    let rest = &name[prefix.len()..];
    let unmarked = without_marks(rest);
    // `JS::` is a namespace in C++.
    if unmarked.starts_with(':') {
        return None;
    }
    let (own, place) = match place_start(unmarked) {
        Some(at) => (&unmarked[..at], unmarked[at..].trim_start()),
        None => (unmarked, ""),
    };
    let numbers = with_number(place).and_then(|(rest, column)| {
        let (file, line) = with_number(rest)?;
        Some((file, line, column))
    });
    let (file, line, column) = numbers.unwrap_or((place, 0, 0));
    Some(SourceName {
        language: Language::JavaScript,
        name: own.trim_end(),
        file,
        line,
        column,
        is_of_code: unmarked.len() < rest.len() || *prefix != "JS:",
    })
}

/// Returns the index of the space between the function's and V8's file name: before a path, a URL or
/// a built-in module.
pub fn v8_place(name: &str) -> Option<usize> {
    let mut spaces = name.match_indices(' ').map(|(at, _)| at);
    spaces.find(|at| *at > 0 && begins_file(&name[at + 1..]))
}

fn begins_file(text: &str) -> bool {
    ["/", "file:", "node:"]
        .iter()
        .any(|start| text.starts_with(start))
}

/// Returns the index of the space before the file, or of the last space before a line number.
fn place_start(name: &str) -> Option<usize> {
    if name.strip_prefix(' ').is_some_and(begins_file) {
        return Some(0);
    }
    v8_place(name).or_else(|| {
        with_number(name).and_then(|(rest, _)| with_number(rest))?;
        name.rfind(' ')
    })
}
