//! Address ranges of an entry: `DW_AT_ranges`, or `DW_AT_low_pc` and `DW_AT_high_pc` (DWARF 5,
//! section 2.17).

use super::sections::Slice;
use gimli::{Attribute, AttributeValue, Dwarf, Unit};
use std::ops::Range;

#[derive(Default, Clone)]
pub(super) struct Pcs<'a> {
    low: Option<AttributeValue<Slice<'a>>>,
    high: Option<AttributeValue<Slice<'a>>>,
    ranges: Option<AttributeValue<Slice<'a>>>,
}

impl<'a> Pcs<'a> {
    pub(super) fn note(&mut self, attribute: &Attribute<Slice<'a>>) {
        let place = match attribute.name() {
            gimli::DW_AT_low_pc => &mut self.low,
            gimli::DW_AT_high_pc => &mut self.high,
            gimli::DW_AT_ranges => &mut self.ranges,
            _ => return,
        };
        *place = Some(attribute.value());
    }

    pub(super) fn is_some(&self) -> bool {
        self.ranges.is_some() || self.low.is_some() && self.high.is_some()
    }

    /// Calls `take` with each range. A range of a list takes 1 from `budget`, as many entries may
    /// share a long list. Skips damaged ranges, and code discarded by the linker: address 0, -1 or
    /// -2 (LLVM and binutils; DWARF 6 draft, "tombstones").
    pub(super) fn each(
        &self,
        dwarf: &Dwarf<Slice<'a>>,
        unit: &Unit<Slice<'a>>,
        budget: &mut usize,
        mut take: impl FnMut(Range<u64>),
    ) {
        let mut take = |begin: u64, end: u64| {
            if begin != 0 && begin < end && !unit.header.is_tombstone_address(begin) {
                take(begin..end);
            }
        };
        if let Some(value) = &self.ranges {
            let Ok(Some(mut list)) = dwarf.attr_ranges(unit, *value) else {
                return;
            };
            while *budget > 0
                && let Ok(Some(range)) = list.next()
            {
                *budget -= 1;
                take(range.begin, range.end);
            }
            return;
        }
        let address = |value: &Option<AttributeValue<Slice<'a>>>| {
            dwarf.attr_address(unit, (*value)?).ok().flatten()
        };
        let Some(low) = address(&self.low) else {
            return;
        };
        let high = match &self.high {
            // Since DWARF 4, an offset from the low one.
            Some(value) => match value.udata_value() {
                Some(len) => low.checked_add(len),
                None => address(&self.high),
            },
            None => None,
        };
        if let Some(high) = high {
            take(low, high);
        }
    }
}
