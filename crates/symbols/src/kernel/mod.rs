//! Symbols of the running kernel and its modules.
//!
//! `/proc/kallsyms` lists both by AVMA. Lookups follow `perf` 6.1: a symbol extends to the next
//! one, and the last symbol in the file wins among those at one address.

mod running;
mod stored;
mod table;
mod vmlinux;

pub use vmlinux::VmlinuxError;

pub(crate) use running::RunningKernel;
pub(crate) use vmlinux::Vmlinux;

use rprof_image::Reason;
use rustc_hash::FxHashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::ops::Range;
use table::{Entry, Table};

/// Cause for missing kernel symbols.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// Every address reads as zero: `kernel.kptr_restrict` or lockdown hides them.
    #[error("the kernel hides its addresses (kernel.kptr_restrict)")]
    Hidden,
    /// The file contains no symbols.
    #[error("no symbols in the kernel's symbol list")]
    Empty,
    /// The file cannot be read.
    #[error("cannot read /proc/kallsyms: {0}")]
    Io(#[from] io::Error),
}

impl From<&KernelError> for Reason {
    fn from(error: &KernelError) -> Self {
        match error {
            KernelError::Hidden => Self::KernelSymbolsHidden,
            KernelError::Io(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Self::KernelSymbolsHidden
            }
            KernelError::Empty | KernelError::Io(_) => Self::NoKernelSymbols,
        }
    }
}

/// Function of the kernel or a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelSymbol<'a> {
    /// Name from the kernel. Rust code in the kernel has mangled names.
    pub name: &'a str,
    /// Module, without brackets. `None` for the kernel proper. BPF programs have the module `bpf`,
    /// trampolines a module such as `__builtin__ftrace`.
    pub module: Option<&'a str>,
    /// First AVMA.
    pub start: u64,
    /// Length in bytes.
    pub size: u64,
}

/// Symbols of a kernel and its modules, by AVMA.
#[derive(Debug)]
pub struct KernelSymbols {
    entries: Vec<Entry>,
    names: String,
    modules: Vec<Box<str>>,
    text: Option<Range<u64>>,
}

impl KernelSymbols {
    /// Reads `/proc/kallsyms`.
    ///
    /// # Errors
    ///
    /// [`KernelError::Hidden`] if all addresses are zero, as unprivileged users see them;
    /// [`KernelError::Io`] if the file cannot be read.
    pub fn load_running() -> Result<Self, KernelError> {
        Self::parse(BufReader::with_capacity(
            1 << 16,
            File::open("/proc/kallsyms")?,
        ))
    }

    /// Parses lines of the form `address type name [module]`. Skips other lines, and bytes beyond
    /// 64 KiB of a line.
    ///
    /// # Errors
    ///
    /// See [`KernelSymbols::load_running`].
    pub fn parse(mut list: impl BufRead) -> Result<Self, KernelError> {
        let mut symbols = Self {
            entries: Vec::new(),
            names: String::new(),
            modules: vec!["".into()],
            text: None,
        };
        let mut module_indexes: FxHashMap<Box<str>, u16> = FxHashMap::default();
        let (mut any, mut any_address) = (false, false);
        let mut bounds = TextBounds::default();
        for_each_line(&mut list, |line| {
            let Some((start, kind, name, module)) = split_line(line) else {
                return;
            };
            any = true;
            any_address |= start != 0;
            // A, N, r, ...: per-CPU offsets and constants, no addresses or no boundaries.
            let code = matches!(kind, b't' | b'T' | b'w' | b'W');
            if !code && !matches!(kind, b'd' | b'D' | b'b' | b'B') || name.starts_with('$') {
                return;
            }
            let module = match module {
                None => 0,
                Some(module) => match module_indexes.get(module) {
                    Some(index) => *index,
                    None => {
                        let Ok(next) = u16::try_from(symbols.modules.len()) else {
                            return;
                        };
                        symbols.modules.push(module.into());
                        module_indexes.insert(Box::from(module), next);
                        next
                    }
                },
            };
            if module == 0 {
                bounds.note(name, start);
            }
            let Ok(offset) = u32::try_from(symbols.names.len()) else {
                return;
            };
            // Names of data are never shown.
            if code {
                symbols.names.push_str(name);
                symbols.names.push('\n');
            }
            symbols.entries.push(Entry {
                start,
                name: offset,
                module,
                code,
            });
        })?;
        if !any_address {
            return Err(if any {
                KernelError::Hidden
            } else {
                KernelError::Empty
            });
        }
        symbols.finish();
        symbols.text = bounds.range();
        Ok(symbols)
    }

    fn finish(&mut self) {
        // Stable sort: the list is sorted except for a few modules.
        self.entries.sort_by_key(|entry| entry.start);
        // The last alias wins, but code wins over data such as `_etext`.
        self.entries.dedup_by(|next, kept| {
            let same = next.start == kept.start;
            if same && (next.code || !kept.code) {
                *kept = *next;
            }
            same
        });
        self.entries.shrink_to_fit();
        self.names.shrink_to_fit();
    }

    /// Returns the function that covers this AVMA.
    #[must_use]
    pub fn lookup(&self, avma: u64) -> Option<KernelSymbol<'_>> {
        self.table().lookup(avma)
    }

    /// Returns the start of the function with this name in the kernel proper. Linear in the number
    /// of symbols.
    #[must_use]
    pub fn address_of(&self, name: &str) -> Option<u64> {
        let in_text = match name {
            "_text" | "_stext" => self.text.as_ref().map(|text| text.start),
            _ => None,
        };
        in_text.or_else(|| {
            self.iter()
                .find(|symbol| symbol.module.is_none() && symbol.name == name)
                .map(|s| s.start)
        })
    }

    /// Returns the AVMAs of the kernel's own code: from `_text` (or `_stext` without it) to
    /// `_etext`.
    #[must_use]
    pub fn text_range(&self) -> Option<Range<u64>> {
        self.text.clone()
    }

    /// Returns all functions, ascending by address, without duplicates.
    pub fn iter(&self) -> impl Iterator<Item = KernelSymbol<'_>> {
        (0..self.entries.len()).filter_map(|index| self.table().symbol(index))
    }

    /// Returns the AVMAs where the result of a lookup may change, ascending, with duplicates.
    pub(crate) fn bounds(&self) -> impl Iterator<Item = u64> {
        (0..self.entries.len()).flat_map(|at| [self.entries[at].start, self.table().end(at)])
    }

    fn table(&self) -> Table<'_> {
        Table {
            entries: &self.entries,
            names: &self.names,
            modules: &self.modules,
        }
    }
}

#[derive(Default)]
struct TextBounds {
    text: Option<u64>,
    stext: Option<u64>,
    etext: Option<u64>,
}

impl TextBounds {
    fn note(&mut self, name: &str, start: u64) {
        let mark = match name {
            "_text" => &mut self.text,
            "_stext" => &mut self.stext,
            "_etext" => &mut self.etext,
            _ => return,
        };
        mark.get_or_insert(start);
    }

    fn range(&self) -> Option<Range<u64>> {
        let range = self.text.or(self.stext)?..self.etext?;
        (!range.is_empty()).then_some(range)
    }
}

const MAX_LINE: usize = 64 << 10;

/// Calls `each` with the lines, without line ends. Truncates overlong lines.
fn for_each_line(list: &mut impl BufRead, mut each: impl FnMut(&[u8])) -> io::Result<()> {
    let mut begun: Vec<u8> = Vec::new();
    loop {
        let available = match list.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let len = available.len();
        if len == 0 {
            if !begun.is_empty() {
                each(&begun);
            }
            return Ok(());
        }
        let mut rest = available;
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            let line = &rest[..end];
            if begun.is_empty() {
                each(&line[..line.len().min(MAX_LINE)]);
            } else {
                begun.extend_from_slice(&line[..line.len().min(MAX_LINE - begun.len())]);
                each(&begun);
                begun.clear();
            }
            rest = &rest[end + 1..];
        }
        begun.extend_from_slice(&rest[..rest.len().min(MAX_LINE - begun.len())]);
        list.consume(len);
    }
}

fn split_line(line: &[u8]) -> Option<(u64, u8, &str, Option<&str>)> {
    // Fast path: 16 digits, the type, no module.
    if let Some((&start, [b' ', kind, b' ', rest @ ..])) = line.split_first_chunk::<16>()
        && let Some(start) = address(&start)
        && !rest.is_empty()
        && !rest.iter().any(u8::is_ascii_whitespace)
        && !kind.is_ascii_whitespace()
    {
        return Some((start, *kind, str::from_utf8(rest).ok()?, None));
    }
    let mut words = (line.split(u8::is_ascii_whitespace)).filter(|word| !word.is_empty());
    let start = address(words.next()?)?;
    let &[kind] = words.next()? else {
        return None;
    };
    let name = str::from_utf8(words.next()?).ok()?;
    let module = (words.next())
        .and_then(|word| word.strip_prefix(b"[")?.strip_suffix(b"]"))
        .and_then(|word| str::from_utf8(word).ok());
    Some((start, kind, name, module))
}

fn address(word: &[u8]) -> Option<u64> {
    if word.is_empty() || word.len() > 16 {
        return None;
    }
    word.iter().try_fold(0, |address, byte| {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            _ => return None,
        };
        Some(address << 4 | u64::from(digit))
    })
}

#[cfg(test)]
mod tests;
