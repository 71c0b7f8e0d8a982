//! The Go runtime's list of functions (`.gopclntab`), which stripped programs have too:
//! [`GoFunctions`] for unwinding, and [`GoNames`].
//!
//! The runtime unwinds its stacks by the same list: for each instruction it has the distance from the stack
//! pointer to the return address.
//!
//! Source: `runtime/symtab.go` (`pcHeader`, `pcvalue`), `runtime/runtime2.go` (`_func`),
//! `debug/gosym/pclntab.go`.

use std::ops::Range;

use rustc_hash::FxHashMap;

/// Maximum number of functions. The largest programs have about 500,000.
const MAX_FUNCTIONS: usize = 4 << 20;

/// Maximum size in bytes of all frame sizes. Large programs have 2 MiB.
const MAX_SIZES: usize = 32 << 20;

/// Index for functions without known frame sizes.
const UNKNOWN: u32 = u32::MAX;

/// Index for functions that have no caller: `rt0_go`, `mstart`, `goexit`, and handlers of signals.
const TOP: u32 = u32::MAX - 1;

/// Functions that have no caller, and functions that load the stack pointer (`abi.FuncFlag`).
const TOP_FRAME: u8 = 1;
const WRITES_SP: u8 = 2;

#[derive(Clone, Copy)]
enum Version {
    /// Since Go 1.2.
    Go12,
    /// Since Go 1.16.
    Go116,
    /// Since Go 1.18, with offsets from the start of the text.
    Go118,
    /// Since Go 1.20, with a longer description of functions.
    Go120,
}

/// Returns the SVMA from which a Go image counts its functions, if the dynamic linker writes it to the
/// section at this SVMA: in position-independent programs. `relocations` is the section `.rela.dyn`.
/// Without such a relocation, the table contains it, or it is the start of `.text`. Behind the start
/// of `.text` may be code of other languages.
pub fn go_text_start(section: u64, relocations: &[u8]) -> Option<u64> {
    const TEXT_START: u64 = 8 + 8 * 2;
    let slot = section.checked_add(TEXT_START)?.to_le_bytes();
    let relocations = relocations.as_chunks::<24>().0;
    let found = relocations
        .iter()
        .find(|relocation| relocation.starts_with(&slot))?;
    word(found, 16)
}

/// Returns the offset of Go's list of functions in `.data.rel.ro`. The C compiler links libraries and
/// programs of `-buildmode=c-shared`, `c-archive` and `pie` with C code, and puts the list there. Call it
/// for images with a section `.go.buildinfo` only.
pub fn go_functions_in(section: &[u8]) -> Option<u64> {
    const ALIGNMENT: usize = 32;
    let is_list = |at: &usize| {
        let rest = section.get(*at..).unwrap_or_default();
        matches!(
            rest,
            [
                0xf0 | 0xf1 | 0xfa | 0xfb,
                0xff,
                0xff,
                0xff,
                0,
                0,
                1 | 4,
                8,
                ..
            ]
        )
    };
    let mut places = (0..section.len()).step_by(ALIGNMENT);
    let found = places.find(|at| is_list(at))?;
    u64::try_from(found).ok()
}

/// Function starts and frame sizes of a Go image.
#[derive(Debug, Default)]
pub(super) struct GoFunctions {
    /// Start SVMAs, ascending.
    starts: Box<[u64]>,
    /// Position in `sizes`, by function.
    first: Box<[u32]>,
    /// Lists of differences of the frame size, which starts at -1, and of the address. They end with 0.
    sizes: Box<[u8]>,
}

impl GoFunctions {
    /// Parses the section. Empty if the format is unknown. `text` is the start of the text, which some
    /// formats omit.
    pub(super) fn parse(section: &[u8], text: u64) -> Self {
        parse(section, text).unwrap_or_default()
    }

    /// Returns the SVMAs of Go's code. Behind it may be code of other languages. `None` for formats
    /// before Go 1.18.
    pub(super) fn text(section: &[u8], text: u64) -> Option<Range<u64>> {
        let list = List::parse(section, text)?;
        match list.version {
            Version::Go12 | Version::Go116 => None,
            Version::Go118 | Version::Go120 => Some(list.base..list.end()?),
        }
    }

    /// Returns the start of the function that contains this SVMA, or that ended before it.
    pub(super) fn start(&self, svma: u64) -> Option<u64> {
        self.starts.get(self.index(svma)?).copied()
    }

    /// Returns the distance in bytes from the stack pointer to the return address. `None` in functions
    /// that have no caller or load the stack pointer, behind a function's end, and before Go 1.16.
    pub(super) fn frame_size(&self, svma: u64) -> Option<u32> {
        let index = self.index(svma)?;
        let (start, first) = (*self.starts.get(index)?, *self.first.get(index)?);
        let steps = Steps {
            bytes: self.sizes.get(usize::try_from(first).ok()?..)?,
        };
        let within = svma - start;
        let mut end = 0_u64;
        let mut size = -1_i64;
        for (more, len) in steps {
            size = size.checked_add(more)?;
            end = end.checked_add(len)?;
            if within < end {
                return u32::try_from(size).ok().filter(|size| size % 8 == 0);
            }
        }
        None
    }

    /// Returns true in functions that have no caller in Go's view.
    pub(super) fn is_top(&self, svma: u64) -> bool {
        let first = self.index(svma).and_then(|index| self.first.get(index));
        first == Some(&TOP)
    }

    /// Returns the memory usage in bytes.
    pub(super) fn size(&self) -> usize {
        size_of_val(&*self.starts) + size_of_val(&*self.first) + self.sizes.len()
    }

    fn index(&self, svma: u64) -> Option<usize> {
        let behind = self.starts.partition_point(|start| *start <= svma);
        behind.checked_sub(1)
    }
}

/// Iterator over the differences of one function.
struct Steps<'a> {
    bytes: &'a [u8],
}

impl Iterator for Steps<'_> {
    type Item = (i64, u64);

    fn next(&mut self) -> Option<(i64, u64)> {
        let zigzag = self.varint().filter(|zigzag| *zigzag != 0)?;
        let size = i64::from(zigzag >> 1) ^ -i64::from(zigzag & 1);
        Some((size, self.varint()?.into()))
    }
}

impl Steps<'_> {
    fn varint(&mut self) -> Option<u32> {
        let mut value = 0;
        for shift in (0..32).step_by(7) {
            let (byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            value |= u32::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

/// Names of the functions of a Go image, as they stand in its `.gopclntab` section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoNames {
    /// Start SVMA of each function, and the offset of its name in `strings`; ascending.
    pub functions: Vec<(u64, u32)>,
    /// SVMA of the end of the last function. Behind it may be code of other languages.
    pub end: u64,
    /// Byte range of the names in the section. Each ends with a zero.
    pub strings: Range<usize>,
}

impl GoNames {
    /// Parses the section, as Go writes it since 1.2 for little-endian machines of 64 bits. `None` for
    /// other formats, and if it is damaged. `text` is the SVMA of the section `.text`, which some
    /// formats omit.
    pub fn parse(section: &[u8], text: u64) -> Option<GoNames> {
        let list = List::parse(section, text)?;
        let first = match list.version {
            Version::Go12 => 0,
            Version::Go116 => usize::try_from(word(section, 8 + 8 * 2)?).ok()?,
            Version::Go118 | Version::Go120 => usize::try_from(word(section, 8 + 8 * 3)?).ok()?,
        };
        // Behind the start address of the function.
        let at = match list.version {
            Version::Go12 | Version::Go116 => 8,
            Version::Go118 | Version::Go120 => 4,
        };
        let name = |(start, description): (u64, u64)| {
            let description = list
                .descriptions
                .get(usize::try_from(description).ok()?..)?;
            Some((start, half(description, at)?))
        };
        let named = list.functions().into_iter().filter_map(name).collect();
        Some(GoNames {
            functions: named,
            end: list.end()?,
            strings: (first <= section.len()).then_some(first..section.len())?,
        })
    }
}

/// Head of the section.
struct List<'a> {
    version: Version,
    /// Address from which newer formats count.
    base: u64,
    count: usize,
    /// Start addresses, and offsets of descriptions.
    table: &'a [u8],
    descriptions: &'a [u8],
    /// Lists of frame sizes and others.
    lists: Option<&'a [u8]>,
}

impl<'a> List<'a> {
    fn parse(section: &'a [u8], text: u64) -> Option<List<'a>> {
        let version = match u32::from_le_bytes(*section.first_chunk()?) {
            0xffff_fffb => Version::Go12,
            0xffff_fffa => Version::Go116,
            0xffff_fff0 => Version::Go118,
            0xffff_fff1 => Version::Go120,
            _ => return None,
        };
        if section.get(7) != Some(&8) {
            return None;
        }
        // After the magic number and four bytes: number of functions, in newer formats number of
        // files, and table offsets.
        let header = |number: usize| word(section, 8 + 8 * number);
        let part = |number: usize| section.get(usize::try_from(header(number)?).ok()?..);
        let (table, lists) = match version {
            Version::Go12 => (section.get(16..)?, None),
            Version::Go116 => (part(6)?, part(5)),
            Version::Go118 | Version::Go120 => (part(7)?, part(6)),
        };
        Some(List {
            version,
            base: match version {
                Version::Go12 | Version::Go116 => 0,
                Version::Go118 | Version::Go120 => {
                    header(2).filter(|base| *base != 0).unwrap_or(text)
                }
            },
            count: usize::try_from(header(0)?).ok()?.min(MAX_FUNCTIONS),
            table,
            descriptions: match version {
                Version::Go12 => section,
                _ => table,
            },
            lists,
        })
    }

    /// Returns the start of each function, with the offset of its description. Sorted, each start
    /// once.
    fn functions(&self) -> Vec<(u64, u64)> {
        let mut functions: Vec<_> = (0..self.count).map_while(|at| self.entry(at)).collect();
        functions.sort_unstable();
        functions.dedup_by_key(|(start, _)| *start);
        functions
    }

    /// Returns the end of the last function, which follows the functions.
    fn end(&self) -> Option<u64> {
        match self.version {
            Version::Go12 | Version::Go116 => word(self.table, self.count * 16),
            Version::Go118 | Version::Go120 => Some(
                self.base
                    .wrapping_add(half(self.table, self.count * 8)?.into()),
            ),
        }
    }

    fn entry(&self, at: usize) -> Option<(u64, u64)> {
        Some(match self.version {
            Version::Go12 | Version::Go116 => {
                (word(self.table, at * 16)?, word(self.table, at * 16 + 8)?)
            }
            Version::Go118 | Version::Go120 => {
                let start = half(self.table, at * 8)?;
                let description = half(self.table, at * 8 + 4)?;
                (self.base.wrapping_add(start.into()), description.into())
            }
        })
    }
}

fn parse(section: &[u8], text: u64) -> Option<GoFunctions> {
    let list = List::parse(section, text)?;
    let functions = list.functions();
    // The addresses of x86 code have a step of 1 byte.
    let sizes = list.lists.filter(|_| section.get(6) == Some(&1));
    let mut copied = SizeLists::default();
    let mut of = |description: u64| {
        let description = list
            .descriptions
            .get(usize::try_from(description).ok()?..)?;
        match layout(list.version, description)? {
            (_, flags) if flags & TOP_FRAME != 0 => Some(TOP),
            (offset, flags) if flags & WRITES_SP == 0 && offset != 0 => copied.add(sizes?, offset),
            _ => None,
        }
    };
    let first = (functions.iter())
        .map(|(_, description)| of(*description).unwrap_or(UNKNOWN))
        .collect();
    Some(GoFunctions {
        starts: functions.iter().map(|(start, _)| *start).collect(),
        first,
        sizes: copied.bytes.into(),
    })
}

/// Returns the offset of a function's list of frame sizes, and its flags. The list of a function with flags
/// is incomplete.
fn layout(version: Version, description: &[u8]) -> Option<(u32, u8)> {
    let (offset, flags) = match version {
        Version::Go12 => return None,
        Version::Go116 => (20, 41),
        Version::Go118 => (16, 37),
        Version::Go120 => (16, 41),
    };
    Some((half(description, offset)?, *description.get(flags)?))
}

fn half(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Copies of the used lists: the section has others, of lines and files, that are much longer.
#[derive(Default)]
struct SizeLists {
    bytes: Vec<u8>,
    known: FxHashMap<u32, u32>,
}

impl SizeLists {
    /// Returns the position of the copy.
    fn add(&mut self, lists: &[u8], offset: u32) -> Option<u32> {
        if let Some(known) = self.known.get(&offset) {
            return Some(*known);
        }
        let list = lists.get(usize::try_from(offset).ok()?..)?;
        let mut steps = Steps { bytes: list };
        while steps.next().is_some() {}
        let len = list.len() - steps.bytes.len();
        if self.bytes.len() + len > MAX_SIZES {
            return None;
        }
        let position = u32::try_from(self.bytes.len()).ok()?;
        self.bytes.extend_from_slice(list.get(..len)?);
        self.known.insert(offset, position);
        Some(position)
    }
}

#[cfg(test)]
mod tests;
