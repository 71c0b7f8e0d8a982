//! [`SimulationCache`]: searches of before, replayed.
//!
//! The end of a simulation depends on registers and stack; the instructions that are tried, and their order,
//! mostly do not. So a search is kept as a list of the steps that matter: instructions that change
//! something that is followed, branches that were put off, and paths that ended because of what
//! registers or memory hold. That list, replayed with other registers, comes to what a new search would,
//! if each path ends where it did, and if the code is the same, to the byte. Otherwise there is a new
//! search.

use super::path::{Exit, PathState};
use super::window::{CodeSnapshots, CodeSource, CodeWindow};
use crate::{Memory, Registers};
use iced_x86::{Instruction, Mnemonic};
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::cell::RefCell;

/// Maximum number of bytes that are kept; beyond that all are dropped.
const MAX_BYTES: usize = 8 << 20;

/// Counts of the cache of simulations: of searches for the return in code without call frame
/// information. Each lookup is a hit or one of the misses, and each miss is a new search.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SimulationCacheStats {
    /// Replayed.
    pub hits: u64,
    /// Misses: no search from this address, in this state of the mappings, is kept.
    pub misses_unknown: u64,
    /// Misses: the code is another one now, as that of a JIT compiler may be.
    pub misses_code_changed: u64,
    /// Misses: with these registers and this stack a path ends elsewhere than it did.
    pub misses_other_path: u64,
    /// Times that all was dropped to make room.
    pub clears: u64,
}

/// Searches by state of the mappings ([`Modules::generation`](crate::Modules::generation)) and start
/// address.
#[derive(Debug, Clone, Default)]
pub(crate) struct SimulationCache {
    kept: RefCell<Kept>,
}

#[derive(Debug, Clone, Default)]
struct Kept {
    searches: FxHashMap<(u64, u64), Search>,
    bytes: usize,
    stats: SimulationCacheStats,
}

/// A search that was done once.
#[derive(Debug, Clone)]
struct Search {
    code: CodeSnapshots,
    steps: Box<[Step]>,
    end: PathEnd,
}

#[derive(Debug, Clone)]
enum Step {
    /// An instruction that can be followed.
    Execute(Instruction),
    /// A branch that is put off.
    Fork,
    /// An instruction that cannot be followed: the path ends.
    Stop(Instruction),
    /// A return to what is no return address: the path ends.
    NoReturn,
    /// The path ends, whatever registers and memory hold.
    End,
}

/// End of the last path of a search.
#[derive(Debug, Clone)]
pub(super) enum PathEnd {
    /// At a return, which takes `popped` bytes more off the stack.
    Return { popped: u64 },
    /// In code that ends the thread or the process.
    Exit,
    /// Nowhere, as all before.
    Lost,
}

/// Reason why a search cannot be replayed.
enum Miss {
    Unknown,
    CodeChanged,
    OtherPath,
}

/// Log of a search, from which it can be replayed.
#[derive(Default)]
pub(super) struct SimulationLog {
    steps: Vec<Step>,
}

impl SimulationLog {
    /// Logs an instruction; `goes_on` says whether it could be followed, `follows_calls` whether calls change something.
    pub(super) fn executes(
        &mut self,
        instruction: &Instruction,
        goes_on: bool,
        follows_calls: bool,
    ) {
        // These change nothing that is followed.
        let is_idle = match instruction.mnemonic() {
            Mnemonic::Call => !follows_calls,
            Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Bt => true,
            _ => false,
        };
        match (goes_on, is_idle) {
            (true, true) => {}
            (true, false) => self.steps.push(Step::Execute(*instruction)),
            (false, _) => self.steps.push(Step::Stop(*instruction)),
        }
    }

    /// Logs that a branch is put off.
    pub(super) fn forks(&mut self) {
        self.steps.push(Step::Fork);
    }

    /// Logs a return to what is no return address.
    pub(super) fn does_not_return(&mut self) {
        self.steps.push(Step::NoReturn);
    }

    /// Logs that a path ends, whatever registers and memory hold: it was of no use from the last
    /// branch on.
    pub(super) fn ends_path(&mut self) {
        let goes_on = |step: &Step| matches!(step, Step::Execute(_));
        let used = self.steps.iter().rposition(|step| !goes_on(step));
        match used.and_then(|at| Some((at, self.steps.get(at)?))) {
            Some((at, Step::Fork)) => self.steps.truncate(at),
            _ => self.steps.push(Step::End),
        }
    }
}

impl SimulationCache {
    pub(crate) const fn new() -> Self {
        Self {
            kept: RefCell::new(Kept {
                searches: FxHashMap::with_hasher(FxBuildHasher),
                bytes: 0,
                stats: SimulationCacheStats {
                    hits: 0,
                    misses_unknown: 0,
                    misses_code_changed: 0,
                    misses_other_path: 0,
                    clears: 0,
                },
            }),
        }
    }

    /// Returns the counts so far.
    pub(crate) fn stats(&self) -> SimulationCacheStats {
        self.kept.borrow().stats
    }

    /// Replays the search from where these registers are, and makes them the caller's. `None` if there
    /// has to be a new search.
    pub(super) fn replay<M: Memory + ?Sized, C: CodeSource>(
        &self,
        generation: u64,
        registers: &mut Registers,
        memory: &M,
        text: &C,
    ) -> Option<Exit> {
        let replayed = {
            let kept = self.kept.borrow();
            let search = kept.searches.get(&(generation, registers.ip()));
            match search {
                None => Err(Miss::Unknown),
                Some(search) if !search.is_of_this_code(text) => Err(Miss::CodeChanged),
                Some(search) => (search.replay(registers, memory, text)).ok_or(Miss::OtherPath),
            }
        };
        let stats = &mut self.kept.borrow_mut().stats;
        let count = match replayed {
            Ok(_) => &mut stats.hits,
            Err(Miss::Unknown) => &mut stats.misses_unknown,
            Err(Miss::CodeChanged) => &mut stats.misses_code_changed,
            Err(Miss::OtherPath) => &mut stats.misses_other_path,
        };
        *count += 1;
        replayed.ok()
    }

    /// Keeps a search that read this code; `None` if it read too much.
    pub(super) fn insert(
        &self,
        generation: u64,
        ip: u64,
        log: SimulationLog,
        end: PathEnd,
        code: Option<CodeSnapshots>,
    ) {
        let Some(code) = code else {
            return;
        };
        let search = Search {
            code,
            steps: log.steps.into(),
            end,
        };
        let mut kept = self.kept.borrow_mut();
        let bytes = size_of_val(&*search.steps) + search.code.len() * CodeWindow::LEN;
        if kept.bytes + bytes > MAX_BYTES {
            kept.searches = FxHashMap::default();
            kept.bytes = 0;
            kept.stats.clears += 1;
        }
        kept.bytes += bytes;
        // What it replaces stays counted until all is dropped.
        kept.searches.insert((generation, ip), search);
    }
}

impl Search {
    /// Returns true if all code that was read is still the same.
    fn is_of_this_code<C: CodeSource>(&self, text: &C) -> bool {
        let mut now = [0; CodeWindow::LEN];
        self.code.iter().all(|(avma, piece)| {
            let len = text.read(*avma, &mut now);
            now.get(..len) == Some(piece)
        })
    }

    /// Does the steps with other registers. `None` if a path ends elsewhere than it did.
    fn replay<M: Memory + ?Sized, C: CodeSource>(
        &self,
        registers: &mut Registers,
        memory: &M,
        text: &C,
    ) -> Option<Exit> {
        let mut path = Some(PathState::new(registers));
        let mut waiting = Vec::new();
        let mut unreadable = None;
        for step in &self.steps {
            let now = path.as_mut()?;
            match step {
                Step::Execute(instruction) => {
                    if !now.execute(instruction, memory) {
                        return None;
                    }
                    continue;
                }
                Step::Fork => {
                    waiting.push(now.clone());
                    continue;
                }
                Step::Stop(instruction) => {
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
                Step::End => {}
            }
            path = waiting.pop();
        }
        let popped = match self.end {
            PathEnd::Exit => return Some(Exit::End),
            PathEnd::Lost => return Some(unreadable.map_or(Exit::Lost, Exit::Unreadable)),
            PathEnd::Return { popped } => popped,
        };
        let path = path?;
        let slot = path.registers.sp();
        let address = path.read(slot, memory)?;
        if !text.is_return_address(address) {
            return None;
        }
        *registers = path.returned(slot, popped);
        Some(Exit::Return { address, slot })
    }
}
