//! [`Entries`]: code that an indirect call can lead to.
//!
//! A function can only be called through a pointer if something in the image names its address:
//! a symbol for other images, a relocation, a word of data, or an operand of an instruction.

use rustc_hash::FxHashSet;

use crate::code::{Last, sweep};
use crate::decode::{Flow, Target};
use crate::image::{Image, Piece, Slot};

/// Maximum number of pieces of code that are followed backwards, from jump to jump.
const MAX_PIECES: usize = 400;

/// Length in bytes of a pointer.
const WORD: usize = 8;

#[derive(Debug)]
pub(crate) struct Entries {
    /// Addresses that something names, ascending.
    named: Vec<u64>,
    /// Target and source of jumps between pieces of code, ascending.
    jumps: Vec<(u64, u64)>,
}

impl Entries {
    /// Decodes all code of an image, and searches its data.
    pub(crate) fn find(image: &Image) -> Self {
        let mut named: Vec<u64> = image.entries.clone();
        named.extend(&image.unwind_info.personalities);
        let mut jumps = Vec::new();
        if image.has_exports {
            let definitions = image.definitions.values().flatten();
            named.extend(definitions.map(|definition| definition.address));
        }
        named.extend(image.slots.values().filter_map(|slot| match slot {
            Slot::Address(address) | Slot::Resolver(address) => Some(*address),
            Slot::Name(_) => None,
        }));
        for section in image.sections.iter().filter(|section| section.has_bytes) {
            let whole = Piece {
                start: section.start,
                end: section.end,
            };
            if !section.is_code {
                let words = image.range(whole).as_chunks::<WORD>().0.iter();
                named.extend(words.map(|word| u64::from_le_bytes(*word)));
                continue;
            }
            let mut start = whole.start;
            while let Some(piece) = (start < whole.end).then(|| image.piece(start)).flatten() {
                add(image, piece, &mut named, &mut jumps);
                start = piece.end.max(start + 1);
            }
        }
        named.retain(|address| image.is_code(*address));
        named.sort_unstable();
        named.dedup();
        jumps.sort_unstable();
        jumps.dedup();
        Self { named, jumps }
    }

    /// Returns true if an indirect call can lead to the code at an address. Code without unwinding
    /// information passes: generators of code, such as V8's, and Go's compiler have tables of distances
    /// instead of pointers.
    pub(crate) fn has(&self, image: &Image, address: u64) -> bool {
        if image.unwind_info.at(address).is_none() {
            return true;
        }
        let mut seen = FxHashSet::default();
        let mut waiting: Vec<Piece> = image.piece(address).into_iter().collect();
        while let Some(piece) = waiting.pop() {
            if !seen.insert(piece) {
                continue;
            }
            let first = self.named.partition_point(|named| *named < piece.start);
            let is_named = self.named.get(first).is_some_and(|named| piece.has(*named));
            if is_named || seen.len() > MAX_PIECES {
                return true;
            }
            let first = self
                .jumps
                .partition_point(|(target, _)| *target < piece.start);
            let jumps = self.jumps[first..].iter();
            let sources = jumps.take_while(|(target, _)| piece.has(*target));
            waiting.extend(sources.filter_map(|(_, source)| image.piece(*source)));
        }
        false
    }
}

fn add(image: &Image, piece: Piece, named: &mut Vec<u64>, jumps: &mut Vec<(u64, u64)>) {
    let mut last = Last::default();
    for (_, instruction) in sweep(image, piece) {
        named.extend(instruction.named);
        let distance = instruction.distance.zip(image.offset_table());
        named.extend(distance.map(|(distance, table)| table.wrapping_add(distance)));
        match instruction.flow {
            Flow::Branch(target) | Flow::Jump(Target::Address(target)) if !piece.has(target) => {
                jumps.push((target, piece.start));
            }
            _ => {}
        }
        last.add(&instruction);
    }
    if last.runs_on() {
        jumps.push((piece.end, piece.start));
    }
}
