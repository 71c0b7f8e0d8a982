//! [`PerfMap`]: text file with the functions of a runtime.
//!
//! Format: `tools/perf/Documentation/jit-interface.txt` in the kernel's source. Lines of `START
//! SIZE NAME`, with hexadecimal numbers. Where entries overlap, the later one wins.

mod copy;
mod entry;
mod spans;

use crate::function::{JitFunction, text};
use entry::Entry;
use spans::{Span, flatten};

pub use copy::{CopiedEntries, CopyError, copy_entries};

/// Maximum number of functions of a file.
const MAX_ENTRIES: usize = 4 << 20;

/// An entry of size 0 extends at most to the end of the next page, as in perf.
const PAGE: u64 = 4096;

/// The functions of one process, by address.
#[derive(Debug, Default)]
pub struct PerfMap {
    /// Names, concatenated.
    names: Vec<u8>,
    entries: Vec<Entry>,
    /// Ascending by address, without overlaps.
    spans: Vec<Span>,
    bad_lines: u64,
    left_out: u64,
}

impl PerfMap {
    /// Parses the text. Counts and skips invalid lines, and names beyond 4 GiB.
    #[must_use]
    pub fn parse(mut bytes: Vec<u8>) -> Self {
        let mut map = Self::default();
        let (mut at, mut kept) = (0, 0);
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let end = rest.iter().position(|byte| *byte == b'\n');
            let len = end.unwrap_or(rest.len());
            let line = rest.get(..len).unwrap_or_default();
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let begins = at;
            at += len + 1;
            if line.is_empty() {
                continue;
            }
            match Entry::parse(line, begins) {
                Some(_) if map.entries.len() == MAX_ENTRIES => map.left_out += 1,
                Some((entry, name)) => {
                    let (Ok(place), Ok(name_len)) =
                        (u32::try_from(kept), u32::try_from(name.len()))
                    else {
                        map.left_out += 1;
                        continue;
                    };
                    kept += name.len();
                    bytes.copy_within(name, place as usize);
                    map.entries.push(Entry {
                        name: place,
                        name_len,
                        ..entry
                    });
                }
                None => map.bad_lines += 1,
            }
        }
        bytes.truncate(kept);
        bytes.shrink_to_fit();
        map.names = bytes;
        map.entries.shrink_to_fit();
        map.give_sizes();
        map.spans = flatten(&map.entries);
        map
    }

    /// Returns the index of the function at an address, for [`function`](Self::function).
    #[must_use]
    pub fn find(&self, avma: u64) -> Option<u32> {
        let after = self.spans.partition_point(|span| span.start <= avma);
        let span: &Span = self.spans.get(after.checked_sub(1)?)?;
        (avma <= span.last).then_some(span.entry)
    }

    /// Returns the function with this index.
    #[must_use]
    pub fn function(&self, number: u32) -> Option<JitFunction<'_>> {
        let entry = self.entries.get(number as usize)?;
        let names = self.names.get(entry.name as usize..)?;
        Some(JitFunction {
            name: text(names.get(..entry.name_len as usize)?),
            start: entry.start,
            size: entry.size,
        })
    }

    /// Returns the function at an address.
    #[must_use]
    pub fn lookup(&self, avma: u64) -> Option<JitFunction<'_>> {
        self.function(self.find(avma)?)
    }

    /// Returns the number of functions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if there are no functions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the number of invalid lines.
    #[must_use]
    pub fn bad_lines(&self) -> u64 {
        self.bad_lines
    }

    /// Returns the number of valid entries dropped above the limits.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Extends entries of size 0 to the next entry.
    fn give_sizes(&mut self) {
        if self.entries.iter().all(|entry| entry.size > 0) {
            return;
        }
        let mut starts: Vec<u64> = self.entries.iter().map(|entry| entry.start).collect();
        starts.sort_unstable();
        for entry in self.entries.iter_mut().filter(|entry| entry.size == 0) {
            let next = starts.partition_point(|start| *start <= entry.start);
            let most = (entry.start | (PAGE - 1)).saturating_add(PAGE);
            let end = starts.get(next).map_or(most, |next| most.min(*next));
            entry.size = (end - entry.start).max(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(map: &PerfMap, avma: u64) -> Option<String> {
        map.lookup(avma).map(|found| found.name.into_owned())
    }

    #[test]
    fn later_entries_win_and_leave_the_rest() {
        let map = PerfMap::parse(b"1000 100 old one\n1040 10 new\n0x1080 0x10 next\n".to_vec());
        for (avma, name) in [
            (0xfff, None),
            (0x1000, Some("old one")),
            (0x103f, Some("old one")),
            (0x1040, Some("new")),
            (0x104f, Some("new")),
            (0x1050, Some("old one")),
            (0x1080, Some("next")),
            (0x1090, Some("old one")),
            (0x10ff, Some("old one")),
            (0x1100, None),
        ] {
            assert_eq!(named(&map, avma).as_deref(), name, "{avma:#x}");
        }
        let found = map.lookup(0x10a0).unwrap();
        assert_eq!((found.start, found.size), (0x1000, 0x100));
    }

    #[test]
    fn an_entry_that_covers_several_hides_them() {
        let map = PerfMap::parse(b"10 10 a\n20 10 b\n30 10 c\n18 20 over\n".to_vec());
        let names: Vec<_> = [0x17, 0x18, 0x28, 0x37, 0x38]
            .map(|avma| named(&map, avma).unwrap())
            .to_vec();
        assert_eq!(names, ["a", "over", "over", "over", "c"]);
    }

    #[test]
    fn a_bad_line_costs_itself() {
        let text = b"\n1000 10 good\nnonsense\n10000000000000000 10 too far\n\
            g000 10 no number\n2000 10\n2000 10 \n3000  two spaces\n\
            4000 10 caf\xe9 \x1b[2J\r\n5000 10 cut of"
            .to_vec();
        let map = PerfMap::parse(text);
        assert_eq!(named(&map, 0x1000).as_deref(), Some("good"));
        assert_eq!(named(&map, 0x4000).as_deref(), Some("caf\u{fffd} \x1b[2J"));
        assert_eq!(named(&map, 0x5000).as_deref(), Some("cut of"));
        assert_eq!((map.len(), map.bad_lines()), (3, 6));
    }

    #[test]
    fn the_end_of_memory_is_an_end() {
        let map = PerfMap::parse(b"fffffffffffff000 ffffffffffffffff top\n0 1 null\n".to_vec());
        assert_eq!(named(&map, u64::MAX).as_deref(), Some("top"));
        assert_eq!(named(&map, 0).as_deref(), Some("null"));
        assert_eq!(named(&map, 1), None);
        let map = PerfMap::parse(b"ffffffffffffffff 0 last\n0 ffffffffffffffff all\n".to_vec());
        assert_eq!(named(&map, u64::MAX).as_deref(), Some("last"));
        assert_eq!(named(&map, u64::MAX - 1).as_deref(), Some("all"));
    }

    #[test]
    fn no_size_reaches_to_the_next() {
        let map = PerfMap::parse(b"1000 0 a\n1010 0 b\n".to_vec());
        assert_eq!(named(&map, 0x100f).as_deref(), Some("a"));
        assert_eq!(named(&map, 0x1010).as_deref(), Some("b"));
        assert_eq!(named(&map, 0x1ffe).as_deref(), Some("b"));
        assert_eq!(named(&map, 0x9000), None);
    }

    /// As written with `DOTNET_PerfMapEnabled=1` (`PerfMap::LogMethod` in CoreCLR's `perfmap.cpp`):
    /// 16 capital digits, lower-case sizes, the tier after the name, stubs between methods.
    #[test]
    fn of_dotnet() {
        let text = b"00007F80D1E81F40 2a void [Program] Program::Main(string[])[Tier0]\n\
            00007F80D1E81F80 18 stub<1> GenerateLookupStub\n\
            00007F80D1E81FA0 1bc instance !0 [System.Private.CoreLib] \
            System.Collections.Generic.List`1[System.__Canon]::get_Item(int32)[OptimizedTier1]\n";
        let map = PerfMap::parse(text.to_vec());
        assert_eq!((map.len(), map.bad_lines()), (3, 0));
        let main = "void [Program] Program::Main(string[])[Tier0]";
        assert_eq!(named(&map, 0x7f80_d1e8_1f69).as_deref(), Some(main));
        let stub = named(&map, 0x7f80_d1e8_1f80);
        assert_eq!(stub.as_deref(), Some("stub<1> GenerateLookupStub"));
        let item = named(&map, 0x7f80_d1e8_215b).unwrap();
        assert!(item.ends_with("List`1[System.__Canon]::get_Item(int32)[OptimizedTier1]"));
    }

    #[test]
    fn a_long_name_is_cut() {
        let line = [b"10 10 ".to_vec(), vec![b'x'; 1 << 20]].concat();
        let map = PerfMap::parse(line);
        assert!(map.lookup(0x10).unwrap().name.len() < LONGEST_NAME_SHOWN);
    }

    const LONGEST_NAME_SHOWN: usize = 5000;
}
