//! [`Trails`]: ways that were tried before.
//!
//! Where a way out leads depends on registers and stack; which instructions are tried, in which order, most
//! often does not. What was tried once is kept as a list of what matters: instructions that change something
//! that is followed, branches that were put off, and where a way ended because of what registers or
//! memory hold. That list done once more, with other registers, comes to what trying everything again would,
//! if each way ends where it did, and if the code is the same, to the byte. Else everything is
//! tried again.

use super::way::Way;
use super::{Code, Exit, Window};
use crate::{Memory, Registers};
use iced_x86::{Instruction, Mnemonic};
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::cell::RefCell;

/// Bytes of all that is kept.
const MAX_KEPT: usize = 8 << 20;

/// Most pieces of code that may have been looked at for one.
const MAX_PIECES: usize = 64;

/// Trails by a state of the mappings ([`Modules::generation`](crate::Modules::generation)) and the address
/// that they begin at.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trails {
    kept: RefCell<Kept>,
}

#[derive(Debug, Clone, Default)]
struct Kept {
    trails: FxHashMap<(u64, u64), Trail>,
    bytes: usize,
}

#[derive(Debug, Clone)]
struct Trail {
    pieces: Pieces,
    steps: Box<[Step]>,
    end: End,
}

/// Code that was looked at, by its address.
pub(super) type Pieces = Vec<(u64, Box<[u8]>)>;

#[derive(Debug, Clone)]
enum Step {
    /// An instruction that can be followed.
    Does(Instruction),
    /// A branch is put off.
    Fork,
    /// An instruction that cannot be followed: the way ends.
    Stops(Instruction),
    /// A return to what is no return address: the way ends.
    NoReturn,
    /// The way ends, whatever registers and memory hold.
    Ends,
}

/// Where the last way ended.
#[derive(Debug, Clone)]
pub(super) enum End {
    /// At a return, which takes so many bytes more off the stack.
    Return { popped: u64 },
    /// In code that ends the thread or the process.
    Exit,
    /// Nowhere, as those before.
    Lost,
}

/// A trail in the making.
#[derive(Default)]
pub(super) struct Log {
    steps: Vec<Step>,
}

impl Log {
    /// `goes_on`: whether it could be followed.
    pub(super) fn does(&mut self, instruction: &Instruction, goes_on: bool) {
        // These do nothing to what is followed.
        let is_idle = matches!(
            instruction.mnemonic(),
            Mnemonic::Call | Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Bt
        );
        match (goes_on, is_idle) {
            (true, true) => {}
            (true, false) => self.steps.push(Step::Does(*instruction)),
            (false, _) => self.steps.push(Step::Stops(*instruction)),
        }
    }

    pub(super) fn forks(&mut self) {
        self.steps.push(Step::Fork);
    }

    pub(super) fn does_not_return(&mut self) {
        self.steps.push(Step::NoReturn);
    }

    /// A way that ends whatever registers and memory hold was of no use from the last branch on.
    pub(super) fn ends(&mut self) {
        let goes_on = |step: &Step| matches!(step, Step::Does(_));
        let used = self.steps.iter().rposition(|step| !goes_on(step));
        match used.and_then(|at| Some((at, self.steps.get(at)?))) {
            Some((at, Step::Fork)) => self.steps.truncate(at),
            _ => self.steps.push(Step::Ends),
        }
    }
}

impl Trails {
    /// Where the way from there leads, if it is known.
    pub(super) fn follow<M: Memory + ?Sized, C: Code>(
        &self,
        generation: u64,
        registers: &mut Registers,
        memory: &M,
        text: &C,
    ) -> Option<Exit> {
        let kept = self.kept.borrow();
        let trail = kept.trails.get(&(generation, registers.ip()))?;
        let mut now = [0; Window::LEN];
        let is_same = trail.pieces.iter().all(|(avma, piece)| {
            let len = text.read(*avma, &mut now);
            now.get(..len) == Some(piece)
        });
        if !is_same {
            return None;
        }
        let mut way = Some(Way::new(registers));
        let mut waiting = Vec::new();
        let mut unreadable = None;
        for step in &trail.steps {
            let now = way.as_mut()?;
            match step {
                Step::Does(instruction) => {
                    if !now.execute(instruction, memory) {
                        return None;
                    }
                    continue;
                }
                Step::Fork => {
                    waiting.push(now.clone());
                    continue;
                }
                Step::Stops(instruction) => {
                    if now.execute(instruction, memory) {
                        return None;
                    }
                }
                Step::NoReturn => {
                    let slot = now.registers.sp();
                    match now.read(slot, memory) {
                        Some(address) if text.is_return_address(address) => return None,
                        Some(_) => {}
                        None => unreadable = unreadable.or(Some(slot)),
                    }
                }
                Step::Ends => {}
            }
            way = waiting.pop();
        }
        let popped = match trail.end {
            End::Exit => return Some(Exit::End),
            End::Lost => return Some(unreadable.map_or(Exit::Lost, Exit::Unreadable)),
            End::Return { popped } => popped,
        };
        let way = way?;
        let slot = way.registers.sp();
        let address = way.read(slot, memory)?;
        if !text.is_return_address(address) {
            return None;
        }
        *registers = way.returned(slot, popped);
        Some(Exit::Return { address, slot })
    }

    /// Keeps what was tried.
    pub(super) fn keep(&self, generation: u64, ip: u64, log: Log, end: End, window: Window) {
        let Some(pieces) = window.pieces else {
            return;
        };
        let trail = Trail {
            pieces,
            steps: log.steps.into(),
            end,
        };
        let mut kept = self.kept.borrow_mut();
        let bytes = size_of_val(&*trail.steps) + trail.pieces.len() * Window::LEN;
        if kept.bytes + bytes > MAX_KEPT {
            *kept = Kept::default();
        }
        kept.bytes += bytes;
        // What it replaces is still counted, and gone when all is.
        kept.trails.insert((generation, ip), trail);
    }

    pub(crate) const fn new() -> Self {
        Self {
            kept: RefCell::new(Kept {
                trails: FxHashMap::with_hasher(FxBuildHasher),
                bytes: 0,
            }),
        }
    }
}

/// Takes note of a piece of code that was read; `None` if there are too many.
pub(super) fn note(pieces: &mut Option<Pieces>, avma: u64, bytes: &[u8]) {
    if let Some(pieces) = pieces {
        pieces.push((avma, bytes.into()));
    }
    pieces.take_if(|pieces| pieces.len() > MAX_PIECES);
}
