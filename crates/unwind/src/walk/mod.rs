//! The way out of a function without call frame information, as its own code shows it.
//!
//! From the next instruction on, the code is followed to its return, and what it does to the
//! stack pointer and to the registers that it must restore is done here, too. Where that ends
//! is the caller. It takes nothing but the code, and works in leaf functions, prologues,
//! epilogues and callers alike, with and without frame pointers: musl, `_init`, PLT entries,
//! assembly.
//!
//! Nothing is known of conditions: at a branch the next instruction is tried first, then the
//! target. A call is taken to come back; where it does not (`abort`), what follows may belong to
//! something else, so the caller of this checks what it gets.

mod trail;
mod way;

pub(crate) use trail::Trails;
pub(crate) use way::{Stop, Way};

use crate::{Arch, Memory, Registers, code};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Mnemonic, OpKind};
use rustc_hash::{FxBuildHasher, FxHashSet};
use trail::Log;

/// Most instructions that are looked at for one frame.
const MAX_INSTRUCTIONS: usize = 2000;
/// Most branches that wait to be tried.
const MAX_BRANCHES: usize = 64;
/// Instructions that there is room for at once; few ways have more.
const SEEN: usize = 112;
/// Longest instruction.
const MAX_LEN: usize = 15;

/// What is known of the code.
pub(crate) trait Code {
    /// Copies code from `avma` on; says how many bytes.
    fn read(&self, avma: u64, into: &mut [u8]) -> usize;
    /// Whether there is call frame information for this code, so that a jump to it leaves
    /// the function.
    fn is_described(&self, avma: u64) -> bool;
    /// Whether this can be a return address.
    fn is_return_address(&self, avma: u64) -> bool;
}

/// Where the way out ended.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Exit {
    /// With a return to this address, which lies in `slot`. The registers are the caller's.
    Return { address: u64, slot: u64 },
    /// In code that ends the thread or the process.
    End,
    /// Nowhere, the first time because this memory is not known.
    Unreadable(u64),
    /// Nowhere.
    Lost,
}

/// Follows the code from where `registers` are to the return, and makes them the caller's. In a state of the
/// mappings that has a number (`generation`), what was found before is done again.
pub(crate) fn out<M: Memory + ?Sized, C: Code>(
    registers: &mut Registers,
    memory: &M,
    text: &C,
    (trails, generation): (&Trails, Option<u64>),
) -> Exit {
    if registers.arch() != Arch::X86_64 {
        return Exit::Lost;
    }
    let known = generation.and_then(|of| trails.follow(of, registers, memory, text));
    if let Some(exit) = known {
        return exit;
    }
    let ip = registers.ip();
    let mut window = Window::noting();
    let mut log = Log::default();
    let (exit, end) = search(registers, memory, text, &mut window, &mut log);
    if let Some(generation) = generation {
        trails.keep(generation, ip, log, end, window);
    }
    exit
}

/// Tries all ways.
fn search<M: Memory + ?Sized, C: Code>(
    registers: &mut Registers,
    memory: &M,
    text: &C,
    window: &mut Window,
    log: &mut Log,
) -> (Exit, trail::End) {
    let mut seen = FxHashSet::with_capacity_and_hasher(SEEN, FxBuildHasher);
    let mut waiting = vec![Way::new(registers)];
    let mut unreadable = None;
    let mut left = MAX_INSTRUCTIONS;
    while let Some(mut way) = waiting.pop() {
        loop {
            if left == 0 || !seen.insert(way.ip) {
                log.ends();
                break;
            }
            left -= 1;
            let bytes = window.at(way.ip, MAX_LEN, text);
            let mut decoder = Decoder::with_ip(64, bytes, way.ip, DecoderOptions::NONE);
            let instruction = decoder.decode();
            if instruction.is_invalid() {
                log.ends();
                break;
            }
            let target = instruction.near_branch_target();
            let leaves = match instruction.flow_control() {
                FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall => {
                    let goes_on = way.execute(&instruction, memory);
                    log.does(&instruction, goes_on);
                    if !goes_on {
                        break;
                    }
                    way.ip = instruction.next_ip();
                    if instruction.mnemonic() == Mnemonic::Call
                        && code::exits(window.at(way.ip, code::LEN, text))
                    {
                        return (Exit::End, trail::End::Exit);
                    }
                    continue;
                }
                FlowControl::ConditionalBranch => {
                    if waiting.len() < MAX_BRANCHES && !text.is_described(target) {
                        waiting.push(Way {
                            ip: target,
                            ..way.clone()
                        });
                        log.forks();
                    }
                    way.ip = instruction.next_ip();
                    continue;
                }
                FlowControl::UnconditionalBranch if !text.is_described(target) => {
                    way.ip = target;
                    continue;
                }
                FlowControl::UnconditionalBranch | FlowControl::Return => true,
                // A PLT entry jumps by way of memory; a table of cases by way of a register.
                FlowControl::IndirectBranch => instruction.is_ip_rel_memory_operand(),
                _ => false,
            };
            if !leaves {
                log.ends();
                break;
            }
            let slot = way.registers.sp();
            let Some(address) = way.read(slot, memory) else {
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
            *registers = way.returned(slot, popped);
            return (
                Exit::Return { address, slot },
                trail::End::Return { popped },
            );
        }
    }
    let exit = unreadable.map_or(Exit::Lost, Exit::Unreadable);
    (exit, trail::End::Lost)
}

/// Code that was read: asking for it may be a system call.
#[derive(Default)]
struct Window {
    start: u64,
    bytes: Vec<u8>,
    /// All that was read; `None` if nobody wants to know, or there is too much of it.
    pieces: Option<trail::Pieces>,
}

impl Window {
    const LEN: usize = 256;

    /// One that takes note of what it read.
    fn noting() -> Self {
        Self {
            pieces: Some(Vec::new()),
            ..Self::default()
        }
    }

    /// The bytes from `avma` on, `least` or more of them if there are as many.
    fn at<C: Code>(&mut self, avma: u64, least: usize, code: &C) -> &[u8] {
        let within = usize::try_from(avma.wrapping_sub(self.start)).unwrap_or(usize::MAX);
        let behind = self.bytes.len().saturating_sub(within);
        if behind < least {
            self.start = avma;
            self.bytes.resize(Self::LEN, 0);
            let len = code.read(avma, &mut self.bytes);
            self.bytes.truncate(len);
            trail::note(&mut self.pieces, avma, &self.bytes);
            return &self.bytes;
        }
        self.bytes.get(within..).unwrap_or(&[])
    }
}
