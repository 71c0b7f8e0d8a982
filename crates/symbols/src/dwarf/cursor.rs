//! Traversal of the entries of a unit (DWARF 5, sections 2.3 and 7.5).

use super::layout::{AttributeRole, Layout, Layouts, Skip, Step};
use super::sections::Slice;
use gimli::{Attribute, AttributeSpecification, AttributeValue, EndianSlice, Reader};
use gimli::{Unit, UnitOffset};

/// Position among the entries of a unit. Methods return `None` at damage, which ends the unit.
pub(super) struct Cursor<'u, 'a> {
    unit: &'u Unit<Slice<'a>>,
    entries: Slice<'a>,
    /// Offset of the entries in the unit.
    first: usize,
    at: usize,
    /// Number of entries that enclose the next one.
    depth: isize,
}

impl<'u, 'a> Cursor<'u, 'a> {
    pub(super) fn new(unit: &'u Unit<Slice<'a>>) -> Option<Self> {
        let root = unit.header.root_offset();
        Some(Self {
            unit,
            entries: unit.header.range_from(root..).ok()?,
            first: root.0,
            at: 0,
            depth: 0,
        })
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at >= self.entries.len()
    }

    pub(super) fn offset(&self) -> UnitOffset {
        UnitOffset(self.first + self.at)
    }

    pub(super) fn depth(&self) -> isize {
        self.depth
    }

    /// Reads an abbreviation code. 0 ends a list of children.
    #[inline]
    pub(super) fn code(&mut self) -> Option<u64> {
        let code = self.leb()?;
        if code == 0 {
            self.depth -= 1;
        }
        Some(code)
    }

    #[inline]
    pub(super) fn enter(&mut self) {
        self.depth += 1;
    }

    pub(super) fn jump(&mut self, offset: UnitOffset, depth: isize) -> Option<()> {
        self.at = offset.0.checked_sub(self.first)?;
        self.depth = depth;
        (!self.is_at_end()).then_some(())
    }

    pub(super) fn back(&mut self, offset: UnitOffset) {
        self.at = offset.0.saturating_sub(self.first);
    }

    #[inline]
    pub(super) fn skip_all(&mut self, layout: &Layout) -> Option<()> {
        for part in &layout.skip {
            self.skip(part)?;
        }
        Some(())
    }

    #[inline]
    pub(super) fn skip(&mut self, part: &Skip) -> Option<()> {
        match part {
            Skip::Fixed(len) => self.pass(*len),
            Skip::Leb => {
                let rest = self.rest()?;
                let len = rest.iter().position(|byte| byte & 0x80 == 0)?;
                self.pass(len + 1)
            }
            Skip::CountedLeb => {
                let len = self.leb()?;
                self.pass(usize::try_from(len).ok()?)
            }
            Skip::Counted(size) => {
                let mut rest = self.reader()?;
                let len = rest.read_uint(*size).ok()?;
                self.pass(size.checked_add(usize::try_from(len).ok()?)?)
            }
            Skip::Text => {
                let len = self.rest()?.iter().position(|&byte| byte == 0)?;
                self.pass(len + 1)
            }
            Skip::Odd(spec) => self.read(*spec).map(|_| ()),
        }
    }

    pub(super) fn read(&mut self, spec: AttributeSpecification) -> Option<Attribute<Slice<'a>>> {
        let mut entries = self.unit.entries_raw(Some(self.offset())).ok()?;
        let attribute = entries.read_attribute(spec).ok()?;
        self.back(entries.next_offset());
        Some(attribute)
    }

    /// Returns the offset of the next sibling from `DW_AT_sibling`. Skips all attributes and
    /// returns `Some(None)` if it is missing or invalid.
    pub(super) fn sibling(&mut self, layout: &Layout) -> Option<Option<UnitOffset>> {
        if !layout.has_sibling {
            self.skip_all(layout)?;
            return Some(None);
        }
        let mut found = None;
        for step in &layout.steps {
            match step {
                Step::Read(spec, AttributeRole::Sibling, _) => {
                    let to = self.read(*spec)?.value();
                    found = self.forward(to);
                    if found.is_some() {
                        break;
                    }
                }
                Step::Read(_, _, part) | Step::Skip(part) => self.skip(part)?,
            }
        }
        Some(found)
    }

    pub(super) fn forward(&self, to: AttributeValue<Slice<'a>>) -> Option<UnitOffset> {
        match to {
            AttributeValue::UnitRef(next) if next > self.offset() => Some(next),
            _ => None,
        }
    }

    pub(super) fn skip_children(
        &mut self,
        layouts: &mut Layouts<'_, '_>,
        depth: isize,
    ) -> Option<()> {
        while self.depth > depth && !self.is_at_end() {
            let code = self.code()?;
            if code == 0 {
                continue;
            }
            let layout = layouts.of(code)?;
            self.skip_all(layout)?;
            if layout.has_children {
                self.enter();
            }
        }
        Some(())
    }

    #[inline]
    fn pass(&mut self, len: usize) -> Option<()> {
        let at = self.at.checked_add(len)?;
        self.at = at;
        (at <= self.entries.len()).then_some(())
    }

    #[inline]
    fn leb(&mut self) -> Option<u64> {
        let first = *self.entries.slice().get(self.at)?;
        if first < 0x80 {
            self.at += 1;
            return Some(first.into());
        }
        let mut rest = self.reader()?;
        let before = rest.len();
        let value = rest.read_uleb128().ok()?;
        self.at += before - rest.len();
        Some(value)
    }

    fn rest(&self) -> Option<&'a [u8]> {
        self.entries.slice().get(self.at..)
    }

    fn reader(&self) -> Option<Slice<'a>> {
        Some(EndianSlice::new(self.rest()?, self.entries.endian()))
    }
}
