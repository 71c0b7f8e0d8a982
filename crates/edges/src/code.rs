//! [`Code`]: what the instructions of an image do, decoded on demand.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::decode::{Flow, Instruction, Sweep, Target};
use crate::image::{Image, Piece};

/// Maximum length in bytes of a piece of code that is decoded to find its exits.
const MAX_PIECE: u64 = 4 << 20;

/// Ways out of a piece of code, other than returns and calls.
#[derive(Debug, Default)]
pub(crate) struct Exits {
    /// Targets of jumps, and the address behind the piece if execution runs into it.
    pub(crate) targets: Vec<u64>,
    /// Places of pointers that it jumps through.
    pub(crate) slots: Vec<u64>,
    /// True if a jump has an unknown target, or if the code is too long.
    pub(crate) is_open: bool,
    /// True if a jump goes through a table of the same function.
    pub(crate) has_table: bool,
    /// Address behind the first load of the stack pointer that is not based on the frame.
    pub(crate) switches_stack: Option<u64>,
}

/// Instruction before a return address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    Call(Target),
    /// The bytes form a call, but decoding from the function's start meets no instruction
    /// that begins there.
    Odd,
    Other,
}

/// An image with the results of decoding.
#[derive(Debug)]
pub(crate) struct Code {
    pub(crate) image: Image,
    exits: FxHashMap<Piece, Rc<Exits>>,
    before: FxHashMap<u64, Before>,
}

impl Code {
    pub(crate) fn new(image: Image) -> Self {
        Self {
            image,
            exits: FxHashMap::default(),
            before: FxHashMap::default(),
        }
    }

    pub(crate) fn exits(&mut self, piece: Piece) -> Rc<Exits> {
        if let Some(known) = self.exits.get(&piece) {
            return Rc::clone(known);
        }
        let exits = Rc::new(find_exits(&self.image, piece));
        self.exits.insert(piece, Rc::clone(&exits));
        exits
    }

    pub(crate) fn before(&mut self, return_address: u64) -> Before {
        if let Some(known) = self.before.get(&return_address) {
            return *known;
        }
        let found = find_before(&self.image, return_address);
        self.before.insert(return_address, found);
        found
    }
}

/// Returns the instructions of a piece, with their addresses.
pub(crate) fn sweep(image: &Image, piece: Piece) -> Sweep<'_> {
    Sweep::new(image.arch, image.range(piece), piece.start)
}

/// The last instruction of a piece, of those seen so far.
#[derive(Debug, Default)]
pub(crate) struct Last {
    flow: Option<Flow>,
}

impl Last {
    pub(crate) fn add(&mut self, instruction: &Instruction) {
        let is_first = self.flow.is_none();
        if is_first || !instruction.is_padding {
            self.flow = Some(instruction.flow);
        }
    }

    /// Returns true if execution may continue behind the piece: also if it has only fillers. A call
    /// at the end does not return.
    pub(crate) fn runs_on(&self) -> bool {
        matches!(self.flow, Some(Flow::Next | Flow::Branch(_)))
    }
}

fn find_exits(image: &Image, piece: Piece) -> Exits {
    let mut exits = Exits::default();
    if piece.end - piece.start > MAX_PIECE {
        exits.is_open = true;
        return exits;
    }
    let mut last = Last::default();
    for (address, instruction) in sweep(image, piece) {
        match instruction.flow {
            Flow::Branch(target) | Flow::Jump(Target::Address(target)) if !piece.has(target) => {
                exits.targets.push(target);
            }
            Flow::Jump(Target::Slot(slot)) => exits.slots.push(slot),
            Flow::Jump(Target::Table) => exits.has_table = true,
            Flow::Jump(Target::Pointer) => exits.is_open = true,
            Flow::Jump(Target::Pointers(table)) => {
                // A jump table, or functions.
                let first = image.word(table);
                exits.is_open |= first.is_none_or(|first| !piece.has(first));
            }
            _ => {}
        }
        if instruction.switches_stack && exits.switches_stack.is_none() {
            exits.switches_stack = Some(address + instruction.len);
        }
        last.add(&instruction);
    }
    if last.runs_on() {
        exits.targets.push(piece.end);
    }
    exits.targets.sort_unstable();
    exits.targets.dedup();
    exits
}

fn find_before(image: &Image, return_address: u64) -> Before {
    let Some(piece) = image.piece(return_address.wrapping_sub(1)) else {
        return Before::Other;
    };
    let until = Piece {
        end: return_address,
        ..piece
    };
    let last = sweep(image, until).last();
    if let Some((address, instruction)) = last
        && address + instruction.len == return_address
        && let Flow::Call(target) = instruction.flow
    {
        return Before::Call(target);
    }
    let is_call = |len: u64| {
        let start = return_address.wrapping_sub(len);
        let found = (start >= piece.start).then(|| {
            let piece = Piece { start, ..until };
            sweep(image, piece).next()
        });
        let is_whole = |(_, instruction): (u64, Instruction)| {
            instruction.len == len && matches!(instruction.flow, Flow::Call(_))
        };
        found.flatten().is_some_and(is_whole)
    };
    if image.arch.call_lengths().any(is_call) {
        return Before::Odd;
    }
    Before::Other
}
