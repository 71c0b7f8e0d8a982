//! [`Reach`]: where a call can lead within its image, by jumps.

use std::collections::VecDeque;

use rustc_hash::FxHashSet;

use crate::code::{Code, sweep};
use crate::decode::{Flow, Target};
use crate::image::{Image, Piece, Slot};

const MAX_JUMPS: u32 = 12;

/// Maximum number of pieces of code.
const MAX_PIECES: usize = 400;

/// Code that a call can lead to.
#[derive(Debug, Default)]
pub(crate) struct Reach {
    pub(crate) pieces: Vec<Piece>,
    /// Symbols that it jumps to, through the linkage table or pointers of the dynamic linker.
    pub(crate) names: Vec<Box<str>>,
    /// Resolvers (`STT_GNU_IFUNC`) of functions that it jumps to.
    pub(crate) resolvers: Vec<u64>,
    /// True if a jump has an unknown target, or if there are too many jumps.
    pub(crate) is_open: bool,
}

/// Follows the jumps from the target of a call.
pub(crate) fn reach(code: &mut Code, target: u64) -> Reach {
    let mut reach = Reach::default();
    let mut seen = FxHashSet::default();
    let mut waiting = VecDeque::from([(target, 0)]);
    while let Some((address, jumps)) = waiting.pop_front() {
        let Some(piece) = code.image.piece(address) else {
            // Outside of the code: a damaged target.
            continue;
        };
        if !seen.insert(piece) {
            continue;
        }
        reach.pieces.push(piece);
        if jumps >= MAX_JUMPS || reach.pieces.len() > MAX_PIECES {
            reach.is_open = true;
            continue;
        }
        let exits;
        let (targets, slots) = if code.image.is_linkage_table(address) {
            let slot = stub(
                &code.image,
                Piece {
                    start: address,
                    ..piece
                },
            );
            reach.is_open |= slot.is_none();
            (&[][..], slot.into_iter().collect())
        } else {
            exits = code.exits(piece);
            reach.is_open |= exits.is_open;
            if exits.has_table {
                let parts = parts(&code.image, piece);
                waiting.extend(parts.map(|part| (part, jumps + 1)));
            }
            (&exits.targets[..], exits.slots.clone())
        };
        for slot in slots {
            match pointer(&code.image, slot) {
                Some(Slot::Name(name)) => reach.names.push(name),
                Some(Slot::Address(target)) => waiting.push_back((target, jumps + 1)),
                Some(Slot::Resolver(resolver)) => reach.resolvers.push(resolver),
                None => reach.is_open = true,
            }
        }
        waiting.extend(targets.iter().map(|target| (*target, jumps + 1)));
    }
    reach
}

/// Returns the parts of a function that has each of its blocks in a section of its own
/// (`-fbasic-block-sections`).
fn parts(image: &Image, piece: Piece) -> impl Iterator<Item = u64> {
    const PART: &str = ".__part.";
    let name = image.symbol(piece.start).map(|(name, _)| name);
    let function = name.and_then(|name| name.split(PART).next());
    let is_part = move |name: &str| {
        let rest = function.and_then(|function| name.strip_prefix(function));
        rest.is_some_and(|rest| rest.starts_with(PART))
    };
    let parts = image.symbols.iter().filter(move |(_, name)| is_part(name));
    parts.map(|(address, _)| *address)
}

/// Returns the pointer that the dynamic linker writes at an address, or that a static program has
/// there. Returns `None` if the program may change it.
pub(crate) fn pointer(image: &Image, slot: u64) -> Option<Slot> {
    if !image.is_constant(slot) {
        return None;
    }
    image.slots.get(&slot).cloned().or_else(|| {
        let word = image.word(slot).filter(|word| image.is_code(*word))?;
        Some(Slot::Address(word))
    })
}

/// Returns the place of the pointer that a stub of a linkage table jumps through.
fn stub(image: &Image, piece: Piece) -> Option<u64> {
    sweep(image, piece).find_map(|(_, instruction)| match instruction.flow {
        Flow::Jump(Target::Slot(slot)) => Some(slot),
        _ => None,
    })
}

/// Returns the functions that a resolver can return: the addresses that its code names.
pub(crate) fn resolved(code: &mut Code, resolver: u64) -> Vec<u64> {
    let pieces = reach(code, resolver).pieces;
    let image = &code.image;
    let named = pieces.into_iter().flat_map(|piece| sweep(image, piece));
    named
        .filter_map(|(_, instruction)| instruction.named)
        .filter(|address| image.is_code(*address))
        .collect()
}
