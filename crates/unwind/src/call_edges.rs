//! [`CallEdges`]: checks whether the call before a return address can have led to the frame below it.
//!
//! A frame pointer that points up the stack to a return address proves little. In code without a
//! frame of its own, the register belongs to the caller, and following it skips that caller. The call
//! decides: a direct call names its target, and the frame below must lie in the target, or in a
//! function that the target jumps to.
//!
//! Indirect calls, unreadable procedure linkage tables and code without an image pass the check.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use crate::branch::{Branch, LinkUse};
use crate::cache::PlainRule;
use crate::modules::{
    Piece, any_call_target, call_target, is_image_of, linkage_slot, pointer, read_code, word_at,
};
use crate::simulate::{is_plt_jump, pushes_own_address};
use crate::table::Found;
use crate::{Arch, Module, Modules, UnwindTable, code};

/// Maximum number of cached answers of one kind.
const MAX_CACHED: usize = 1 << 14;

/// Maximum number of instructions that are decoded to find the jumps out of one function.
const MAX_INSTRUCTIONS: usize = 1 << 16;

/// Maximum number of instructions that are decoded where the bounds of functions are unknown, since
/// such a walk follows every jump into other functions.
const MAX_UNBOUNDED: usize = 512;

/// Maximum number of instructions from an entry to a place whose stack depth is wanted.
const MAX_PROLOGUE: usize = 64;

/// Maximum size in bytes of assembly that is searched for returns.
const MAX_ASSEMBLY: u64 = 1 << 16;

/// Maximum number of functions that are followed from jump to jump.
const MAX_FUNCTIONS: usize = 16;

/// Maximum number of stretches of code that are kept for one function.
const MAX_PATHS: usize = 256;

/// Usual alignment of functions in bytes.
const ALIGNMENT: u64 = 16;

/// Maximum distance in bytes to the target of the call with which a retpoline begins.
const MAX_RETPOLINE: u64 = 32;

/// Checks of calls, cached by state of the mappings ([`Modules::generation`]).
#[derive(Debug, Clone)]
pub(crate) struct CallEdges {
    /// By generation, return address and address below.
    edges: RefCell<FxHashMap<[u64; 3], bool>>,
    /// By generation and address. The highest bit of the address is set for short walks.
    exits: RefCell<FxHashMap<[u64; 2], Arc<Exits>>>,
    /// By generation and address of a function.
    shared: RefCell<FxHashMap<[u64; 2], bool>>,
}

/// Jumps out of a function.
#[derive(Debug, Default)]
struct Exits {
    targets: Vec<u64>,
    /// True if a jump has an unknown target, or if not all of the code could be read.
    is_open: bool,
    /// Code on all paths, ascending, where the bounds of functions are unknown. `None` elsewhere, and
    /// if a path goes through a jump table.
    paths: Option<Box<[Range<u64>]>>,
}

impl Exits {
    /// Returns false if no path leads to this address.
    fn may_lead_to(&self, avma: u64) -> bool {
        (self.paths.as_deref()).is_none_or(|paths| paths.iter().any(|path| path.contains(&avma)))
    }
}

impl CallEdges {
    pub(crate) const fn new() -> Self {
        Self {
            edges: RefCell::new(FxHashMap::with_hasher(FxBuildHasher)),
            exits: RefCell::new(FxHashMap::with_hasher(FxBuildHasher)),
            shared: RefCell::new(FxHashMap::with_hasher(FxBuildHasher)),
        }
    }

    /// Returns false if the call before `return_address` cannot have led to the code at `below`.
    pub(crate) fn is_possible(
        &self,
        return_address: u64,
        below: u64,
        modules: &dyn Modules,
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
    fn leads_to(&self, target: u64, below: u64, modules: &dyn Modules) -> bool {
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
            let is_same_image = is_image_of(below, (table, bias), modules);
            let is_same = is_same_image && is_same_function(table, svma, below.wrapping_sub(bias));
            let has_bounds = is_same && table.function_start(svma).is_some();
            if has_bounds {
                return true;
            }
            if table.is_plt(svma) {
                match linked_function(function, below, (table, bias), modules) {
                    Some(linked) if functions.len() < MAX_FUNCTIONS => functions.push(linked),
                    _ => return true,
                }
                continue;
            }
            let exits = self.exits(function, modules, (table, bias), is_same);
            let call_end = below.wrapping_add(1);
            let is_next = is_same && begins_behind_call(function, call_end, (table, bias), modules);
            let may_lead = is_same && exits.may_lead_to(below);
            if is_next && exits.paths.is_none() {
                return false;
            }
            if may_lead || (exits.is_open && !is_next) {
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

    /// Returns true if code with one rule is several functions, some without the frame of the rule: a
    /// return stands where the frame would still be on the stack. `start` is an SVMA. For x86.
    pub(crate) fn shares_rule(
        &self,
        start: u64,
        (table, bias): (&UnwindTable, u64),
        modules: &dyn Modules,
    ) -> bool {
        let avma = start.wrapping_add(bias);
        let key = (modules.generation()).map(|generation| [generation, avma]);
        if let Some(known) = key.and_then(|key| self.shared.borrow().get(&key).copied()) {
            return known;
        }
        let is_shared = returns_with_frame(start, (table, bias), modules);
        if let Some(key) = key {
            insert(&self.shared, key, is_shared);
        }
        is_shared
    }

    /// Returns true if the call before `return_address` leads to the frame at `below`, by straight code with
    /// `depth` bytes on the stack above the return address. Both are in one function with a rule.
    pub(crate) fn leads_with_depth(
        &self,
        return_address: u64,
        (below, depth): (u64, u64),
        (table, bias): (&UnwindTable, u64),
        modules: &dyn Modules,
    ) -> bool {
        let start = |avma: u64| table.function_start(avma.wrapping_sub(bias));
        let Some(target) = any_call_target(return_address, modules) else {
            return false;
        };
        let depths = |entry: u64| {
            start(entry) == start(below)
                && depth_at(entry, below, (table, bias), modules) == Some(depth)
        };
        if !is_image_of(target, (table, bias), modules) {
            return false;
        }
        depths(target)
            || (start(target) != start(below)
                && (self.exits(target, modules, (table, bias), false).targets)
                    .iter()
                    .any(|entry| depths(*entry)))
    }

    fn exits(
        &self,
        function: u64,
        modules: &dyn Modules,
        image: (&UnwindTable, u64),
        is_short: bool,
    ) -> Arc<Exits> {
        let key = function ^ (u64::from(is_short) << 63);
        let key = (modules.generation()).map(|generation| [generation, key]);
        if let Some(known) = key.and_then(|key| self.exits.borrow().get(&key).cloned()) {
            return known;
        }
        let exits = Arc::new(find_exits(function, modules, image, is_short));
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

/// Maximum distance in bytes from a call that does not return to the next function: another such call
/// may follow it, as of `__stack_chk_fail`.
const MAX_BEHIND_CALL: usize = 5 + ALIGNMENT as usize;

/// Returns true if the call that ends at `call_end` cannot return: only padding and calls are between
/// it and the start of the next function. For x86.
fn begins_behind_call(
    function: u64,
    call_end: u64,
    (table, bias): (&UnwindTable, u64),
    modules: &dyn Modules,
) -> bool {
    let padding = function.wrapping_sub(call_end);
    if padding >= MAX_BEHIND_CALL as u64 || !table.arch().is_x86() {
        return false;
    }
    let module = Module {
        table: Some(table),
        bias,
    };
    let mut bytes = [0; code::LONGEST_CALL + MAX_BEHIND_CALL];
    let start = call_end.wrapping_sub(code::LONGEST_CALL as u64);
    let len = code::LONGEST_CALL + padding as usize;
    let Some(bytes) = bytes.get_mut(..len) else {
        return false;
    };
    if read_code(module, modules, start, bytes) < len {
        return false;
    }
    let (call, padding) = bytes.split_at(code::LONGEST_CALL);
    let mut padding = Decoder::new(table.arch().bits(), padding, DecoderOptions::NONE);
    code::ends_with_call(call)
        && padding.iter().all(|instruction| {
            matches!(
                instruction.mnemonic(),
                Mnemonic::Nop | Mnemonic::Int3 | Mnemonic::Call
            )
        })
}

/// Returns the function that an entry of a procedure linkage table of x86-64 calls, if the entry is
/// bound. The function and `below` must be in one library, which is not the image of the entry. `None`
/// if call frame information describes `below`: it may be the function that binds entries.
fn linked_function(
    entry: u64,
    below: u64,
    (table, bias): (&UnwindTable, u64),
    modules: &dyn Modules,
) -> Option<u64> {
    let slot = linkage_slot(entry, modules).filter(|_| table.arch() == Arch::X86_64)?;
    let linked = pointer(slot, modules)?;
    let library = modules.find(linked)?;
    let image = (library.table?, library.bias);
    let is_undescribed =
        is_image_of(below, image, modules) && !image.0.covers(below.wrapping_sub(image.1));
    (is_undescribed && !is_image_of(linked, (table, bias), modules)).then_some(linked)
}

/// Returns the number of bytes on the stack above the return address at a place in a function, by
/// straight code from its entry. For x86.
fn depth_at(
    entry: u64,
    place: u64,
    (table, bias): (&UnwindTable, u64),
    modules: &dyn Modules,
) -> Option<u64> {
    let (arch, mut piece, mut found) = (table.arch(), Piece::default(), None);
    let module = Module {
        table: Some(table),
        bias,
    };
    let start = table.function_start(entry.wrapping_sub(bias));
    let leaves = |target: u64| table.function_start(target.wrapping_sub(bias)) != start;
    walk(entry, MAX_PROLOGUE, leaves, |ip, pushed| {
        if ip == place {
            found = Some(*pushed);
            return None;
        }
        let instruction = piece.decode(arch, ip, module, modules);
        *pushed = pushed_after(arch, &instruction, *pushed);
        (!instruction.is_invalid()).then(|| x86_step(arch, &instruction, pushed))
    });
    found.and_then(|depth| u64::try_from(depth).ok())
}

/// Returns true if a return stands where the rule has a frame, from the first instruction on.
fn returns_with_frame(
    start: u64,
    (table, bias): (&UnwindTable, u64),
    modules: &dyn Modules,
) -> bool {
    let arch = table.arch();
    let frame_size = |svma| match table.find(svma) {
        Found::Rule(rule) => PlainRule::new(rule, arch, false)?.frame_size(arch),
        _ => None,
    };
    if !arch.is_x86() || frame_size(start).is_none_or(|size| size == 0) {
        return false;
    }
    let module = Module {
        table: Some(table),
        bias,
    };
    let mut piece = Piece::default();
    let mut ip = start.wrapping_add(bias);
    let end = ip.saturating_add(MAX_ASSEMBLY);
    while ip < end {
        let svma = ip.wrapping_sub(bias);
        let instruction = piece.decode(arch, ip, module, modules);
        if instruction.is_invalid() {
            return false;
        }
        if instruction.flow_control() == FlowControl::Return {
            if table.function_start(svma) != Some(start) {
                return false;
            }
            if frame_size(svma).is_some_and(|size| size > 0) {
                return true;
            }
        }
        ip = instruction.next_ip();
    }
    false
}

/// Destination of an instruction.
enum Way {
    /// The next instruction.
    On,
    /// The next instruction, if the call returns.
    Call,
    Jump(u64),
    Conditional(u64),
    /// An address in a register or in memory.
    Table,
    /// None: the function returns or fails.
    End,
}

/// An instruction on a path through a function.
struct Step {
    way: Way,
    /// Address of the next instruction.
    next: u64,
    /// True if the instruction may lead to an unknown address outside of the function.
    is_open: bool,
}

/// Collects the jumps out of a function, on all paths from its start. A short walk keeps its paths.
fn find_exits(
    function: u64,
    modules: &dyn Modules,
    (table, bias): (&UnwindTable, u64),
    is_short: bool,
) -> Exits {
    let leaves = |target: u64| {
        let (start, target) = (function.wrapping_sub(bias), target.wrapping_sub(bias));
        !is_same_function(table, start, target)
    };
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
        Arch::Aarch64 => walk(function, limit, leaves, |ip, calls| {
            Some(aarch64_step(ip, word_at(ip, module, modules)?, calls))
        }),
        arch => walk(function, limit, leaves, |ip, pushed| {
            let instruction = piece.decode(arch, ip, module, modules);
            *pushed = pushed_after(arch, &instruction, *pushed);
            (!instruction.is_invalid()).then(|| x86_step(arch, &instruction, pushed))
        }),
    };
    exits
        .paths
        .take_if(|paths| !is_short || paths.len() > MAX_PATHS);
    exits
}

/// Follows all paths from the start of a function, up to `limit` instructions. `step` decodes an
/// instruction, and updates the size of the frame in bytes.
fn walk(
    function: u64,
    limit: usize,
    leaves: impl Fn(u64) -> bool,
    mut step: impl FnMut(u64, &mut i64) -> Option<Step>,
) -> Exits {
    let mut exits = Exits::default();
    let mut seen = FxHashSet::default();
    let mut paths = Vec::new();
    let mut has_table = false;
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
            has_table |= matches!(way, Way::Table);
            paths.push(ip..next);
            match way {
                Way::Jump(target) | Way::Conditional(target) => match leaves(target) {
                    true => exits.targets.push(target),
                    false => waiting.push((target, pushed)),
                },
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
                Way::Call => !leaves(next),
                Way::Jump(_) | Way::Table | Way::End => false,
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
    exits.paths = (!has_table).then(|| paths.into());
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
fn x86_step(arch: Arch, instruction: &Instruction, pushed: &mut i64) -> Step {
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
        FlowControl::IndirectBranch => {
            // With a frame on the stack it goes through a jump table.
            is_open = *pushed <= 0 || is_plt_jump(arch, instruction);
            Way::Table
        }
        _ => Way::End,
    };
    Step { way, next, is_open }
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
