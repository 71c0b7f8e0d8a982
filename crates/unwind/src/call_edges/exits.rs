//! [`Exits`]: jumps out of a function.

use std::ops::Range;

use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind};
use rustc_hash::FxHashSet;

use crate::branch::{Branch, LinkUse};
use crate::modules::{Piece, word_at};
use crate::simulate::{is_plt_jump, pushes_own_address};
use crate::{Arch, Module, Modules, UnwindTable};

/// Maximum number of instructions that are decoded to find the jumps out of one function.
const MAX_INSTRUCTIONS: usize = 1 << 16;

/// Maximum number of instructions that are decoded where the bounds of functions are unknown, since
/// such a walk follows every jump into other functions.
const MAX_UNBOUNDED: usize = 512;

/// Maximum number of stretches of code that are kept for one function.
const MAX_PATHS: usize = 256;

/// Maximum distance in bytes to the target of the call with which a retpoline begins.
const MAX_RETPOLINE: u64 = 32;

/// Jumps out of a function.
#[derive(Debug, Default)]
pub(super) struct Exits {
    pub(super) targets: Vec<u64>,
    /// Addresses of pointers beside the code that it jumps through, as entries of procedure linkage tables
    /// do.
    pub(super) pointers: Vec<u64>,
    /// True if a jump has an unknown target, or if not all of the code could be read.
    pub(super) is_open: bool,
    /// True if a path goes through a jump table.
    has_table: bool,
    /// Code on all paths, ascending, where the bounds of functions are unknown. `None` elsewhere.
    pub(super) paths: Option<Box<[Range<u64>]>>,
}

impl Exits {
    /// Returns false if no path leads to this address.
    pub(super) fn may_lead_to(&self, avma: u64) -> bool {
        (self.paths.as_deref()).is_none_or(|paths| paths.iter().any(|path| path.contains(&avma)))
    }
}

/// Returns true if two SVMAs belong to one function. Without call frame information the bounds of
/// functions are unknown: all code between two described functions counts as one.
pub(super) fn is_same_function(table: &UnwindTable, one: u64, other: u64) -> bool {
    match (table.function_start(one), table.function_start(other)) {
        (Some(one), Some(other)) => one == other,
        (None, None) => table.is_one_gap(one, other),
        _ => false,
    }
}

/// Destination of an instruction.
pub(super) enum Way {
    /// The next instruction.
    On,
    /// The next instruction, if the call returns.
    Call,
    Jump(u64),
    Conditional(u64),
    /// An address in a register or in memory.
    Table,
    /// The address in the pointer at this address.
    Pointer(u64),
    /// None: the function returns or fails.
    End,
}

/// An instruction on a path through a function.
pub(super) struct Step {
    way: Way,
    /// Address of the next instruction.
    next: u64,
    /// True if the instruction may lead to an unknown address outside of the function.
    is_open: bool,
}

/// Collects the jumps out of a function, on all paths from its start. A short walk keeps its paths.
pub(super) fn find_exits(
    function: u64,
    modules: &dyn Modules,
    (table, bias): (&UnwindTable, u64),
    is_short: bool,
) -> Exits {
    let leaves = |target: u64| {
        let (start, target) = (function.wrapping_sub(bias), target.wrapping_sub(bias));
        !is_same_function(table, start, target)
    };
    let ends = |next: u64| leaves(next) || table.begins_behind_call(next.wrapping_sub(bias));
    let module = Module {
        table: Some(table),
        bias,
    };
    let limit = if is_short {
        MAX_UNBOUNDED
    } else {
        MAX_INSTRUCTIONS
    };
    let mut piece = Piece::default();
    let mut exits = match table.arch() {
        Arch::Aarch64 => walk(function, limit, (leaves, ends), |ip, calls| {
            Some(aarch64_step(ip, word_at(ip, module, modules)?, calls))
        }),
        arch => walk(function, limit, (leaves, ends), |ip, pushed| {
            let instruction = piece.decode(arch, ip, module, modules);
            *pushed = pushed_after(arch, &instruction, *pushed);
            (!instruction.is_invalid()).then(|| x86_step(arch, &instruction, pushed))
        }),
    };
    if exits.has_table {
        for path in exits.paths.iter_mut().flatten() {
            // The table leads on within the function.
            let next = table.next_start(path.start.wrapping_sub(bias));
            path.end = next.map_or(u64::MAX, |next| path.end.max(next.wrapping_add(bias)));
        }
    }
    exits
        .paths
        .take_if(|paths| !is_short || paths.len() > MAX_PATHS);
    exits
}

/// Follows all paths from the start of a function, up to `limit` instructions. `leaves` returns true for
/// addresses outside of the function, and `ends` for addresses that no call returns to. `step` decodes
/// an instruction, and updates the size of the frame in bytes.
pub(super) fn walk(
    function: u64,
    limit: usize,
    (leaves, ends): (impl Fn(u64) -> bool, impl Fn(u64) -> bool),
    mut step: impl FnMut(u64, &mut i64) -> Option<Step>,
) -> Exits {
    let mut exits = Exits::default();
    let mut seen = FxHashSet::default();
    let mut paths = Vec::new();
    // Each with the size of the frame.
    let mut waiting = vec![(function, 0_i64)];
    while let Some((mut ip, mut pushed)) = waiting.pop() {
        while seen.insert(ip) {
            let step = step(ip, &mut pushed).filter(|_| seen.len() <= limit);
            let Some(Step { way, next, is_open }) = step else {
                exits.is_open = true;
                return exits;
            };
            exits.is_open |= is_open;
            exits.has_table |= matches!(way, Way::Table | Way::Pointer(_));
            paths.push(ip..next);
            match way {
                Way::Jump(target) | Way::Conditional(target) => match leaves(target) {
                    true => exits.targets.push(target),
                    false => waiting.push((target, pushed)),
                },
                Way::Pointer(slot) => exits.pointers.push(slot),
                Way::On | Way::Call | Way::Table | Way::End => {}
            }
            let goes_on = match way {
                Way::On | Way::Conditional(_) => {
                    // In glibc, the description of `clone3` ends before its system call.
                    let falls_out = leaves(next);
                    exits.targets.extend(falls_out.then_some(next));
                    !falls_out
                }
                // A function may end with a call that does not return.
                Way::Call => !ends(next),
                Way::Jump(_) | Way::Table | Way::Pointer(_) | Way::End => false,
            };
            if !goes_on {
                break;
            }
            ip = next;
        }
    }
    exits.targets.sort_unstable();
    exits.targets.dedup();
    paths.sort_unstable_by_key(|path: &Range<u64>| path.start);
    paths.dedup_by(|next, path| {
        let goes_on = next.start == path.end;
        if goes_on {
            path.end = next.end;
        }
        goes_on
    });
    exits.paths = Some(paths.into());
    exits
}

/// Decodes an instruction of AArch64. A jump to an address in a register is open: a jump table cannot
/// be told from a tail call. `calls` is 1 while the link register has the return address of a call.
/// Code that saves it belongs to the next function, since the call did not return.
fn aarch64_step(ip: u64, word: u32, calls: &mut i64) -> Step {
    let (branch, link) = (Branch::decode(word, ip), LinkUse::decode(word));
    let way = match branch {
        None if *calls == 1 && link == Some(LinkUse::Saved) => Way::End,
        None => Way::On,
        Some(Branch::Call(_)) => Way::Call,
        Some(Branch::Jump(target)) => Way::Jump(target),
        Some(Branch::Conditional(target)) => Way::Conditional(target),
        Some(Branch::Indirect(_)) => Way::Table,
        Some(Branch::Return(_)) => Way::End,
    };
    *calls = match (&way, link) {
        (Way::Call, _) => 1,
        (_, Some(LinkUse::Restored)) => 0,
        _ => *calls,
    };
    Step {
        way,
        next: ip.wrapping_add(4),
        is_open: matches!(branch, Some(Branch::Indirect(_))),
    }
}

/// Returns the step of an x86 instruction. `pushed` is the size of the frame behind it.
pub(super) fn x86_step(arch: Arch, instruction: &Instruction, pushed: &mut i64) -> Step {
    let (target, next) = (instruction.near_branch_target(), instruction.next_ip());
    let mut is_open = false;
    let way = match instruction.flow_control() {
        FlowControl::Next => Way::On,
        // `int 0x80`, the system call of i386.
        FlowControl::Interrupt if instruction.mnemonic() == Mnemonic::Int => Way::On,
        FlowControl::Call if instruction.mnemonic() != Mnemonic::Call => Way::On,
        FlowControl::Call if pushes_own_address(instruction) => {
            *pushed = pushed.saturating_add(arch.word_size() as i64);
            Way::On
        }
        FlowControl::Call => {
            // A retpoline returns to an address that it has written itself.
            is_open = target.wrapping_sub(next) < MAX_RETPOLINE;
            Way::Call
        }
        FlowControl::IndirectCall => Way::Call,
        FlowControl::ConditionalBranch => Way::Conditional(target),
        FlowControl::UnconditionalBranch => Way::Jump(target),
        // The return address has been popped (`-mlvi-cfi`).
        FlowControl::IndirectBranch
            if *pushed == -(arch.word_size() as i64)
                && instruction.op0_kind() == OpKind::Register =>
        {
            Way::End
        }
        FlowControl::IndirectBranch => {
            // With a frame on the stack it goes through a jump table.
            is_open = *pushed <= 0 || is_plt_jump(arch, instruction);
            match instruction.is_ip_rel_memory_operand() {
                true => Way::Pointer(instruction.ip_rel_memory_address()),
                false => Way::Table,
            }
        }
        _ => Way::End,
    };
    Step { way, next, is_open }
}

/// Returns the size in bytes of the frame after an instruction; `pushed` is the size before it.
pub(super) fn pushed_after(arch: Arch, instruction: &Instruction, pushed: i64) -> i64 {
    let word = arch.word_size() as i64;
    let is_stack_pointer = instruction.op_count() > 0
        && instruction.op0_kind() == OpKind::Register
        && instruction.op0_register() == arch.sp_operand();
    let by = |sign: i64| match instruction.op1_kind() {
        OpKind::Immediate8to64
        | OpKind::Immediate32to64
        | OpKind::Immediate8to32
        | OpKind::Immediate32 => {
            let by = arch.signed(instruction.immediate(1));
            pushed.saturating_add(sign.saturating_mul(by))
        }
        // A variable length, as of `alloca`.
        _ => pushed.saturating_add(word),
    };
    match instruction.mnemonic() {
        Mnemonic::Leave => 0,
        Mnemonic::Sub if is_stack_pointer => by(1),
        Mnemonic::Add if is_stack_pointer => by(-1),
        // `mov rsp, rbp`: the saved frame pointer remains.
        Mnemonic::Mov | Mnemonic::Lea if is_stack_pointer => word,
        Mnemonic::Call => pushed,
        _ => pushed.saturating_sub(instruction.stack_pointer_increment().into()),
    }
}
