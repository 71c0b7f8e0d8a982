//! One pass over the entries of a unit: which functions and which inlined calls cover the
//! addresses that are asked for (DWARF 5, sections 3.3.1 and 3.3.8).
//!
//! Nothing is kept of what no address lies in, so that memory does not depend on the size
//! of a unit. Functions without an address in them are skipped with all that they hold.

use super::ranges::Pcs;
use super::sections::Slice;
use gimli::{
    Abbreviation, AttributeSpecification, AttributeValue, Dwarf, EntriesRaw, Unit, UnitOffset,
};
use std::ops::Range;

/// Inlined calls at one address. In honest programs rarely more than thirty.
const MAX_CALLS: usize = 256;

/// Addresses that are compared with the ranges of one entry.
const MAX_LOOKED_AT: usize = 1 << 22;

/// An address that is asked for, and what was found there.
#[derive(Debug)]
pub(super) struct Wanted<'a> {
    pub(super) svma: u64,
    /// The function, an entry of the unit.
    pub(super) function: Option<Function>,
    /// Calls that were inlined there, outermost first.
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
    /// The one of its ranges that has the address.
    pub(super) range: Range<u64>,
}

/// A call that was inlined: what was called, and from where.
#[derive(Debug, Clone)]
pub(super) struct Call<'a> {
    depth: isize,
    pub(super) origin: Option<AttributeValue<Slice<'a>>>,
    pub(super) file: u64,
    pub(super) line: u32,
    pub(super) column: u32,
}

/// A function or inlined call whose entries are being read, and the addresses in it
/// (indexes into the list of wanted ones).
struct Scope {
    depth: isize,
    inside: Vec<usize>,
}

pub(super) struct Walk<'w, 'a> {
    dwarf: &'w Dwarf<Slice<'a>>,
    unit: &'w Unit<Slice<'a>>,
    wanted: &'w mut [Wanted<'a>],
    scopes: Vec<Scope>,
    /// Ranges and addresses that may still be looked at: in an honest unit some for each
    /// entry and each address.
    budget: usize,
}

impl<'w, 'a> Walk<'w, 'a> {
    /// Prepares for `wanted`, which is sorted by address.
    pub(super) fn new(
        dwarf: &'w Dwarf<Slice<'a>>,
        unit: &'w Unit<Slice<'a>>,
        wanted: &'w mut [Wanted<'a>],
    ) -> Self {
        let budget = (64 << 10) + 32 * unit.header.unit_length() + 1024 * wanted.len();
        Self {
            dwarf,
            unit,
            wanted,
            scopes: Vec::new(),
            budget,
        }
    }

    /// Reads the unit. Damage ends it; what was found before stands.
    ///
    /// Functions may lie within functions (nested ones of GNU C, Ada or Fortran), outside of
    /// the outer one's addresses. They are only looked for if `nested`, as this
    /// means to read everything.
    pub(super) fn run(mut self, nested: bool) -> gimli::Result<()> {
        let mut entries = self.unit.entries_raw(None)?;
        // The reader counts depth from where it began.
        let mut base = 0;
        while !entries.is_empty() && self.budget > 0 {
            let offset = entries.next_offset();
            let depth = base + entries.next_depth();
            let Some(abbreviation) = entries.read_abbreviation()? else {
                continue;
            };
            while self.scopes.last().is_some_and(|scope| scope.depth >= depth) {
                self.scopes.pop();
            }
            let tag = abbreviation.tag();
            let is_function = tag == gimli::DW_TAG_subprogram;
            let is_call = tag == gimli::DW_TAG_inlined_subroutine && !self.scopes.is_empty();
            let has_code = (is_function || is_call) && has_pcs(abbreviation);
            // Whether its children are of no interest. Declarations, and functions that are only
            // inlined, are most of all functions. Types are skipped only where that is for
            // nothing: functions in them would have to be looked for a second time.
            let is_done = match tag {
                gimli::DW_TAG_subprogram => !nested,
                _ => is_call || holds_no_code(tag, nested) && states_sibling(abbreviation),
            };
            if !has_code {
                let next = match is_done && abbreviation.has_children() {
                    true => to_sibling(&mut entries, abbreviation)?,
                    false => {
                        entries.skip_attributes(abbreviation.attributes())?;
                        None
                    }
                };
                match next {
                    Some(next) if next > offset => {
                        entries = self.unit.entries_raw(Some(next))?;
                        base = depth;
                    }
                    _ if is_done && abbreviation.has_children() => {
                        skip_children(&mut entries, depth - base)?;
                    }
                    _ => {}
                }
                continue;
            }
            let mut pcs = Pcs::default();
            let mut sibling = None;
            let mut call = Call::at(depth);
            for spec in abbreviation.attributes() {
                let attribute = entries.read_attribute(*spec)?;
                match attribute.name() {
                    gimli::DW_AT_sibling => sibling = Some(attribute.value()),
                    _ if is_call && call.note(&attribute) => {}
                    _ => pcs.note(&attribute),
                }
            }
            let is_inside = match is_function {
                true => self.function(offset, depth, &pcs),
                false => self.call(&call, &pcs),
            };
            if is_inside || !abbreviation.has_children() || is_function && nested {
                continue;
            }
            match sibling {
                Some(AttributeValue::UnitRef(next)) if next > entries.next_offset() => {
                    entries = self.unit.entries_raw(Some(next))?;
                    base = depth;
                }
                _ => skip_children(&mut entries, depth - base)?,
            }
        }
        Ok(())
    }

    /// Whether any address lies in the function.
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

    /// Whether any address of the innermost scope lies in the call.
    fn call(&mut self, call: &Call<'a>, pcs: &Pcs<'a>) -> bool {
        let Some(scope) = self.scopes.last().filter(|_| self.scopes.len() < MAX_CALLS) else {
            return false;
        };
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
        for &index in &inside {
            let calls = &mut self.wanted[index].calls;
            // Neighbours that claim the same address: the last one has it, as for LLVM.
            while calls.last().is_some_and(|last| last.depth >= call.depth) {
                calls.pop();
            }
            if calls.len() < MAX_CALLS {
                calls.push(call.clone());
            }
        }
        let any = !inside.is_empty();
        if any {
            let depth = call.depth;
            self.scopes.push(Scope { depth, inside });
        }
        any
    }
}

impl<'a> Call<'a> {
    fn at(depth: isize) -> Self {
        Self {
            depth,
            origin: None,
            file: 0,
            line: 0,
            column: 0,
        }
    }

    /// Whether the attribute is one that tells of the call.
    fn note(&mut self, attribute: &gimli::Attribute<Slice<'a>>) -> bool {
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
            _ => return false,
        }
        true
    }
}

/// Whether entries of this form say which addresses they cover.
fn has_pcs(abbreviation: &Abbreviation) -> bool {
    let tells = |name| matches!(name, gimli::DW_AT_low_pc | gimli::DW_AT_ranges);
    abbreviation
        .attributes()
        .iter()
        .any(|spec| tells(spec.name()))
}

/// Whether entries of this form say where their next sibling is (GCC's do).
fn states_sibling(abbreviation: &Abbreviation) -> bool {
    let mut attributes = abbreviation.attributes().iter();
    attributes.any(|spec| spec.name() == gimli::DW_AT_sibling)
}

/// Whether nothing within an entry can be a function with code. In some languages functions are
/// written within types; where these are to be found as well, everything is read (`nested`).
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

/// Reads the attributes of an entry, whose next sibling is answered if the entry states it.
fn to_sibling(
    entries: &mut EntriesRaw<'_, Slice<'_>>,
    abbreviation: &Abbreviation,
) -> gimli::Result<Option<UnitOffset>> {
    let attributes = abbreviation.attributes();
    let is_sibling = |spec: &AttributeSpecification| spec.name() == gimli::DW_AT_sibling;
    let Some(at) = attributes.iter().position(is_sibling) else {
        entries.skip_attributes(attributes)?;
        return Ok(None);
    };
    let (before, rest) = attributes.split_at(at);
    entries.skip_attributes(before)?;
    let Some((sibling, behind)) = rest.split_first() else {
        return Ok(None);
    };
    let sibling = entries.read_attribute(*sibling)?.value();
    entries.skip_attributes(behind)?;
    Ok(match sibling {
        AttributeValue::UnitRef(next) if next > entries.next_offset() => Some(next),
        _ => None,
    })
}

/// Reads up to the end of the children of an entry at `depth`, whose attributes were read.
fn skip_children(entries: &mut EntriesRaw<'_, Slice<'_>>, depth: isize) -> gimli::Result<()> {
    while entries.next_depth() > depth && !entries.is_empty() {
        if let Some(abbreviation) = entries.read_abbreviation()? {
            entries.skip_attributes(abbreviation.attributes())?;
        }
    }
    Ok(())
}
