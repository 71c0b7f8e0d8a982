//! [`CallEdges`]: checks whether the call before a return address can have led to the frame below it.
//!
//! A frame pointer that points up the stack to a return address proves little. In code without a
//! frame of its own, the register belongs to the caller, and following it skips that caller. The call
//! decides: a direct call names its target, and the frame below must lie in the target, or in a
//! function that the target jumps to.
//!
//! Indirect calls, procedure linkage tables and code without an image pass the check.

use std::cell::RefCell;
use std::sync::Arc;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use crate::branch::Branch;
use crate::simulate::{is_plt_jump, pushes_own_address};
use crate::{Arch, Modules, UnwindTable, code};

/// Maximum number of cached answers of one kind.
const MAX_CACHED: usize = 1 << 14;

/// Maximum number of instructions that are decoded to find the jumps out of one function.
const MAX_INSTRUCTIONS: usize = 1 << 16;

/// Maximum number of functions that are followed from jump to jump.
const MAX_FUNCTIONS: usize = 16;

/// Bytes that are read at a time.
const PIECE: usize = 256;

/// Maximum length in bytes of an instruction.
const MAX_INSTRUCTION: usize = 15;

/// Maximum distance in bytes to the target of the call with which a retpoline begins.
const MAX_RETPOLINE: u64 = 32;

/// Checks of calls, cached by state of the mappings ([`Modules::generation`]).
#[derive(Debug, Clone)]
pub(crate) struct CallEdges {
    /// By generation, return address and address below.
    edges: RefCell<FxHashMap<[u64; 3], bool>>,
    /// By generation and address.
    exits: RefCell<FxHashMap<[u64; 2], Arc<Exits>>>,
}

/// Jumps out of a function.
#[derive(Debug, Default)]
struct Exits {
    targets: Vec<u64>,
    /// True if a jump has an unknown target, or if not all of the code could be read.
    is_open: bool,
}

impl CallEdges {
    pub(crate) const fn new() -> Self {
        Self {
            edges: RefCell::new(FxHashMap::with_hasher(FxBuildHasher)),
            exits: RefCell::new(FxHashMap::with_hasher(FxBuildHasher)),
        }
    }

    /// Returns false if the call before `return_address` cannot have led to the code at `below`.
    pub(crate) fn is_possible<P: Modules + ?Sized>(
        &self,
        return_address: u64,
        below: u64,
        modules: &P,
    ) -> bool {
        let key = (modules.generation()).map(|generation| [generation, return_address, below]);
        if let Some(known) = key.and_then(|key| self.edges.borrow().get(&key).copied()) {
            return known;
        }
        let Some(target) = call_target(return_address, modules).flatten() else {
            return true;
        };
        let is_possible = self.leads_to(target, below, modules);
        if let Some(key) = key {
            insert(&self.edges, key, is_possible);
        }
        is_possible
    }

    /// Returns true if the code at `below` belongs to the function at `target`, or to one that it jumps to.
    fn leads_to<P: Modules + ?Sized>(&self, target: u64, below: u64, modules: &P) -> bool {
        let image = modules.find(below);
        let mut functions = vec![target];
        let mut next = 0;
        while let Some(&function) = functions.get(next) {
            next += 1;
            let module = modules.find(function);
            let Some((table, bias)) = module.and_then(|module| Some((module.table?, module.bias)))
            else {
                return true;
            };
            let svma = function.wrapping_sub(bias);
            let is_same_image = image.is_some_and(|image| {
                image.bias == bias && image.table.is_some_and(|other| std::ptr::eq(other, table))
            });
            if table.is_plt(svma)
                || (is_same_image && is_same_function(table, svma, below.wrapping_sub(bias)))
            {
                return true;
            }
            let exits = self.exits(function, modules, (table, bias));
            if exits.is_open {
                return true;
            }
            for exit in &exits.targets {
                if !functions.contains(exit) {
                    functions.push(*exit);
                }
            }
            if functions.len() > MAX_FUNCTIONS {
                return true;
            }
        }
        false
    }

    fn exits<P: Modules + ?Sized>(
        &self,
        function: u64,
        modules: &P,
        image: (&UnwindTable, u64),
    ) -> Arc<Exits> {
        let key = (modules.generation()).map(|generation| [generation, function]);
        if let Some(known) = key.and_then(|key| self.exits.borrow().get(&key).cloned()) {
            return known;
        }
        let exits = Arc::new(find_exits(function, modules, image));
        if let Some(key) = key {
            insert(&self.exits, key, Arc::clone(&exits));
        }
        exits
    }
}

fn insert<const N: usize, T>(cache: &RefCell<FxHashMap<[u64; N], T>>, key: [u64; N], value: T) {
    let mut cache = cache.borrow_mut();
    if cache.len() >= MAX_CACHED {
        cache.clear();
    }
    cache.insert(key, value);
}

/// Returns true if two SVMAs belong to one function. Without call frame information the bounds of
/// functions are unknown: all code between two described functions counts as one.
fn is_same_function(table: &UnwindTable, one: u64, other: u64) -> bool {
    match (table.function_start(one), table.function_start(other)) {
        (Some(one), Some(other)) => one == other,
        (None, None) => table.is_one_gap(one, other),
        _ => false,
    }
}

/// Returns the target of a direct call before a return address: `Some(None)` for other code, `None`
/// if it is unreadable.
pub(crate) fn call_target<P: Modules + ?Sized>(
    return_address: u64,
    modules: &P,
) -> Option<Option<u64>> {
    let module = modules.find(return_address.checked_sub(1)?)?;
    let Some(table) = module.table else {
        return Some(None);
    };
    if table.arch() == Arch::Aarch64 {
        let call = return_address.checked_sub(4)?;
        let word = word_at(call, modules)?;
        return Some(match Branch::decode(word, call) {
            Some(Branch::Call(target)) => target,
            _ => None,
        });
    }
    let mut before = [0; code::LONGEST_CALL];
    let start = return_address.checked_sub(before.len() as u64)?;
    let is_known = modules.code(start, &mut before) == before.len();
    is_known.then(|| {
        let distance = code::direct_call(&before)?;
        Some(return_address.wrapping_add_signed(distance.into()))
    })
}

fn word_at<P: Modules + ?Sized>(avma: u64, modules: &P) -> Option<u32> {
    let mut bytes = [0; 4];
    (modules.code(avma, &mut bytes) == bytes.len()).then(|| u32::from_le_bytes(bytes))
}

/// Collects the jumps out of a function of AArch64. A jump to an address in a register is open: a
/// jump table cannot be told from a tail call.
fn find_aarch64_exits<P: Modules + ?Sized>(
    function: u64,
    modules: &P,
    leaves: impl Fn(u64) -> bool,
) -> Exits {
    let mut exits = Exits::default();
    let mut seen = FxHashSet::default();
    let mut waiting = vec![function];
    while let Some(mut ip) = waiting.pop() {
        while seen.insert(ip) {
            let Some(word) = word_at(ip, modules).filter(|_| seen.len() <= MAX_INSTRUCTIONS) else {
                exits.is_open = true;
                return exits;
            };
            let branch = Branch::decode(word, ip);
            match branch {
                Some(Branch::Jump(target) | Branch::Conditional(target)) => match leaves(target) {
                    true => exits.targets.push(target),
                    false => waiting.push(target),
                },
                Some(Branch::Indirect(_)) => exits.is_open = true,
                Some(Branch::Call(_) | Branch::Return(_)) | None => {}
            }
            if !matches!(
                branch,
                None | Some(Branch::Call(_) | Branch::Conditional(_))
            ) {
                break;
            }
            ip = ip.wrapping_add(4);
            // A function may end with a call that does not return.
            if matches!(branch, Some(Branch::Call(_))) && leaves(ip) {
                break;
            }
        }
    }
    exits.targets.sort_unstable();
    exits.targets.dedup();
    exits
}

/// Collects the jumps out of a function, on all paths from its start.
fn find_exits<P: Modules + ?Sized>(
    function: u64,
    modules: &P,
    (table, bias): (&UnwindTable, u64),
) -> Exits {
    let arch = table.arch();
    let leaves = |target: u64| {
        let (start, target) = (function.wrapping_sub(bias), target.wrapping_sub(bias));
        !is_same_function(table, start, target)
    };
    if arch == Arch::Aarch64 {
        return find_aarch64_exits(function, modules, leaves);
    }
    let mut exits = Exits::default();
    let mut seen = FxHashSet::default();
    // Each with the size of the frame in bytes.
    let mut waiting = vec![(function, 0_i64)];
    let mut piece = Piece::default();
    while let Some((mut ip, mut pushed)) = waiting.pop() {
        while seen.insert(ip) {
            let instruction = piece.decode(arch, ip, modules);
            if instruction.is_invalid() || seen.len() > MAX_INSTRUCTIONS {
                exits.is_open = true;
                return exits;
            }
            pushed = pushed_after(arch, &instruction, pushed);
            let target = instruction.near_branch_target();
            let flow = instruction.flow_control();
            match flow {
                FlowControl::Next | FlowControl::IndirectCall => {}
                FlowControl::Call if pushes_own_address(&instruction) => {
                    pushed = pushed.saturating_add(arch.word_size() as i64);
                }
                FlowControl::Call => {
                    // A retpoline returns to an address that it has written itself.
                    let ahead = target.wrapping_sub(instruction.next_ip());
                    exits.is_open |= ahead < MAX_RETPOLINE;
                }
                FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => {
                    if leaves(target) {
                        exits.targets.push(target);
                    } else {
                        waiting.push((target, pushed));
                    }
                }
                // With a frame on the stack it goes through a jump table.
                FlowControl::IndirectBranch => {
                    exits.is_open |= pushed <= 0 || is_plt_jump(arch, &instruction);
                }
                _ => {}
            }
            if !matches!(
                flow,
                FlowControl::Next
                    | FlowControl::IndirectCall
                    | FlowControl::Call
                    | FlowControl::ConditionalBranch
            ) {
                break;
            }
            ip = instruction.next_ip();
        }
    }
    exits.targets.sort_unstable();
    exits.targets.dedup();
    exits
}

/// Returns the size in bytes of the frame after an instruction; `pushed` is the size before it.
fn pushed_after(arch: Arch, instruction: &Instruction, pushed: i64) -> i64 {
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

/// The piece of code that was read last.
#[derive(Default)]
struct Piece {
    start: u64,
    bytes: Vec<u8>,
}

impl Piece {
    fn decode<P: Modules + ?Sized>(&mut self, arch: Arch, ip: u64, modules: &P) -> Instruction {
        let within = |start: u64| usize::try_from(ip.wrapping_sub(start)).unwrap_or(usize::MAX);
        if self.bytes.len().saturating_sub(within(self.start)) < MAX_INSTRUCTION {
            self.start = ip;
            self.bytes.resize(PIECE, 0);
            let len = modules.code(ip, &mut self.bytes);
            self.bytes.truncate(len);
        }
        let bytes = self.bytes.get(within(self.start)..).unwrap_or(&[]);
        Decoder::with_ip(arch.bits(), bytes, ip, DecoderOptions::NONE).decode()
    }
}
