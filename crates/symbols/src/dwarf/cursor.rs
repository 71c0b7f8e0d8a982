//! Going over the entries of a unit (DWARF 5, sections 2.3 and 7.5).

use super::layout::{AttributeRole, Layout, Layouts, Skip, Step};
use super::sections::Slice;
use gimli::{Attribute, AttributeSpecification, AttributeValue, EndianSlice, Reader};
use gimli::{Unit, UnitOffset};

/// A place among the entries of a unit. What returns an option returns `None` at damage, behind
/// which nothing can be read.
pub(super) struct Cursor<'u, 'a> {
    unit: &'u Unit<Slice<'a>>,
    /// All entries.
    entries: Slice<'a>,
    /// Where in the unit they begin.
    first: usize,
    at: usize,
    /// How many entries the next one is within.
    depth: isize,
}

impl<'u, 'a> Cursor<'u, 'a> {
    /// At the root.
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

    /// Reads the code of an entry, of which the attributes are next. 0 ends a list of children.
    #[inline]
    pub(super) fn code(&mut self) -> Option<u64> {
        let code = self.leb()?;
        if code == 0 {
            self.depth -= 1;
        }
        Some(code)
    }

    /// What is next is a child of the entry that was read.
    #[inline]
    pub(super) fn enter(&mut self) {
        self.depth += 1;
    }

    /// Goes on at `offset`, with an entry that is within `depth` others.
    pub(super) fn jump(&mut self, offset: UnitOffset, depth: isize) -> Option<()> {
        self.at = offset.0.checked_sub(self.first)?;
        self.depth = depth;
        (!self.is_at_end()).then_some(())
    }

    /// Goes back to attributes that were read over.
    pub(super) fn back(&mut self, offset: UnitOffset) {
        self.at = offset.0.saturating_sub(self.first);
    }

    /// Reads over all attributes.
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

    /// Reads an attribute.
    pub(super) fn read(&mut self, spec: AttributeSpecification) -> Option<Attribute<Slice<'a>>> {
        let mut entries = self.unit.entries_raw(Some(self.offset())).ok()?;
        let attribute = entries.read_attribute(spec).ok()?;
        self.back(entries.next_offset());
        Some(attribute)
    }

    /// Where the next sibling of an entry is, of which all attributes are still to be read; they are
    /// not any more if it does not say, or something behind which no sibling can be.
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

    /// A reference, if it is to something that is still to come.
    pub(super) fn forward(&self, to: AttributeValue<Slice<'a>>) -> Option<UnitOffset> {
        match to {
            AttributeValue::UnitRef(next) if next > self.offset() => Some(next),
            _ => None,
        }
    }

    /// Reads up to the end of the children of an entry that is within `depth` others, of which the
    /// attributes were read.
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
