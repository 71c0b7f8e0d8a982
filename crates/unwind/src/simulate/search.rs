//! [`simulate_to_return`]: tries all paths from an instruction to a return.

use super::aarch64;
use super::cache::{PathEnd, SimulationCache, SimulationLog};
use super::path::{Exit, MAX_BRANCHES, PathState, pushes_own_address};
use super::prologue::{end_of_return_thunk, is_hardened_return, makes_callers_frame};
use super::window::{CodeSource, CodeWindow, MAX_INSTRUCTION};
use crate::{Arch, Memory, Registers, code};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};
use rustc_hash::{FxBuildHasher, FxHashSet};

/// Maximum number of instructions per search, from the first branch on.
const MAX_INSTRUCTIONS: usize = 2000;
/// Maximum number of instructions before the first branch. Codecs have 20 kB of straight assembly.
const MAX_STRAIGHT: usize = 16_000;
/// Initial capacity. Few searches visit more instructions.
const SEEN: usize = 112;

/// Simulates the code up to the return. Replaces the registers by the caller's. With a
/// `generation`, replays an earlier search if possible.
pub(crate) fn simulate_to_return(
    registers: &mut Registers,
    memory: &dyn Memory,
    text: &dyn CodeSource,
    (cache, generation): (&SimulationCache, Option<u64>),
) -> Exit {
    if registers.arch() == Arch::Aarch64 {
        return aarch64::simulate_to_return(registers, memory, text);
    }
    let known = generation.and_then(|of| cache.replay(of, registers, memory, text));
    if let Some(exit) = known {
        return exit;
    }
    let ip = registers.ip();
    let mut of = |order| {
        let mut window = CodeWindow::with_snapshots();
        let mut log = SimulationLog::default();
        let found = search(registers, memory, text, order, &mut window, &mut log);
        (found, window, log)
    };
    let (mut found, mut window, mut log) = of(Order::Straight);
    if found.is_exhausted {
        (found, window, log) = of(Order::Ahead);
    }
    if let Some(generation) = generation {
        cache.insert(generation, ip, log, found.end, window.into_snapshots());
    }
    found.exit
}

/// Side of a conditional branch that is tried first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// The next instruction.
    Straight,
    /// The target, if it is ahead: past loops of long assembly, such as kernels of linear algebra.
    Ahead,
}

struct Outcome {
    exit: Exit,
    end: PathEnd,
    /// True if no path reached a return within the limit.
    is_exhausted: bool,
}

impl Outcome {
    const fn found(exit: Exit, end: PathEnd) -> Self {
        Self {
            exit,
            end,
            is_exhausted: false,
        }
    }
}

fn search(
    registers: &mut Registers,
    memory: &dyn Memory,
    text: &dyn CodeSource,
    order: Order,
    window: &mut CodeWindow,
    log: &mut SimulationLog,
) -> Outcome {
    let arch = registers.arch();
    let mut seen = FxHashSet::with_capacity_and_hasher(SEEN, FxBuildHasher);
    let mut waiting = vec![PathState::new(registers)];
    let mut unreadable = None;
    let mut left = MAX_INSTRUCTIONS;
    let mut straight = MAX_STRAIGHT;
    while let Some(mut path) = waiting.pop() {
        loop {
            if left == 0 || !seen.insert(path.ip) {
                log.ends_path();
                break;
            }
            match straight {
                0 => left -= 1,
                _ => straight -= 1,
            }
            let bytes = window.at(path.ip, MAX_INSTRUCTION, text);
            let mut decoder = Decoder::with_ip(arch.bits(), bytes, path.ip, DecoderOptions::NONE);
            let instruction = decoder.decode();
            if instruction.is_invalid() {
                log.ends_path();
                break;
            }
            let target = instruction.near_branch_target();
            if instruction.flow_control() == FlowControl::Call
                && let Some(end) = end_of_return_thunk(arch, &instruction, text)
            {
                path.ip = end;
                continue;
            }
            let mut is_tail_jump = false;
            let leaves = match instruction.flow_control() {
                // Nothing is above the return address yet.
                FlowControl::Call
                    if path.registers.sp() == path.start_sp
                        && !path.has_called
                        && !pushes_own_address(&instruction)
                        && makes_callers_frame(arch, target, text) =>
                {
                    true
                }
                FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall => {
                    let is_first_call = !path.has_called;
                    let goes_on = path.execute(&instruction, memory);
                    log.executes(&instruction, goes_on, is_first_call || path.follows_calls());
                    if !goes_on {
                        break;
                    }
                    path.ip = instruction.next_ip();
                    if instruction.mnemonic() == Mnemonic::Call
                        && code::exits(arch, window.at(path.ip, code::LEN, text))
                    {
                        return Outcome::found(Exit::End, PathEnd::Exit);
                    }
                    // A function may end with a call that does not return.
                    if instruction.mnemonic() == Mnemonic::Call && text.begins_behind_call(path.ip)
                    {
                        log.ends_path();
                        break;
                    }
                    continue;
                }
                // `int 0x80`, the system call of i386.
                FlowControl::Interrupt if instruction.mnemonic() == Mnemonic::Int => {
                    path.ip = instruction.next_ip();
                    continue;
                }
                FlowControl::ConditionalBranch => {
                    straight = 0;
                    let next = instruction.next_ip();
                    let is_inside = !text.is_described(target);
                    let goes_ahead = order == Order::Ahead && is_inside && target > next;
                    let (first, second) = match goes_ahead {
                        true => (target, next),
                        false => (next, target),
                    };
                    if waiting.len() < MAX_BRANCHES && is_inside {
                        waiting.push(PathState {
                            ip: second,
                            ..path.clone()
                        });
                        log.forks();
                    }
                    path.ip = first;
                    continue;
                }
                FlowControl::UnconditionalBranch if !text.is_described(target) => {
                    path.ip = target;
                    continue;
                }
                FlowControl::UnconditionalBranch | FlowControl::Return => true,
                FlowControl::IndirectBranch if is_plt_jump(arch, &instruction) => true,
                FlowControl::IndirectBranch
                    if let Some(target) = path.constant_target(&instruction) =>
                {
                    if !text.is_described(target) {
                        path.ip = target;
                        continue;
                    }
                    true
                }
                FlowControl::IndirectBranch
                    if let Some(targets) = path.table_targets(&instruction, text) =>
                {
                    straight = 0;
                    // The first entry is tried first: later ones may be beyond the table.
                    for target in targets.into_iter().rev() {
                        if waiting.len() < MAX_BRANCHES {
                            waiting.push(PathState {
                                ip: target,
                                ..path.clone()
                            });
                            log.forks();
                        }
                    }
                    log.ends_path();
                    break;
                }
                FlowControl::IndirectBranch
                    if let Some((register, address)) = path.return_in_register(&instruction)
                        && let popped = is_hardened_return(&instruction, text)
                        && (popped || path.leaves_function(address, text))
                        && text.is_return_address(address) =>
                {
                    *registers = path.jumped_back();
                    let exit = Exit::Return { address, slot: 0 };
                    return Outcome::found(exit, PathEnd::JumpBack { register, popped });
                }
                FlowControl::IndirectBranch if path.has_changed_frame() => {
                    is_tail_jump = path.has_removed_frame(memory);
                    if !is_tail_jump {
                        log.keeps_frame();
                        break;
                    }
                    true
                }
                _ => false,
            };
            if !leaves {
                log.ends_path();
                break;
            }
            let slot = path.registers.sp();
            let Some(address) = path.read(slot, memory) else {
                unreadable = unreadable.or(Some(slot));
                log.does_not_return();
                break;
            };
            if !text.is_return_address(address) {
                log.does_not_return();
                break;
            }
            let popped = match instruction.op0_kind() {
                OpKind::Immediate16 => u64::from(instruction.immediate16()),
                _ => 0,
            };
            *registers = path.returned(slot, popped);
            let end = match is_tail_jump {
                true => PathEnd::TailJump,
                false => PathEnd::Return { popped },
            };
            return Outcome::found(Exit::Return { address, slot }, end);
        }
    }
    let exit = unreadable.map_or(Exit::Lost, Exit::Unreadable);
    Outcome {
        exit,
        end: PathEnd::Lost,
        is_exhausted: left == 0,
    }
}

/// Returns true for the jump of a PLT entry, which goes through memory at a fixed place. Jump tables
/// use a register. So do position-independent entries of i386, which look like interpreters' jumps.
pub(crate) fn is_plt_jump(arch: Arch, jump: &Instruction) -> bool {
    match arch {
        Arch::X86 => {
            jump.op0_kind() == OpKind::Memory
                && jump.memory_index() == Register::None
                && jump.memory_base() == Register::None
        }
        _ => jump.is_ip_rel_memory_operand(),
    }
}
