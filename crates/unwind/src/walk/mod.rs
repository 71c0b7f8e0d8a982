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

mod way;

pub(crate) use way::{Stop, Way};

use crate::arch::x86_64::RSP;
use crate::{Arch, Memory, Registers, code};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Mnemonic, OpKind};
use rustc_hash::FxHashSet;

/// Most instructions that are looked at for one frame.
const MAX_INSTRUCTIONS: usize = 2000;
/// Most branches that wait to be tried.
const MAX_BRANCHES: usize = 64;
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

/// Follows the code from where `registers` are to the return, and makes them the caller's.
pub(crate) fn out<M: Memory + ?Sized, C: Code>(
    registers: &mut Registers,
    memory: &M,
    text: &C,
) -> Exit {
    if registers.arch() != Arch::X86_64 {
        return Exit::Lost;
    }
    let mut seen = FxHashSet::default();
    let mut waiting = vec![Way::new(registers)];
    let mut unreadable = None;
    let mut left = MAX_INSTRUCTIONS;
    let mut window = Window::default();
    while let Some(mut way) = waiting.pop() {
        while left > 0 && seen.insert(way.ip) {
            left -= 1;
            let bytes = window.at(way.ip, MAX_LEN, text);
            let mut decoder = Decoder::with_ip(64, bytes, way.ip, DecoderOptions::NONE);
            let instruction = decoder.decode();
            if instruction.is_invalid() {
                break;
            }
            let target = instruction.near_branch_target();
            let leaves = match instruction.flow_control() {
                FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall => {
                    if !way.execute(&instruction, memory) {
                        break;
                    }
                    way.ip = instruction.next_ip();
                    if instruction.mnemonic() == Mnemonic::Call
                        && code::exits(window.at(way.ip, code::LEN, text))
                    {
                        return Exit::End;
                    }
                    continue;
                }
                FlowControl::ConditionalBranch => {
                    if waiting.len() < MAX_BRANCHES && !text.is_described(target) {
                        waiting.push(Way {
                            ip: target,
                            ..way.clone()
                        });
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
                break;
            }
            let slot = way.registers.sp();
            let Some(address) = way.read(slot, memory) else {
                unreadable = unreadable.or(Some(slot));
                break;
            };
            if !text.is_return_address(address) {
                break;
            }
            way.registers.keep(Arch::X86_64.callee_saved());
            let popped = match instruction.op0_kind() {
                OpKind::Immediate16 => u64::from(instruction.immediate16()),
                _ => 0,
            };
            way.registers
                .set(RSP, slot.wrapping_add(8).wrapping_add(popped));
            *registers = way.registers;
            return Exit::Return { address, slot };
        }
    }
    unreadable.map_or(Exit::Lost, Exit::Unreadable)
}

/// Code that was read: asking for it may be a system call.
#[derive(Default)]
struct Window {
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    const LEN: usize = 256;

    /// The bytes from `avma` on, `least` or more of them if there are as many.
    fn at<C: Code>(&mut self, avma: u64, least: usize, code: &C) -> &[u8] {
        let within = usize::try_from(avma.wrapping_sub(self.start)).unwrap_or(usize::MAX);
        let behind = self.bytes.len().saturating_sub(within);
        if behind < least {
            self.start = avma;
            self.bytes.resize(Self::LEN, 0);
            let len = code.read(avma, &mut self.bytes);
            self.bytes.truncate(len);
            return &self.bytes;
        }
        self.bytes.get(within..).unwrap_or(&[])
    }
}
