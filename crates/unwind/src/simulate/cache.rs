//! [`SimulationCache`]: replays earlier searches.
//!
//! The result of a simulation depends on registers and stack, but the tried instructions and their
//! order mostly do not. So the cache logs the steps that matter: instructions that change tracked
//! state, deferred branches, and paths that ended because of register or memory contents. The
//! replay is valid if the code bytes are unchanged and every path ends at the same step. Otherwise
//! a new search runs.

use super::path::{Exit, PathState, pushes_own_address};
use super::window::{CodeSnapshots, CodeSource, CodeWindow};
use crate::{Memory, Registers};
use iced_x86::{Instruction, Mnemonic};
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::cell::RefCell;

/// Maximum size in bytes. Beyond it the cache is cleared.
const MAX_BYTES: usize = 8 << 20;

/// Counts of the cache of simulations. Each lookup is one hit or one miss.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SimulationCacheStats {
    /// Replayed searches.
    pub hits: u64,
    /// Misses without an entry for this address and state of the mappings.
    pub misses_unknown: u64,
    /// Misses because the code has changed, as JIT code may.
    pub misses_code_changed: u64,
    /// Misses because a path ends at another step with these registers and this stack.
    pub misses_other_path: u64,
    /// Times the cache was cleared to make room.
    pub clears: u64,
}

/// Searches by state of the mappings ([`Modules::generation`](crate::Modules::generation)) and
/// start address.
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

#[derive(Debug, Clone)]
struct Search {
    code: CodeSnapshots,
    steps: Box<[Step]>,
    end: PathEnd,
}

#[derive(Debug, Clone)]
enum Step {
    Execute(Instruction),
    Fork,
    /// The path ends: the instruction cannot be simulated.
    Stop(Instruction),
    /// The path ends: the return address is invalid.
    NoReturn,
    /// The path ends: a jump goes anywhere, while the function may still have its frame.
    KeepsFrame,
    /// The path ends for any registers and memory.
    End,
}

#[derive(Debug, Clone)]
pub(super) enum PathEnd {
    /// A return that removes `popped` more bytes from the stack.
    Return { popped: u64 },
    /// A jump without the function's frame.
    TailJump,
    /// A jump to a return address in a register. `popped` if the code before has popped it.
    JumpBack { register: u8, popped: bool },
    /// The thread or process ends.
    Exit,
    /// No path reached a return.
    Lost,
}

enum Miss {
    Unknown,
    CodeChanged,
    OtherPath,
}

#[derive(Default)]
pub(super) struct SimulationLog {
    steps: Vec<Step>,
}

impl SimulationLog {
    /// Logs an instruction. `goes_on`: the path continues; `follows_calls`: calls change tracked
    /// state.
    pub(super) fn executes(
        &mut self,
        instruction: &Instruction,
        goes_on: bool,
        follows_calls: bool,
    ) {
        let is_idle = match instruction.mnemonic() {
            Mnemonic::Call => !follows_calls && !pushes_own_address(instruction),
            Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Bt => true,
            _ => false,
        };
        match (goes_on, is_idle) {
            (true, true) => {}
            (true, false) => self.steps.push(Step::Execute(*instruction)),
            (false, _) => self.steps.push(Step::Stop(*instruction)),
        }
    }

    pub(super) fn forks(&mut self) {
        self.steps.push(Step::Fork);
    }

    pub(super) fn does_not_return(&mut self) {
        self.steps.push(Step::NoReturn);
    }

    pub(super) fn keeps_frame(&mut self) {
        self.steps.push(Step::KeepsFrame);
    }

    /// Logs the end of a path that is independent of registers and memory. Drops its steps since
    /// the last branch.
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

    pub(crate) fn stats(&self) -> SimulationCacheStats {
        self.kept.borrow().stats
    }

    /// Replays the search from this program counter. Replaces the registers by the caller's. `None`
    /// if a new search is necessary.
    pub(super) fn replay(
        &self,
        generation: u64,
        registers: &mut Registers,
        memory: &dyn Memory,
        text: &dyn CodeSource,
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

    /// Caches a search, unless it read too much code.
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
        // A replaced search counts until the cache is cleared.
        kept.searches.insert((generation, ip), search);
    }
}

impl Search {
    fn is_of_this_code(&self, text: &dyn CodeSource) -> bool {
        let mut now = [0; CodeWindow::LEN];
        self.code.iter().all(|(avma, piece)| {
            let len = text.read(*avma, &mut now);
            now.get(..len) == Some(piece)
        })
    }

    /// Replays the steps with other registers. `None` if a path ends at another step.
    fn replay(
        &self,
        registers: &mut Registers,
        memory: &dyn Memory,
        text: &dyn CodeSource,
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
                Step::KeepsFrame => {
                    if now.has_removed_frame(memory) {
                        return None;
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
            PathEnd::TailJump | PathEnd::JumpBack { .. } => 0,
        };
        let path = path?;
        if let PathEnd::JumpBack { register, popped } = self.end {
            let address = path.registers.get(register)?;
            let is_return = popped || path.leaves_function(address, text);
            if !(is_return && text.is_return_address(address)) {
                return None;
            }
            *registers = path.jumped_back();
            return Some(Exit::Return { address, slot: 0 });
        }
        if matches!(self.end, PathEnd::TailJump) && !path.has_removed_frame(memory) {
            return None;
        }
        let slot = path.registers.sp();
        let address = path.read(slot, memory)?;
        if !text.is_return_address(address) {
            return None;
        }
        *registers = path.returned(slot, popped);
        Some(Exit::Return { address, slot })
    }
}
