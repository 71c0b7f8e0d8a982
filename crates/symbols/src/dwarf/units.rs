//! Index of the units of a file by address.

use super::head::Head;
use super::sections::Slice;
use gimli::{DebugAranges, DebugInfoOffset, Dwarf, Section, UnitType};
use rprof_image::{MemoryBudget, MemoryLease};
use rprof_parallel::map_chunks;
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Debug, Clone, Copy)]
struct Span {
    begin: u64,
    end: u64,
    /// Highest end of this span and all spans before it.
    highest: u64,
    unit: u32,
}

/// All units of a file by offset, and units with code by address.
#[derive(Debug, Default)]
pub(crate) struct Units {
    offsets: Vec<usize>,
    spans: Vec<Span>,
    leases: Vec<MemoryLease>,
}

const LEASE: usize = 1 << 12;

/// Bytes for a span during collection and sorting, and for the offset of a unit.
const SPAN_BYTES: usize = 4 * size_of::<Span>();
const HEADER_BYTES: usize = 48;

/// Maximum number of abbreviation bytes to skip before the root entries' abbreviations.
const MAX_SKIPPED: usize = 1 << 28;

/// Maximum number of spans to compare with an address. Few overlap in real files.
const MAX_OVERLAP: usize = 256;

impl Units {
    /// Reads the root entries. Time and memory are linear in the size of the sections.
    ///
    /// Drops units and spans that exceed `memory`. Searches `aranges` for units without ranges.
    pub(crate) fn read<'a>(
        dwarf: &Dwarf<Slice<'a>>,
        aranges: impl FnOnce() -> DebugAranges<Slice<'a>>,
        memory: &MemoryBudget,
        threads: usize,
    ) -> Self {
        let mut offsets = Vec::new();
        let mut headers = Vec::new();
        let mut list = dwarf.units();
        let mut leases = Vec::new();
        while let Ok(Some(header)) = list.next() {
            if offsets.len().is_multiple_of(LEASE) {
                match memory.take((LEASE * (HEADER_BYTES + size_of_val(&header))) as u64) {
                    Some(lease) => leases.push(lease),
                    None => break,
                }
            }
            let Some(DebugInfoOffset(offset)) = header.debug_info_offset() else {
                continue;
            };
            if matches!(
                header.type_(),
                UnitType::Compilation | UnitType::Skeleton(_)
            ) {
                headers.push((offsets.len() as u32, header));
            }
            offsets.push(offset);
        }
        // No real file has more ranges than its sections can hold. Without a limit, every unit
        // could refer to the same long list.
        let budget = dwarf.ranges.debug_rnglists().reader().len() / 2
            + dwarf.ranges.debug_ranges().reader().len() / 8
            + dwarf.debug_info.reader().len() / 8
            + 64;
        let budget = AtomicUsize::new(budget.min(1 << 26));
        let abbreviations = (64 << 10) + 16 * dwarf.debug_abbrev.reader().len();
        let abbreviations = abbreviations.min(MAX_SKIPPED);
        let abbreviations = AtomicUsize::new(abbreviations);
        let spend = |budget: &AtomicUsize, used| {
            let rest = |left: usize| Some(left.saturating_sub(used));
            let _ = budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest);
        };
        let found = map_chunks(threads, &headers, 64, |headers| {
            let (mut spans, mut leases) = (Vec::new(), Vec::new());
            let mut rest = Vec::new();
            let mut room = 0;
            for (index, header) in headers {
                let before = abbreviations.load(Ordering::Relaxed);
                let mut after = before;
                let head = Head::read_alone(dwarf, *header, &mut after);
                spend(&abbreviations, before - after);
                let Some(head) = head else { continue };
                if head.is_partial {
                    continue;
                }
                if !head.pcs.is_some() {
                    rest.push(*index);
                }
                let before = budget.load(Ordering::Relaxed);
                let mut after = before;
                head.pcs.each(dwarf, &head.unit, &mut after, |range| {
                    if spans.len() == room {
                        let Some(lease) = memory.take((LEASE * SPAN_BYTES) as u64) else {
                            return;
                        };
                        leases.push(lease);
                        room += LEASE;
                    }
                    spans.push((range, *index));
                });
                spend(&budget, before - after);
            }
            (spans, rest, leases)
        });
        let (mut spans, mut rest) = (Vec::new(), Vec::new());
        for (some, without, taken) in found {
            leases.extend(taken);
            spans.extend(some);
            rest.extend(without);
        }
        let mut units = Self {
            offsets,
            spans: Vec::new(),
            leases,
        };
        if !rest.is_empty() {
            units.add_aranges(&aranges(), memory, &rest, &mut spans);
        }
        units.spans = sorted(spans);
        units
    }

    /// Adds ranges of other units from `.debug_aranges` (DWARF 5, section 6.1.2).
    fn add_aranges(
        &mut self,
        aranges: &DebugAranges<Slice<'_>>,
        memory: &MemoryBudget,
        rest: &[u32],
        spans: &mut Vec<(Range<u64>, u32)>,
    ) {
        let by_offset: FxHashMap<usize, u32> = rest
            .iter()
            .map(|&index| (self.offsets[index as usize], index))
            .collect();
        let mut room = 0;
        let mut headers = aranges.headers();
        while let Ok(Some(header)) = headers.next() {
            let Some(&unit) = by_offset.get(&header.debug_info_offset().0) else {
                continue;
            };
            let mut entries = header.entries();
            while let Ok(Some(entry)) = entries.next() {
                let range = entry.range();
                if room == 0 {
                    let Some(lease) = memory.take((LEASE * SPAN_BYTES) as u64) else {
                        return;
                    };
                    self.leases.push(lease);
                    room = LEASE;
                }
                room -= 1;
                if range.begin != 0 && range.begin < range.end {
                    spans.push((range.begin..range.end, unit));
                }
            }
        }
    }

    /// Returns the units that claim the address, by index, the narrowest range first.
    pub(crate) fn at(&self, svma: u64) -> impl Iterator<Item = u32> {
        let after = self.spans.partition_point(|span| span.begin <= svma);
        let mut found: Vec<&Span> = self.spans[..after]
            .iter()
            .rev()
            .take(MAX_OVERLAP)
            .take_while(|span| span.highest > svma)
            .filter(|span| svma < span.end)
            .collect();
        found.sort_by_key(|span| span.end - span.begin);
        found.into_iter().map(|span| span.unit)
    }

    pub(crate) fn offset(&self, unit: u32) -> DebugInfoOffset {
        DebugInfoOffset(
            self.offsets
                .get(unit as usize)
                .copied()
                .unwrap_or(usize::MAX),
        )
    }

    pub(crate) fn containing(&self, offset: DebugInfoOffset) -> Option<DebugInfoOffset> {
        let after = self.offsets.partition_point(|&start| start <= offset.0);
        Some(DebugInfoOffset(*self.offsets.get(after.checked_sub(1)?)?))
    }
}

fn sorted(mut found: Vec<(Range<u64>, u32)>) -> Vec<Span> {
    found.sort_unstable_by_key(|(range, unit)| (range.start, range.end, *unit));
    let mut highest = 0;
    found
        .into_iter()
        .map(|(range, unit)| {
            highest = range.end.max(highest);
            Span {
                begin: range.start,
                end: range.end,
                highest,
                unit,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_spans() {
        let units = Units {
            offsets: vec![0, 10, 30],
            leases: Vec::new(),
            spans: sorted(vec![(10..100, 0), (20..30, 1), (50..60, 2), (200..300, 1)]),
        };
        let at = |svma| units.at(svma).collect::<Vec<_>>();
        assert_eq!(at(25), [1, 0]);
        assert_eq!(at(30), [0]);
        assert_eq!(at(99), [0]);
        assert_eq!(at(100), []);
        assert_eq!(at(9), []);
        assert_eq!(at(299), [1]);
        assert_eq!(
            units.containing(DebugInfoOffset(29)),
            Some(DebugInfoOffset(10))
        );
        assert_eq!(
            units.containing(DebugInfoOffset(31)),
            Some(DebugInfoOffset(30))
        );
    }
}
