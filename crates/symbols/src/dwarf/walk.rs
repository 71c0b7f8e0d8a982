//! Finds the functions and inlined calls of a unit at the addresses of a lookup, in one pass (DWARF
//! 5, sections 3.3.1 and 3.3.8).
//!
//! Keeps only entries that cover an address, so memory does not depend on the size of a unit.

use super::cursor::Cursor;
use super::layout::{AttributeRole, Layout, Layouts, Step};
use super::ranges::Pcs;
use super::sections::Slice;
use gimli::{Attribute, AttributeValue, Dwarf, Unit, UnitOffset};
use std::ops::Range;

/// Maximum number of inlined calls at one address. Real programs rarely have more than thirty.
const MAX_CALLS: usize = 256;

/// Maximum number of inlined calls per unit: a constant, plus a number per address.
const MAX_UNIT_CALLS: usize = 1 << 14;
const CALLS_FOR_EACH: usize = 64;

/// Maximum number of addresses to compare with the ranges of one entry.
const MAX_LOOKED_AT: usize = 1 << 22;

/// Address of a lookup, with its function and calls.
#[derive(Debug)]
pub(super) struct Wanted<'a> {
    pub(super) svma: u64,
    pub(super) function: Option<Function>,
    pub(super) calls: Vec<Call<'a>>,
}

impl Wanted<'_> {
    pub(super) fn at(svma: u64) -> Self {
        Self {
            svma,
            function: None,
            calls: Vec::new(),
        }
    }
}

/// The out-of-line function at an address.
#[derive(Debug, Clone)]
pub(super) struct Function {
    pub(super) entry: UnitOffset,
    pub(super) range: Range<u64>,
}

#[derive(Debug, Clone)]
pub(super) struct Call<'a> {
    depth: isize,
    pub(super) origin: Option<AttributeValue<Slice<'a>>>,
    pub(super) file: u64,
    pub(super) line: u32,
    pub(super) column: u32,
}

/// Entry whose children are being read, and indexes of its addresses.
struct Scope {
    depth: isize,
    inside: Vec<usize>,
}

pub(super) struct Walk<'w, 'a> {
    dwarf: &'w Dwarf<Slice<'a>>,
    unit: &'w Unit<Slice<'a>>,
    wanted: &'w mut [Wanted<'a>],
    scopes: Vec<Scope>,
    /// Remaining comparisons of ranges and addresses. Real units need a few per entry and address.
    budget: usize,
    calls: usize,
}

impl<'w, 'a> Walk<'w, 'a> {
    pub(super) fn new(
        dwarf: &'w Dwarf<Slice<'a>>,
        unit: &'w Unit<Slice<'a>>,
        wanted: &'w mut [Wanted<'a>],
    ) -> Self {
        let budget = (64 << 10) + 32 * unit.header.unit_length() + 1024 * wanted.len();
        Self {
            dwarf,
            unit,
            calls: MAX_UNIT_CALLS + CALLS_FOR_EACH * wanted.len(),
            wanted,
            scopes: Vec::new(),
            budget,
        }
    }

    /// Reads the unit up to its end or to damage.
    ///
    /// Nested functions (GNU C, Ada, Fortran) may be outside of the outer function's addresses.
    /// `nested` finds them by reading all entries.
    pub(super) fn run(mut self, nested: bool) {
        let _ = self.entries(nested);
    }

    fn entries(&mut self, nested: bool) -> Option<()> {
        let mut cursor = Cursor::new(self.unit)?;
        let mut layouts = Layouts::new(self.unit);
        while !cursor.is_at_end() && self.budget > 0 {
            let (offset, depth) = (cursor.offset(), cursor.depth());
            let code = cursor.code()?;
            if code == 0 {
                continue;
            }
            let layout = layouts.of(code)?;
            // Attributes may have no length, and abbreviations any number of them.
            let steps = layout.skip.len().max(layout.steps.len());
            self.budget = self.budget.checked_sub(steps)?;
            let has_children = layout.has_children;
            if has_children {
                cursor.enter();
            }
            while self.scopes.last().is_some_and(|scope| scope.depth >= depth) {
                self.scopes.pop();
            }
            let tag = layout.tag;
            let is_function = tag == gimli::DW_TAG_subprogram;
            let is_call = tag == gimli::DW_TAG_inlined_subroutine && !self.scopes.is_empty();
            if !((is_function || is_call) && layout.has_pcs) {
                // Most functions are declarations, or only exist inlined. Skip types only with a
                // sibling attribute: otherwise it is not free, and a function in a type would need
                // a second pass.
                let is_done = match tag {
                    gimli::DW_TAG_subprogram => !nested,
                    _ => is_call || holds_no_code(tag, nested) && layout.has_sibling,
                };
                if !is_done || !has_children {
                    cursor.skip_all(layout)?;
                    continue;
                }
                match cursor.sibling(layout)? {
                    Some(next) => cursor.jump(next, depth)?,
                    None => cursor.skip_children(&mut layouts, depth)?,
                }
                continue;
            }
            let attributes = cursor.offset();
            let mut pcs = Pcs::default();
            let mut sibling = None;
            for step in &layout.steps {
                match step {
                    Step::Read(spec, AttributeRole::Pcs, _) => pcs.note(&cursor.read(*spec)?),
                    Step::Read(spec, AttributeRole::Sibling, _) => {
                        sibling = Some(cursor.read(*spec)?.value());
                    }
                    Step::Read(_, AttributeRole::Call, part) | Step::Skip(part) => {
                        cursor.skip(part)?;
                    }
                }
            }
            let is_inside = if is_function {
                self.function(offset, depth, &pcs)
            } else if let Some(inside) = self.inside(&pcs) {
                let behind = cursor.offset();
                cursor.back(attributes);
                let call = Call::read(&mut cursor, layout, depth)?;
                cursor.back(behind);
                self.call(&call, inside);
                true
            } else {
                false
            };
            if is_inside || !has_children || is_function && nested {
                continue;
            }
            match sibling.and_then(|sibling| cursor.forward(sibling)) {
                Some(next) => cursor.jump(next, depth)?,
                None => cursor.skip_children(&mut layouts, depth)?,
            }
        }
        Some(())
    }

    /// Enters a function. Returns true if it covers any address.
    fn function(&mut self, entry: UnitOffset, depth: isize, pcs: &Pcs<'a>) -> bool {
        let mut inside = Vec::new();
        let mut budget = self.budget;
        let mut looked_at = 0;
        let most = budget.min(MAX_LOOKED_AT);
        pcs.each(self.dwarf, self.unit, &mut budget, |range| {
            let from = self
                .wanted
                .partition_point(|wanted| wanted.svma < range.start);
            for (index, wanted) in self.wanted.iter_mut().enumerate().skip(from) {
                if wanted.svma >= range.end || looked_at >= most {
                    break;
                }
                looked_at += 1;
                wanted.function = Some(Function {
                    entry,
                    range: range.clone(),
                });
                wanted.calls.clear();
                inside.push(index);
            }
        });
        self.budget = budget.saturating_sub(looked_at);
        inside.sort_unstable();
        inside.dedup();
        let any = !inside.is_empty();
        if any {
            self.scopes.push(Scope { depth, inside });
        }
        any
    }

    /// Returns the addresses of the innermost scope that a call covers. `None` if there are none.
    fn inside(&mut self, pcs: &Pcs<'a>) -> Option<Vec<usize>> {
        let few = |scopes: &[Scope]| scopes.len() < MAX_CALLS;
        let scope = self.scopes.last().filter(|_| few(&self.scopes))?;
        let outside = &scope.inside;
        let mut inside = Vec::new();
        let mut budget = self.budget;
        let mut looked_at = 0;
        let most = budget.min(MAX_LOOKED_AT);
        pcs.each(self.dwarf, self.unit, &mut budget, |range| {
            if looked_at >= most {
                return;
            }
            looked_at += outside.len();
            for &index in outside {
                if range.contains(&self.wanted[index].svma) {
                    inside.push(index);
                }
            }
        });
        self.budget = budget.saturating_sub(looked_at);
        inside.sort_unstable();
        inside.dedup();
        (!inside.is_empty()).then_some(inside)
    }

    fn call(&mut self, call: &Call<'a>, inside: Vec<usize>) {
        for &index in &inside {
            let calls = &mut self.wanted[index].calls;
            // Among siblings with the same address, the last one wins, as in LLVM.
            while calls.last().is_some_and(|last| last.depth >= call.depth) {
                calls.pop();
            }
            if calls.len() < MAX_CALLS && self.calls > 0 {
                self.calls -= 1;
                calls.push(call.clone());
            }
        }
        let depth = call.depth;
        self.scopes.push(Scope { depth, inside });
    }
}

impl<'a> Call<'a> {
    fn read(cursor: &mut Cursor<'_, 'a>, layout: &Layout, depth: isize) -> Option<Self> {
        let mut call = Self {
            depth,
            origin: None,
            file: 0,
            line: 0,
            column: 0,
        };
        for step in &layout.steps {
            match step {
                Step::Read(spec, AttributeRole::Call, _) => call.note(&cursor.read(*spec)?),
                Step::Read(_, _, part) | Step::Skip(part) => cursor.skip(part)?,
            }
        }
        Some(call)
    }

    fn note(&mut self, attribute: &Attribute<Slice<'a>>) {
        let small = || {
            let value = attribute.udata_value();
            value
                .and_then(|value| u32::try_from(value).ok())
                .unwrap_or(0)
        };
        match attribute.name() {
            gimli::DW_AT_abstract_origin => self.origin = Some(attribute.value()),
            gimli::DW_AT_call_file => {
                self.file = match attribute.value() {
                    AttributeValue::FileIndex(index) => index,
                    value => value.udata_value().unwrap_or(0),
                }
            }
            gimli::DW_AT_call_line => self.line = small(),
            gimli::DW_AT_call_column => self.column = small(),
            _ => {}
        }
    }
}

/// Returns true if entries of this tag cannot contain code. Some languages write functions within
/// types, which `nested` includes.
fn holds_no_code(tag: gimli::DwTag, nested: bool) -> bool {
    match tag {
        gimli::DW_TAG_call_site
        | gimli::DW_TAG_GNU_call_site
        | gimli::DW_TAG_enumeration_type
        | gimli::DW_TAG_subroutine_type
        | gimli::DW_TAG_array_type => true,
        gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_union_type => {
            !nested
        }
        _ => false,
    }
}
