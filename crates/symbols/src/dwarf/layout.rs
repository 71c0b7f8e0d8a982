//! Layout of the entries of a unit, by abbreviation.
//!
//! Most entries are skipped, and most attributes have a fixed length. So lengths are summed once
//! per abbreviation instead of once per entry.

use super::sections::Slice;
use gimli::{AttributeSpecification, DwForm, DwTag, Unit};
use rustc_hash::FxHashMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Skip {
    Fixed(usize),
    Leb,
    /// Length of 1, 2 or 4 bytes, followed by that many bytes.
    Counted(usize),
    /// LEB128 length, followed by that many bytes.
    CountedLeb,
    Text,
    /// Attribute with an unknown form, or with its form in the entry itself.
    Odd(AttributeSpecification),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AttributeRole {
    Pcs,
    Sibling,
    Call,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    Skip(Skip),
    Read(AttributeSpecification, AttributeRole, Skip),
}

#[derive(Debug)]
pub(super) struct Layout {
    pub(super) tag: DwTag,
    pub(super) has_children: bool,
    pub(super) has_pcs: bool,
    /// True for GCC, false for LLVM and Go.
    pub(super) has_sibling: bool,
    /// Lengths of all attributes, merged.
    pub(super) skip: Box<[Skip]>,
    /// Relevant attributes, and merged lengths of the others.
    pub(super) steps: Box<[Step]>,
}

impl Layout {
    fn new(tag: DwTag, has_children: bool, parts: &[(AttributeSpecification, Skip)]) -> Self {
        let is_code = matches!(
            tag,
            gimli::DW_TAG_subprogram | gimli::DW_TAG_inlined_subroutine
        );
        let mut skip: Vec<Skip> = Vec::with_capacity(parts.len());
        let mut steps: Vec<Step> = Vec::with_capacity(parts.len());
        for &(spec, part) in parts {
            match (skip.last_mut(), part) {
                (Some(Skip::Fixed(sum)), Skip::Fixed(len)) => *sum = sum.saturating_add(len),
                _ => skip.push(part),
            }
            match (what(spec, is_code), steps.last_mut(), part) {
                (Some(what), _, _) => steps.push(Step::Read(spec, what, part)),
                (None, Some(Step::Skip(Skip::Fixed(sum))), Skip::Fixed(len)) => {
                    *sum = sum.saturating_add(len);
                }
                _ => steps.push(Step::Skip(part)),
            }
        }
        let has = |name| parts.iter().any(|(spec, _)| spec.name() == name);
        Self {
            tag,
            has_children,
            has_pcs: has(gimli::DW_AT_low_pc) || has(gimli::DW_AT_ranges),
            has_sibling: has(gimli::DW_AT_sibling),
            skip: skip.into(),
            steps: steps.into(),
        }
    }
}

fn what(spec: AttributeSpecification, is_code: bool) -> Option<AttributeRole> {
    match spec.name() {
        gimli::DW_AT_sibling => Some(AttributeRole::Sibling),
        _ if !is_code => None,
        gimli::DW_AT_low_pc | gimli::DW_AT_high_pc | gimli::DW_AT_ranges => {
            Some(AttributeRole::Pcs)
        }
        gimli::DW_AT_abstract_origin
        | gimli::DW_AT_call_file
        | gimli::DW_AT_call_line
        | gimli::DW_AT_call_column => Some(AttributeRole::Call),
        _ => None,
    }
}

/// Returns the length kind of a form without fixed length (DWARF 5, section 7.5.6).
fn varying(spec: AttributeSpecification, form: DwForm) -> Skip {
    match form {
        gimli::DW_FORM_block1 => Skip::Counted(1),
        gimli::DW_FORM_block2 => Skip::Counted(2),
        gimli::DW_FORM_block4 => Skip::Counted(4),
        gimli::DW_FORM_block | gimli::DW_FORM_exprloc => Skip::CountedLeb,
        gimli::DW_FORM_string => Skip::Text,
        gimli::DW_FORM_udata
        | gimli::DW_FORM_sdata
        | gimli::DW_FORM_ref_udata
        | gimli::DW_FORM_strx
        | gimli::DW_FORM_GNU_str_index
        | gimli::DW_FORM_addrx
        | gimli::DW_FORM_GNU_addr_index
        | gimli::DW_FORM_loclistx
        | gimli::DW_FORM_rnglistx => Skip::Leb,
        _ => Skip::Odd(spec),
    }
}

/// Layouts of a unit's entries, each computed on first use.
pub(super) struct Layouts<'u, 'a> {
    unit: &'u Unit<Slice<'a>>,
    list: Vec<Layout>,
    /// Index into the list plus one, by abbreviation code; 0 if not computed yet.
    near: Vec<u32>,
    /// Index for codes from [`MAX_NEAR`] on, which real files do not use.
    far: FxHashMap<u64, u32>,
    /// Attributes left, as malicious ones may take no bytes in the unit.
    left: usize,
}

/// Number of codes in `near`. Compilers count from 1; large units of GCC have a few thousand.
const MAX_NEAR: usize = 1 << 14;

impl<'u, 'a> Layouts<'u, 'a> {
    pub(super) fn new(unit: &'u Unit<Slice<'a>>) -> Self {
        Self {
            unit,
            list: Vec::new(),
            near: Vec::new(),
            far: FxHashMap::default(),
            left: (64 << 10) + 4 * unit.header.length_including_self(),
        }
    }

    #[inline]
    pub(super) fn of(&mut self, code: u64) -> Option<&Layout> {
        let near = usize::try_from(code)
            .ok()
            .and_then(|code| self.near.get(code));
        let place = match near {
            Some(&place) if place != 0 => place,
            _ => self.make(code)?,
        };
        self.list.get(place as usize - 1)
    }

    #[cold]
    fn make(&mut self, code: u64) -> Option<u32> {
        if let Some(&place) = self.far.get(&code) {
            return Some(place);
        }
        let abbreviation = self.unit.abbreviations.get(code)?;
        self.left = self.left.checked_sub(abbreviation.attributes().len())?;
        let part = |&spec: &AttributeSpecification| {
            let fixed = spec.size(&self.unit.header).map(Skip::Fixed);
            (spec, fixed.unwrap_or_else(|| varying(spec, spec.form())))
        };
        let parts: Vec<_> = abbreviation.attributes().iter().map(part).collect();
        let layout = Layout::new(abbreviation.tag(), abbreviation.has_children(), &parts);
        self.list.push(layout);
        let place = u32::try_from(self.list.len()).ok()?;
        match usize::try_from(code) {
            Ok(code) if code < MAX_NEAR => {
                if self.near.len() <= code {
                    self.near.resize(code + 1, 0);
                }
                self.near[code] = place;
            }
            _ => {
                self.far.insert(code, place);
            }
        }
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(name: gimli::DwAt, form: DwForm) -> AttributeSpecification {
        AttributeSpecification::new(name, form, None)
    }

    #[test]
    fn fixed_lengths_are_added_up() {
        let name = spec(gimli::DW_AT_name, gimli::DW_FORM_strp);
        let frame = spec(gimli::DW_AT_frame_base, gimli::DW_FORM_exprloc);
        let low = spec(gimli::DW_AT_low_pc, gimli::DW_FORM_addr);
        let sibling = spec(gimli::DW_AT_sibling, gimli::DW_FORM_ref4);
        let parts = [
            (name, Skip::Fixed(4)),
            (name, Skip::Fixed(4)),
            (low, Skip::Fixed(8)),
            (frame, varying(frame, frame.form())),
            (name, Skip::Fixed(4)),
            (sibling, Skip::Fixed(4)),
        ];
        let layout = Layout::new(gimli::DW_TAG_subprogram, true, &parts);
        let expected = [Skip::Fixed(16), Skip::CountedLeb, Skip::Fixed(8)];
        assert_eq!(*layout.skip, expected);
        assert!(layout.has_pcs && layout.has_sibling);
        let read: Vec<AttributeRole> = (layout.steps.iter())
            .filter_map(|step| match step {
                Step::Read(_, what, _) => Some(*what),
                Step::Skip(_) => None,
            })
            .collect();
        assert_eq!(read, [AttributeRole::Pcs, AttributeRole::Sibling]);
        assert_eq!(layout.steps.len(), 5);

        let layout = Layout::new(gimli::DW_TAG_lexical_block, true, &parts);
        assert_eq!(layout.steps.len(), 4);
    }
}
