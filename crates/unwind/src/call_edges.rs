//! [`CallEdges`]: checks whether the call before a return address can have led to the frame below it.
//!
//! A frame pointer that points up the stack to a return address proves little. In code without a
//! frame of its own, the register belongs to the caller, and following it skips that caller. The call
//! decides: a direct call names its target, and the frame below must lie in the target, or in a
//! function that the target jumps to.
//!
//! Indirect calls, unreadable procedure linkage tables and code without an image pass the check.

mod exits;

use std::cell::RefCell;
use std::sync::Arc;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Mnemonic};
use rustc_hash::{FxBuildHasher, FxHashMap};

use self::exits::{Exits, find_exits, is_same_function, pushed_after, walk, x86_step};
use crate::cache::PlainRule;
use crate::modules::{
    Piece, any_call_target, call_target, is_image_of, linkage_slot, pointer, read_code,
};
use crate::table::Found;
use crate::{Arch, Module, Modules, UnwindTable, code};

/// Maximum number of cached answers of one kind.
const MAX_CACHED: usize = 1 << 14;

/// Maximum number of instructions from an entry to a place whose stack depth is wanted.
const MAX_TO_PLACE: usize = 64;

/// Maximum size in bytes of assembly that is searched for returns.
const MAX_ASSEMBLY: u64 = 1 << 16;

/// Maximum number of functions that are followed from jump to jump.
const MAX_FUNCTIONS: usize = 16;

/// Usual alignment of functions in bytes.
const ALIGNMENT: u64 = 16;

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
        let mut is_final = true;
        let is_possible = self.leads_to(target, below, modules, &mut is_final);
        if let Some(key) = key.filter(|_| is_final) {
            insert(&self.edges, key, is_possible);
        }
        is_possible
    }

    /// Returns true if the code at `below` belongs to the function at `target`, or to one that it jumps to.
    /// Sets `is_final` to false if the dynamic linker may change this.
    fn leads_to(
        &self,
        target: u64,
        below: u64,
        modules: &dyn Modules,
        is_final: &mut bool,
    ) -> bool {
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
                    Linked::Function(linked) if functions.len() < MAX_FUNCTIONS => {
                        functions.push(linked);
                    }
                    Linked::Unbound => *is_final = false,
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

    /// Returns true if the code at `from` jumps to the function that starts at `function`: all targets on
    /// the way are known. Tail calls and entries of procedure linkage tables are such jumps.
    pub(crate) fn jumps_to(&self, from: u64, function: u64, modules: &dyn Modules) -> bool {
        let mut functions = vec![from];
        let mut next = 0;
        while let Some(&at) = functions.get(next).filter(|_| next < MAX_FUNCTIONS) {
            if at == function {
                return true;
            }
            next += 1;
            let module = modules.find(at);
            let Some((table, bias)) = module.and_then(|module| Some((module.table?, module.bias)))
            else {
                continue;
            };
            let exits = self.exits(at, modules, (table, bias), false);
            let pointed = exits.pointers.iter();
            let pointed = pointed.filter_map(|slot| pointer(*slot, modules));
            for exit in exits.targets.iter().copied().chain(pointed) {
                if !functions.contains(&exit) {
                    functions.push(exit);
                }
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

/// Destination of an entry of a procedure linkage table.
enum Linked {
    Function(u64),
    /// None yet: the first call goes to the dynamic linker.
    Unbound,
    Unknown,
}

/// Returns the function that an entry of a procedure linkage table of x86-64 calls. `below` must be in
/// the image of the entry, or code of the function's library without call frame information. Other code of
/// the library may be the function that binds entries.
fn linked_function(
    entry: u64,
    below: u64,
    (table, bias): (&UnwindTable, u64),
    modules: &dyn Modules,
) -> Linked {
    let slot = linkage_slot(entry, modules).filter(|_| table.arch() == Arch::X86_64);
    let Some(linked) = slot.and_then(|slot| pointer(slot, modules)) else {
        return Linked::Unknown;
    };
    let is_own =
        is_image_of(below, (table, bias), modules) && !table.is_plt(below.wrapping_sub(bias));
    if is_image_of(linked, (table, bias), modules) {
        return match table.is_plt(linked.wrapping_sub(bias)) {
            _ if !is_own => Linked::Unknown,
            true => Linked::Unbound,
            false => Linked::Function(linked),
        };
    }
    let library = modules.find(linked);
    let image = library.and_then(|library| Some((library.table?, library.bias)));
    let is_undescribed = image.is_some_and(|image| {
        is_image_of(below, image, modules) && !image.0.covers(below.wrapping_sub(image.1))
    });
    match image.is_some() && (is_undescribed || is_own) {
        true => Linked::Function(linked),
        false => Linked::Unknown,
    }
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
    walk(entry, MAX_TO_PLACE, (leaves, leaves), |ip, pushed| {
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
