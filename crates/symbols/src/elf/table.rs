//! Lookup table: symbols sorted by start, and the tails of symbols after nested ones.

/// Kind of a symbol, and the string table of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Origin {
    Symtab = 0,
    Dynsym = 1,
    PltSymtab = 2,
    PltDynsym = 3,
    /// The part of `.plt` that calls the dynamic linker.
    PltHeader = 4,
    /// A function of Go's runtime table.
    Go = 5,
}

impl Origin {
    pub(super) fn is_plt(self) -> bool {
        matches!(self, Self::PltSymtab | Self::PltDynsym)
    }
}

/// Number of size bits; the upper three bits hold the origin.
const SIZE_BITS: u32 = 29;
const MAX_SIZE: u64 = (1 << SIZE_BITS) - 1;

#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    start: u64,
    size_and_origin: u32,
    name: u32,
}

impl Entry {
    /// Creates an entry with a capped size. `name` is an offset in the string table of `origin`.
    pub(super) fn new(start: u64, size: u64, origin: Origin, name: u32) -> Self {
        let size = size.min(MAX_SIZE).min(u64::MAX - start) as u32;
        Self {
            start,
            size_and_origin: (origin as u32) << SIZE_BITS | size,
            name,
        }
    }

    pub(super) fn start(&self) -> u64 {
        self.start
    }

    pub(super) fn size(&self) -> u64 {
        u64::from(self.size_and_origin) & MAX_SIZE
    }

    pub(super) fn end(&self) -> u64 {
        self.start + self.size()
    }

    pub(super) fn origin(&self) -> Origin {
        match self.size_and_origin >> SIZE_BITS {
            0 => Origin::Symtab,
            1 => Origin::Dynsym,
            2 => Origin::PltSymtab,
            3 => Origin::PltDynsym,
            5 => Origin::Go,
            _ => Origin::PltHeader,
        }
    }

    pub(super) fn name(&self) -> u32 {
        self.name
    }
}

/// Range of a symbol's code after the end of a nested symbol.
#[derive(Debug, Clone, Copy)]
struct Tail {
    start: u64,
    end: u64,
    entry: u32,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    entries: Vec<Entry>,
    /// Disjoint and sorted. Nesting is rare, and mostly in assembly.
    tails: Vec<Tail>,
}

impl Table {
    /// Builds the table from symbols in any order. The first of several with the same start wins.
    pub(super) fn new(mut entries: Vec<Entry>) -> Self {
        entries.sort_by_key(Entry::start);
        entries.dedup_by_key(|entry| entry.start);
        entries.truncate(u32::MAX as usize);
        entries.shrink_to_fit();
        let tails = tails(&entries);
        Self { entries, tails }
    }

    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(super) fn lookup(&self, svma: u64) -> Option<&Entry> {
        let after = self.entries.partition_point(|entry| entry.start <= svma);
        let entry = &self.entries[after.checked_sub(1)?];
        if svma < entry.end() {
            return Some(entry);
        }
        let after = self.tails.partition_point(|tail| tail.start <= svma);
        let tail = &self.tails[after.checked_sub(1)?];
        (svma < tail.end).then(|| &self.entries[tail.entry as usize])
    }
}

/// Computes the tails in one ascending sweep. `open` holds the symbols that may extend past the
/// current one, innermost last. Linear: each is pushed and popped once.
fn tails(entries: &[Entry]) -> Vec<Tail> {
    let mut tails = Vec::new();
    let mut open: Vec<u32> = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let until = entries.get(index + 1).map_or(u64::MAX, Entry::start);
        let mut at = entry.end();
        while at < until
            && let Some(&outer) = open.last()
        {
            let end = entries[outer as usize].end();
            if end > at {
                let end = end.min(until);
                tails.push(Tail {
                    start: at,
                    end,
                    entry: outer,
                });
                at = end;
            }
            if at < until {
                open.pop();
            }
        }
        if entry.end() > until {
            open.push(index as u32);
        }
    }
    tails
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_testing::Random;

    fn table(symbols: &[(u64, u64)]) -> Table {
        let entry = |(index, &(start, size)): (usize, &(u64, u64))| {
            Entry::new(start, size, Origin::Dynsym, index as u32)
        };
        Table::new(symbols.iter().enumerate().map(entry).collect())
    }

    #[test]
    fn entry_stays_small() {
        assert_eq!(size_of::<Entry>(), 16);
        let entry = Entry::new(u64::MAX - 2, u64::MAX, Origin::PltHeader, 7);
        assert_eq!((entry.end(), entry.origin()), (u64::MAX, Origin::PltHeader));
    }

    /// Compares each address with the definition: of the symbols that cover it, the last to start.
    #[test]
    fn agrees_with_the_definition() {
        let mut numbers = Random::new(1);
        let mut random = |below: u64| numbers.below(below);
        for round in 0..500 {
            let symbols: Vec<(u64, u64)> = (0..1 + round % 20)
                .map(|_| (10 + random(80), random(40)))
                .collect();
            let table = table(&symbols);
            let kept: Vec<_> = table.entries().to_vec();
            for svma in 0..140 {
                let expected = kept
                    .iter()
                    .rfind(|entry| entry.start() <= svma && svma < entry.end());
                let found = table.lookup(svma);
                assert_eq!(
                    found.map(Entry::start),
                    expected.map(Entry::start),
                    "{symbols:?} at {svma}"
                );
            }
        }
    }

    #[test]
    fn deep_nesting_is_linear() {
        let count = 200_000;
        let symbols: Vec<_> = (0..count).map(|i| (i, 2 * (count - i))).collect();
        let table = table(&symbols);
        assert_eq!(table.lookup(count + 10).unwrap().start(), count - 11);
        assert_eq!(table.lookup(2 * count - 1).unwrap().start(), 0);
        assert!(table.lookup(2 * count).is_none());
    }
}
