//! Symbols of the running kernel and its modules.
//!
//! `/proc/kallsyms` lists both by AVMA. Which symbol names an address is as `perf` 6.1 has it: each
//! reaches up to the next; of several at one address the last in the file wins.

mod stored;
mod vmlinux;

pub use vmlinux::VmlinuxError;

pub(crate) use stored::load_running;
pub(crate) use vmlinux::Vmlinux;

use rprof_image::Reason;
use rustc_hash::FxHashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::ops::Range;

/// Cause for which there are no kernel symbols.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// Every address reads as zero: `kernel.kptr_restrict` or lockdown hides them.
    #[error("the kernel hides its addresses (kernel.kptr_restrict)")]
    Hidden,
    /// The file has no symbols at all.
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
    /// Name, as the kernel has it. Rust code in the kernel has mangled names.
    pub name: &'a str,
    /// Module, without brackets. `None` for the kernel proper. BPF programs are in a module `bpf`,
    /// trampolines in ones like `__builtin__ftrace`.
    pub module: Option<&'a str>,
    /// First AVMA.
    pub start: u64,
    /// Length in bytes.
    pub size: u64,
}

/// Symbol in 16 bytes. Its name runs from `name` in the text to the end of the line; its size
/// follows from the next start.
#[derive(Debug, Clone, Copy)]
struct Entry {
    start: u64,
    name: u32,
    /// Index into `modules`; 0 is the kernel proper.
    module: u16,
    /// False for data symbols, which only mark the end of code.
    code: bool,
}

/// Symbols of a kernel and its modules, by AVMA.
#[derive(Debug)]
pub struct KernelSymbols {
    entries: Vec<Entry>,
    names: String,
    modules: Vec<Box<str>>,
    text: Option<Range<u64>>,
    /// True if they were kept by an earlier run: then some may be missing.
    is_kept: bool,
}

/// Page size in bytes. The last symbol before another module ends with the page after its own, so
/// that gaps between modules have no name.
const PAGE: u64 = 4096;

impl KernelSymbols {
    /// Reads `/proc/kallsyms`.
    ///
    /// # Errors
    ///
    /// [`KernelError::Hidden`] where all addresses are zero, which is what users without
    /// privileges get to see; [`KernelError::Io`] where the file cannot be read.
    pub fn load_running() -> Result<Self, KernelError> {
        Self::parse(BufReader::with_capacity(
            1 << 16,
            File::open("/proc/kallsyms")?,
        ))
    }

    /// Reads lines of the form `address type name [module]`. Lines of another form
    /// are skipped, as are bytes past 64 KiB in one line.
    ///
    /// # Errors
    ///
    /// The errors of [`KernelSymbols::load_running`].
    pub fn parse(mut list: impl BufRead) -> Result<Self, KernelError> {
        let mut symbols = Self {
            entries: Vec::new(),
            names: String::new(),
            modules: vec!["".into()],
            text: None,
            is_kept: false,
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
            // A, N, r, ...: per-CPU offsets and constants, which are no addresses or no boundaries.
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
            // Data have no names to be shown.
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
        // Mostly it is in order but for a few modules.
        self.entries.sort_by_key(|entry| entry.start);
        // The last alias stays, but code before data: `_etext` and the like share addresses with either.
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
        let index = self
            .entries
            .partition_point(|entry| entry.start <= avma)
            .checked_sub(1)?;
        let symbol = self.symbol(index)?;
        (avma - symbol.start < symbol.size).then_some(symbol)
    }

    /// Returns the first address of the function of that name in the kernel proper. Linear in the
    /// number of symbols.
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

    /// Returns the AVMAs of the code of the kernel proper: from `_text`, or `_stext` without one,
    /// to `_etext`.
    #[must_use]
    pub fn text_range(&self) -> Option<Range<u64>> {
        self.text.clone()
    }

    /// Returns true if the answer to a lookup is that of the kernel's whole list. Of symbols that were kept by an
    /// [earlier run](stored) those of BPF programs and the like are missing, which may lie anywhere but among the kernel's
    /// own code, and that of modules.
    pub(crate) fn is_certain(&self, avma: u64) -> bool {
        if !self.is_kept || self.text.as_ref().is_some_and(|text| text.contains(&avma)) {
            return true;
        }
        let next = self.entries.partition_point(|entry| entry.start <= avma);
        let entry = next.checked_sub(1).and_then(|at| self.entries.get(at));
        let Some(entry) = entry else {
            return false;
        };
        // The code of a module lies in one piece; what shares a page with it is its own.
        let goes_on = |next: &Entry| entry.module != 0 && next.module == entry.module && next.code;
        entry.start / PAGE == avma / PAGE
            || (entry.code && self.entries.get(next).is_some_and(goes_on))
    }

    /// Returns the range of addresses for which these symbols stand where some may be missing; `None` where none is.
    pub(crate) fn certain_range(&self) -> Option<Range<u64>> {
        self.text.clone().filter(|_| self.is_kept)
    }

    /// Returns all functions by rising address, no two at the same.
    pub fn iter(&self) -> impl Iterator<Item = KernelSymbol<'_>> {
        (0..self.entries.len()).filter_map(|index| self.symbol(index))
    }

    /// Returns the AVMAs at which the answer to a lookup may change, ascending; some twice.
    pub(crate) fn bounds(&self) -> impl Iterator<Item = u64> {
        (0..self.entries.len()).flat_map(|at| [self.entries[at].start, self.end(at)])
    }

    /// Returns the end of the symbol of this index: the start of the next one at the latest.
    fn end(&self, index: usize) -> u64 {
        let entry = &self.entries[index];
        match self.entries.get(index + 1) {
            Some(next) if next.module == entry.module => next.start,
            next => {
                let page_end = (entry.start | (PAGE - 1))
                    .saturating_add(1)
                    .saturating_add(PAGE);
                next.map_or(page_end, |next| next.start.min(page_end))
            }
        }
    }

    fn symbol(&self, index: usize) -> Option<KernelSymbol<'_>> {
        let entry = &self.entries[index];
        let name = self.names.get(entry.name as usize..)?.split('\n').next()?;
        let module = (entry.module != 0).then(|| &*self.modules[usize::from(entry.module)]);
        entry.code.then_some(KernelSymbol {
            name,
            module,
            start: entry.start,
            size: self.end(index) - entry.start,
        })
    }
}

/// Boundaries of code, by symbols that the kernel's linker script defines.
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

/// Longest line that is read, in bytes.
const MAX_LINE: usize = 64 << 10;

/// Calls `each` with the lines, without their line ends; overlong ones are cut.
fn for_each_line(list: &mut impl BufRead, mut each: impl FnMut(&[u8])) -> io::Result<()> {
    // The beginning of a line that goes on behind what was read.
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

/// Splits a line into address, type, name and module. Returns `None` for a line of another form.
fn split_line(line: &[u8]) -> Option<(u64, u8, &str, Option<&str>)> {
    // As the kernel prints it: 16 digits and the type, and mostly no module.
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

/// Parses up to 16 hexadecimal digits.
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
