//! Owners of pages without a fault of their own.
//!
//! The kernel makes neighbours of a faulting page resident: pages of a file that are in memory
//! already (`fault_around_bytes`, 64 KiB, or the page's large folio), and all of a huge page. They
//! lie in one aligned window of the mapping, so a page takes the owner of the nearest fault before it in its window, or else
//! of the first one after it.

use std::ops::Range;

use crate::pages::Slot;

/// Calls `assign` for each page of `unowned` (in order, within `mapping`) with the owner of its
/// window. `owners` iterates over pages with faults in a range, in order.
pub(crate) fn assign<I>(
    unowned: &[u64],
    mapping: &Range<u64>,
    window: u64,
    owners: impl Fn(Range<u64>) -> I,
    mut assign: impl FnMut(u64, Option<Slot>),
) where
    I: Iterator<Item = (u64, Slot)>,
{
    let window = window.max(1);
    let of = |page: &u64| page / window;
    for group in unowned.chunk_by(|a, b| of(a) == of(b)) {
        let Some(first) = group.first() else {
            continue;
        };
        let start = of(first) * window;
        let range = start.max(mapping.start)..start.saturating_add(window).min(mapping.end);
        let faults: Vec<(u64, Slot)> = match window {
            1 => Vec::new(),
            _ => owners(range).collect(),
        };
        for page in group {
            let after = faults.partition_point(|(at, _)| at < page);
            let nearest = faults.get(after.saturating_sub(1));
            assign(*page, nearest.map(|(_, slot)| *slot));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_take_the_fault_before_them_in_their_window_of_the_mapping() {
        let faults = [(3, Slot(1)), (18, Slot(2)), (20, Slot(3)), (35, Slot(4))];
        let unowned = [4, 15, 16, 17, 19, 21, 32, 60];
        let mut found = Vec::new();
        let owners = |range: Range<u64>| {
            let inside = faults.iter().filter(move |(at, _)| range.contains(at));
            inside.copied()
        };
        // The mapping ends before page 35.
        assign(&unowned, &(0..34), 16, owners, |page, slot| {
            found.push((page, slot.map(|slot| slot.0)));
        });
        let expected = [
            (4, Some(1)),
            (15, Some(1)),
            (16, Some(2)),
            (17, Some(2)),
            (19, Some(2)),
            (21, Some(3)),
            (32, None),
            (60, None),
        ];
        assert_eq!(found, expected);
    }
}
