//! Frames at an address in a common form for all tools, and their comparison.

use object::{Object, ObjectSymbol};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A frame: name as in the file, path, line, column.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Frame {
    pub(crate) name: String,
    pub(crate) file: String,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            file,
            line,
            column,
        } = self;
        write!(f, "{name} {file}:{line}:{column}")
    }
}

/// Frames at an address, innermost first.
pub(crate) type Chain = Vec<Frame>;

pub(crate) fn chain(frames: &rprof_symbols::Frames) -> Chain {
    let frame = |frame: rprof_symbols::SymbolFrame<'_>| Frame {
        name: frame.raw.to_owned(),
        file: frame.line.map(|line| plain(&line.file)).unwrap_or_default(),
        line: frame.line.map_or(0, |line| line.line),
        column: frame.line.map_or(0, |line| line.column),
    };
    frames.iter().rev().map(frame).collect()
}

pub(crate) fn plain(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            ".." if parts.len() > 1 => {
                parts.pop();
            }
            "." => {}
            "" if !parts.is_empty() => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Removes the suffixes that compilers append to parts and clones of a function.
pub(crate) fn stem(name: &str) -> &str {
    let end = [
        ".cold",
        ".part.",
        ".isra.",
        ".constprop.",
        ".llvm.",
        ".lto_priv.",
        ".localalias",
    ]
    .iter()
    .filter_map(|mark| name.find(mark))
    .min();
    &name[..end.unwrap_or(name.len())]
}

fn unversioned(frame: &Frame) -> &str {
    stem(frame.name.split('@').next().unwrap_or(""))
}

fn same_line(a: &Frame, b: &Frame) -> bool {
    // Without a line, the file name is irrelevant.
    (a.line, a.column) == (b.line, b.column) && (a.file == b.file || a.line == 0)
}

/// Addresses of functions, by name.
#[derive(Default)]
pub(crate) struct Aliases(BTreeMap<String, BTreeSet<u64>>);

impl Aliases {
    pub(crate) fn of<'a>(files: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut found = Self::default();
        for bytes in files {
            let Ok(file) = object::File::parse(bytes) else {
                continue;
            };
            for symbol in file.symbols().chain(file.dynamic_symbols()) {
                if let Ok(name) = symbol.name() {
                    let name = stem(name.split('@').next().unwrap_or_default()).to_owned();
                    found.0.entry(name).or_default().insert(symbol.address());
                }
            }
        }
        found
    }

    fn same(&self, a: &str, b: &str) -> bool {
        let (Some(a), Some(b)) = (self.0.get(a), self.0.get(b)) else {
            return false;
        };
        !a.is_disjoint(b)
    }

    /// Returns true if two results agree. Versions, parts and aliases of the outermost function
    /// count as that function.
    pub(crate) fn alike(&self, a: &Chain, b: &Chain) -> bool {
        let outermost = a.len().saturating_sub(1);
        let same_name = |(i, (a, b)): (usize, (&Frame, &Frame))| {
            let (a, b) = (unversioned(a), unversioned(b));
            a == b || i == outermost && self.same(a, b)
        };
        a.len() == b.len()
            && a.iter().zip(b).enumerate().all(same_name)
            && a.iter().zip(b).all(|(a, b)| same_line(a, b))
    }
}
