//! Reads abbreviation tables with limits on work and memory (DWARF 5, section 7.5.3).

use super::sections::Slice;
use super::work_budget::WorkBudget;
use gimli::{Abbreviations, DebugAbbrev, DebugAbbrevOffset, EndianSlice, Reader, Section};

/// Maximum length of a table, in bytes. The largest units have 100 KiB, and ten times as much when
/// parsed.
const MAX_TABLE: usize = 1 << 20;

/// Maximum length of one abbreviation, in bytes. Real ones have less than 200.
const MAX_ONE: usize = 16 << 10;

/// Work per byte of a table, as parsing allocates memory for each attribute.
const FOR_EACH_BYTE: u64 = 16;

/// Parses the table at an offset. Also returns its length. `None` if it is damaged, too long, or
/// beyond the budget.
pub(super) fn table(
    section: &DebugAbbrev<Slice<'_>>,
    offset: DebugAbbrevOffset,
    work: &WorkBudget,
) -> Option<(Abbreviations, usize)> {
    let mut at = *section.reader();
    at.skip(offset.0).ok()?;
    let start = at;
    loop {
        let len = start.len() - at.len();
        if len > MAX_TABLE {
            work.refuse();
            return None;
        }
        if at.is_empty() || at.read_uleb128().ok()? == 0 {
            break;
        }
        skip_rest(&mut at, MAX_TABLE)?;
    }
    let len = start.len() - at.len();
    work.spend((len as u64).saturating_mul(FOR_EACH_BYTE))?;
    Some((parse(start, len)?, len))
}

/// Parses one abbreviation, usually the first of hundreds. `budget` limits the bytes to skip.
pub(super) fn one(
    section: &DebugAbbrev<Slice<'_>>,
    offset: DebugAbbrevOffset,
    code: u64,
    budget: &mut usize,
) -> Option<Abbreviations> {
    let mut at = *section.reader();
    at.skip(offset.0).ok()?;
    loop {
        let start = at;
        let found = at.read_uleb128().ok()?;
        if found == 0 {
            return None;
        }
        skip_rest(&mut at, (*budget).min(MAX_TABLE))?;
        let len = start.len() - at.len();
        *budget = budget.checked_sub(len)?;
        if found == code {
            return (len <= MAX_ONE).then(|| parse(start, len))?;
        }
    }
}

fn parse(start: Slice<'_>, len: usize) -> Option<Abbreviations> {
    let own = EndianSlice::new(start.slice().get(..len)?, start.endian());
    let table = DebugAbbrev::from(own);
    table.abbreviations(DebugAbbrevOffset(0)).ok()
}

/// Skips an abbreviation after its code. `None` if it is damaged, or longer than `most` bytes.
fn skip_rest(at: &mut Slice<'_>, most: usize) -> Option<()> {
    let before = at.len();
    at.read_uleb128().ok()?;
    at.read_u8().ok()?;
    loop {
        let name = at.read_uleb128().ok()?;
        let form = at.read_uleb128().ok()?;
        if form == u64::from(gimli::DW_FORM_implicit_const.0) {
            at.read_sleb128().ok()?;
        }
        if name == 0 && form == 0 {
            return Some(());
        }
        if before - at.len() > most {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gimli::RunTimeEndian;
    use rprof_image::MemoryBudget;

    fn abbreviation(code: u8, attributes: usize) -> Vec<u8> {
        let mut bytes = vec![code, 0x11, 0];
        bytes.extend([0x3a, 0x19].repeat(attributes));
        bytes.extend([0, 0]);
        bytes
    }

    fn section(bytes: &[u8]) -> DebugAbbrev<Slice<'_>> {
        DebugAbbrev::from(EndianSlice::new(bytes, RunTimeEndian::Little))
    }

    #[test]
    fn a_table_ends_where_it_ends_and_long_ones_are_refused() {
        let mut bytes = [abbreviation(1, 3), abbreviation(2, 1)].concat();
        let memory = MemoryBudget::new(0);
        let work = WorkBudget::new(0, 0, &memory);
        let read = |bytes: &[u8]| table(&section(bytes), DebugAbbrevOffset(0), &work);
        // Without a terminating 0, as the last table of a section may be.
        for _ in 0..2 {
            let (found, _) = read(&bytes).unwrap();
            let count = |code| found.get(code).map(|a| a.attributes().len());
            assert_eq!((count(1), count(2), count(3)), (Some(3), Some(1), None));
            bytes.extend([0, 9, 9]);
        }
        assert!(read(&abbreviation(1, 1 << 20)).is_none());
        assert_eq!(memory.refused(), 0, "it is as damage");
        assert!(read(&abbreviation(1, 500).repeat(1500)).is_none());
        assert_eq!(memory.refused(), 1);
    }

    #[test]
    fn one_abbreviation_is_read_within_the_budget() {
        let bytes = [
            abbreviation(1, 10),
            abbreviation(2, 1),
            abbreviation(3, 9000),
        ]
        .concat();
        let read = |code, mut budget| {
            let found = one(&section(&bytes), DebugAbbrevOffset(0), code, &mut budget);
            found.map(|found| (found.get(code).unwrap().attributes().len(), budget))
        };
        assert_eq!(read(1, 100), Some((10, 75)));
        assert_eq!(read(2, 100), Some((1, 68)));
        assert_eq!(read(2, 30), None);
        assert_eq!(read(3, 1 << 20), None);
        assert_eq!(read(4, 1 << 20), None);
    }
}
