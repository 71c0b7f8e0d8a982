//! Parses bytes as an ELF file with debug information, and compares frames with `addr2line`.
//!
//! With damaged debug information, both may return anything. Where a third parser finds it
//! unambiguous, they must agree, or differ in a way that this crate's tests have judged.
//!
//! Input: the bytes of the file.

use super::chains::{Aliases, chain};
use super::judge::{Difference, Functions, Oracle, Sections, Slice, judge};
use gimli::{Dwarf, Range, Unit};
use object::{Object, ObjectSection};
use rprof_symbols::{ElfSymbols, Symbolizer};
use std::path::{Path, PathBuf};

/// Maximum decompressed size of a section.
const MAX_BYTES: u64 = 1 << 20;

/// Returns the number of addresses where both return the same functions.
pub(crate) fn compare(data: &[u8]) -> Option<usize> {
    let symbols = ElfSymbols::parse(data).ok()?;
    let small = |file: object::File<'_>| {
        let sizes = file.sections().map(|section| section.compressed_data());
        let mut sizes = sizes.map(|data| data.map_or(u64::MAX, |data| data.uncompressed_size));
        sizes.all(|size| size <= MAX_BYTES)
    };
    if !object::File::parse(data).is_ok_and(small) {
        return None;
    }
    let sections = Sections::read(data, false)?;
    let plain = Plain::read(&sections.dwarf()).ok()?;
    let oracle = Oracle::new(sections.dwarf())?;
    // Reads only the input: there are no files in the search folders.
    let symbolizer = Symbolizer::builder()
        .root(Some(PathBuf::from("/nowhere")))
        .debug_dirs(Vec::new())
        .perf_cache(None)
        .threads(1)
        .build();
    let step = 1 + data.len() / 512;
    let places = (0..data.len() as u64).step_by(step);
    let places = places.filter_map(|offset| Some((offset, symbols.file_offset_to_svma(offset)?)));
    let (offsets, svmas): (Vec<u64>, Vec<u64>) =
        places.filter(|(_, svma)| plain.is_plain(*svma)).unzip();
    let ours = symbolizer.resolve_copy(data.to_vec(), Path::new("/image"), &offsets);
    let (aliases, functions) = (Aliases::of([data]), Functions::of([data]));
    let mut same = 0;
    for (svma, ours) in svmas.into_iter().zip(ours) {
        let ours = ours.map(|frames| chain(&frames)).unwrap_or_default();
        let theirs = oracle.chain(svma, |_| None);
        if aliases.alike(&ours, &theirs) {
            same += usize::from(!ours.is_empty());
        } else {
            let difference = judge(&functions, &aliases, svma, &ours, &theirs);
            assert!(
                difference != Difference::Unexplained,
                "{svma:#x}: ours {ours:?}, theirs {theirs:?}"
            );
        }
    }
    Some(same)
}

/// An entry with addresses: a function, an inlined call, or a block.
struct Entry {
    ranges: Vec<Range>,
    /// Index of the nearest enclosing entry.
    parent: Option<usize>,
}

impl Entry {
    fn covers(&self, svma: u64) -> bool {
        covers(&self.ranges, svma)
    }
}

/// Address information of debug information without errors.
#[derive(Default)]
struct Plain {
    units: Vec<Vec<Range>>,
    entries: Vec<Entry>,
    /// From the first row of a line sequence to its end.
    sequences: Vec<Range>,
}

impl Plain {
    fn read(dwarf: &Dwarf<Slice<'_>>) -> gimli::Result<Plain> {
        let mut plain = Plain::default();
        let mut headers = dwarf.units();
        while let Some(header) = headers.next()? {
            let unit = dwarf.unit(header)?;
            plain.read_entries(dwarf, &unit)?;
            plain.read_lines(&unit)?;
        }
        Ok(plain)
    }

    fn read_entries(
        &mut self,
        dwarf: &Dwarf<Slice<'_>>,
        unit: &Unit<Slice<'_>>,
    ) -> gimli::Result<()> {
        self.units.push(ranges(dwarf.unit_ranges(unit)?)?);
        // Open entries, with their depth.
        let mut open: Vec<(isize, usize)> = Vec::new();
        let mut entries = unit.entries();
        while let Some(entry) = entries.next_dfs()? {
            open.truncate(open.partition_point(|(depth, _)| *depth < entry.depth()));
            let is_code = [
                gimli::DW_TAG_subprogram,
                gimli::DW_TAG_inlined_subroutine,
                gimli::DW_TAG_lexical_block,
            ];
            if !is_code.contains(&entry.tag()) {
                continue;
            }
            let index = self.entries.len();
            self.entries.push(Entry {
                ranges: ranges(dwarf.die_ranges(unit, entry)?)?,
                parent: open.last().map(|(_, parent)| *parent),
            });
            open.push((entry.depth(), index));
        }
        Ok(())
    }

    fn read_lines(&mut self, unit: &Unit<Slice<'_>>) -> gimli::Result<()> {
        let Some(program) = unit.line_program.clone() else {
            return Ok(());
        };
        let mut rows = program.rows();
        let mut first = None;
        while let Some((_, row)) = rows.next_row()? {
            let begin = *first.get_or_insert(row.address());
            if row.end_sequence() {
                let end = row.address();
                self.sequences.push(Range { begin, end });
                first = None;
            }
        }
        Ok(())
    }

    /// Returns true if exactly one unit, one function and one line sequence cover the address, and
    /// the covering entries are nested.
    fn is_plain(&self, svma: u64) -> bool {
        let units = self.units.iter().filter(|unit| covers(unit, svma)).count();
        let sequences = (self.sequences.iter()).filter(|s| (s.begin..s.end).contains(&svma));
        let covering = (self.entries.iter().enumerate()).filter(|(_, entry)| entry.covers(svma));
        let mut last = None;
        let mut nested = true;
        for (index, entry) in covering {
            nested &= entry.parent == last;
            last = Some(index);
        }
        units == 1 && sequences.count() == 1 && nested && last.is_some()
    }
}

fn ranges(mut list: gimli::RangeIter<Slice<'_>>) -> gimli::Result<Vec<Range>> {
    let mut ranges = Vec::new();
    while let Some(range) = list.next()? {
        ranges.push(range);
    }
    Ok(ranges)
}

fn covers(ranges: &[Range], svma: u64) -> bool {
    ranges
        .iter()
        .any(|range| (range.begin..range.end).contains(&svma))
}
