//! Go: finds the callers on the stack that the runtime left.
//!
//! A goroutine's stack is in the heap. `systemstack`, `asmcgocall`, C callbacks and vDSO calls run
//! on the thread's own stack, or again on the goroutine's: see [`Switch`]. No stack copy contains
//! both. Two sources describe the other stack:
//!
//! - The kernel's frame pointer chain ([`Memory::frame_pointer_chain`]), since Go code links frames
//!   across stacks. Outside the copy, its return addresses are the callers. Each must be in code
//!   that keeps frame pointers and, if readable, follow a call of the function below it. The chain
//!   omits the caller of a frameless function such as `systemstack`. It is identified by its
//!   argument: only one call site loads the address of this callee ([`Site`]).
//! - The code after the call, for C code without frame pointers. `asmcgocall` saves the goroutine
//!   and the stack pointer's distance from the end of its stack.

use crate::arch::x86_64::{RBP, RSP};
use crate::call_edges::CallEdges;
use crate::code::SyntheticReturn;
use crate::modules::{call_target, may_be_behind_call};
use crate::simulate::{CodeSource, PathState, Stop};
use crate::step::Caller;
use crate::table::{Cfa, Found, Site, Switch, UnwindTable, Value};
use crate::{
    Arch, FoundBy, FrameKind, Memory, MissingWord, Module, Modules, Registers, Root, StackFrame,
    TruncationReason, UnwindOutcome, code,
};
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::cell::{Cell, RefCell};

/// Maximum number of instructions from call to return; `asmcgocall` has 7.
const MAX_BACK: usize = 24;

const MAX_FUNCTION: u64 = 1 << 20;

const MAX_KNOWN: usize = 1 << 14;

/// Caches by state of the mappings ([`Modules::generation`]): reading code and finding function starts
/// is slow.
#[derive(Debug, Clone)]
pub(crate) struct KnownCalls {
    arch: Arch,
    pub(crate) edges: CallEdges,
    /// Caller's addresses by the addresses of a frame, its callee and its caller's caller.
    direct: RefCell<FxHashMap<[u64; 4], u64>>,
}

impl KnownCalls {
    pub(crate) const fn new(arch: Arch) -> Self {
        Self {
            arch,
            edges: CallEdges::new(),
            direct: RefCell::new(FxHashMap::with_hasher(FxBuildHasher)),
        }
    }
}

fn remember<const N: usize, T>(known: &RefCell<FxHashMap<[u64; N], T>>, key: [u64; N], value: T) {
    let mut known = known.borrow_mut();
    if known.len() >= MAX_KNOWN {
        known.clear();
    }
    known.insert(key, value);
}

pub(crate) enum Beyond {
    /// The registers are the caller's.
    Caller(Caller, FoundBy),
    /// All remaining frames have been added.
    End(UnwindOutcome),
}

pub(crate) struct SwitchedFrame<'a> {
    pub(crate) memory: &'a dyn Memory,
    pub(crate) modules: &'a dyn Modules,
    pub(crate) code: &'a dyn CodeSource,
    pub(crate) table: &'a UnwindTable,
    pub(crate) bias: u64,
    pub(crate) switch: Switch,
    pub(crate) known: &'a KnownCalls,
    pub(crate) limit: usize,
}

impl SwitchedFrame<'_> {
    /// Continues from the last of `frames`. `registers` are that frame's.
    pub(crate) fn step(&self, registers: &mut Registers, frames: &mut Vec<StackFrame>) -> Beyond {
        let Some(&frame) = frames.last() else {
            return Beyond::End(UnwindOutcome::Complete(Root::SwitchedStack));
        };
        // The callee on the other stack restored it.
        let fp = registers.frame_pointer();
        let unknown = |missing| {
            let address = frame.address;
            let reason = TruncationReason::OtherStack { address, missing };
            Beyond::End(UnwindOutcome::Truncated(reason))
        };
        match self.switch {
            Switch::Never => Beyond::End(UnwindOutcome::Complete(Root::SwitchedStack)),
            // The callers are only in memory that `morestack` soon overwrites.
            Switch::Again => unknown(MissingWord::Unknown),
            Switch::OwnFrame => {
                let Some(fp) = fp else {
                    return unknown(MissingWord::Unknown);
                };
                if let Some(end) = by_chain(
                    fp,
                    None,
                    (self.memory, self.modules, self.known),
                    self.limit,
                    frames,
                ) {
                    return Beyond::End(end);
                }
                let slot = fp.wrapping_add(8);
                let (Some(saved), Some(address)) =
                    (self.memory.read_u64(fp), self.memory.read_u64(slot))
                else {
                    return unknown(MissingWord::ReturnAddress(slot));
                };
                if !self.is_code(address) {
                    return unknown(MissingWord::Unknown);
                }
                *registers = Registers::new(Arch::X86_64, address, fp.wrapping_add(16));
                registers.set(RBP, saved);
                Beyond::Caller(called(address, slot), FoundBy::FramePointer)
            }
            Switch::Back => {
                // The chain lacks this frame's caller, so it must be found first.
                if let Some(fp) = fp
                    && let Some(direct) = self.direct_caller(frames, fp)
                    && let Some(end) = by_chain(
                        fp,
                        Some(direct),
                        (self.memory, self.modules, self.known),
                        self.limit,
                        frames,
                    )
                {
                    return Beyond::End(end);
                }
                let memory = NotedMemory::new(self.memory);
                let mut path = PathState::new(registers);
                let stop = path.follow_straight(&memory, self.code, MAX_BACK, |_| false);
                match stop {
                    Stop::Return { address, slot } if self.is_code(address) => {
                        *registers = Registers::new(Arch::X86_64, address, slot.wrapping_add(8));
                        if let Some(fp) = fp {
                            registers.set(RBP, fp);
                        }
                        Beyond::Caller(called(address, slot), FoundBy::Code)
                    }
                    _ => unknown(match memory.missing.get() {
                        Some(slot) if path.registers().get(RSP) == Some(slot) => {
                            MissingWord::ReturnAddress(slot)
                        }
                        Some(link) => MissingWord::Link(link),
                        None => MissingWord::Unknown,
                    }),
                }
            }
        }
    }

    fn is_code(&self, address: u64) -> bool {
        let inside = address.checked_sub(1);
        inside.is_some_and(|inside| self.modules.find(inside).is_some())
    }

    /// Returns the caller that the chain omits. `fp` is the frame pointer of that caller.
    fn direct_caller(&self, frames: &[StackFrame], fp: u64) -> Option<u64> {
        let [.., callee, frame] = frames else {
            return None;
        };
        let next = *chain_from(self.known.arch, fp, self.memory)?.first()?;
        let key = [frame.address, callee.lookup_address(), next];
        let key = (self.modules.generation()).map(|of| [of, key[0], key[1], key[2]]);
        let known = key.and_then(|key| self.known.direct.borrow().get(&key).copied());
        if known.is_some() {
            return known;
        }
        let switch = frame.address.wrapping_sub(self.bias);
        let callee = function_of(callee.lookup_address(), self.modules)?;
        let callee = callee.wrapping_sub(self.bias);
        let is_it = |site: &&Site| site.callee == Some(callee);
        let caller = call_target(next, self.modules).flatten();
        let found = match caller {
            Some(caller) => {
                let start = caller.wrapping_sub(self.bias);
                let range = start..start.saturating_add(MAX_FUNCTION);
                let all = self.table.switches().sites(switch, range);
                let sites: Vec<&Site> = all
                    .take_while(|site| self.table.function_start(site.address - 1) == Some(start))
                    .collect();
                let mut named = sites.iter().copied().filter(is_it);
                match (&*sites, named.next(), named.next()) {
                    ([], ..) => return None,
                    ([site], ..) => site.address,
                    (_, Some(site), None) => site.address,
                    // The function is certain, but not the call site.
                    _ => start.wrapping_add(1),
                }
            }
            None => {
                let mut named = self
                    .table
                    .switches()
                    .sites(switch, 0..u64::MAX)
                    .filter(is_it);
                let site = named.next().filter(|_| named.next().is_none())?;
                site.address
            }
        };
        let found = found.wrapping_add(self.bias);
        if let Some(key) = key {
            remember(&self.known.direct, key, found);
        }
        Some(found)
    }
}

/// Returns the kernel's return addresses from this frame pointer on, if the copied stack matches
/// the chain up to there.
fn chain_from(arch: Arch, fp: u64, memory: &dyn Memory) -> Option<&[u64]> {
    let (mut at, mut rest) = memory.frame_pointer_chain()?;
    while at != fp {
        let (address, behind) = rest.split_first()?;
        let saved = arch.read_word(memory, at)?;
        if arch.read_word(memory, at.wrapping_add(arch.word_size())) != Some(*address) {
            return None;
        }
        (at, rest) = (saved, behind);
    }
    Some(rest)
}

/// Adds the callers of the last of `frames` from the kernel's chain, starting at `fp`; `direct` is
/// a caller that the chain omits. Adds nothing and returns `None` if they do not lead to a root.
pub(crate) fn by_chain(
    fp: u64,
    direct: Option<u64>,
    (memory, modules, known): (&dyn Memory, &dyn Modules, &KnownCalls),
    limit: usize,
    frames: &mut Vec<StackFrame>,
) -> Option<UnwindOutcome> {
    let chain = chain_from(known.arch, fp, memory)?;
    let before = frames.len();
    let end = follow(chain, direct, (modules, known), limit, frames);
    if end.is_none() {
        frames.truncate(before);
    }
    end
}

fn follow(
    chain: &[u64],
    direct: Option<u64>,
    (modules, known): (&dyn Modules, &KnownCalls),
    limit: usize,
    frames: &mut Vec<StackFrame>,
) -> Option<UnwindOutcome> {
    let count = chain.len() + usize::from(direct.is_some());
    for (at, address) in direct.into_iter().chain(chain.iter().copied()).enumerate() {
        if frames.len() >= limit {
            return None;
        }
        let frame = StackFrame {
            address,
            sp: 0,
            slot: 0,
            kind: FrameKind::Caller,
            found_by: FoundBy::FramePointer,
        };
        let module = modules.find(frame.lookup_address())?;
        let table = module.table.filter(|table| table.arch() == known.arch)?;
        let below = frames.last()?;
        if !(known.edges).is_possible(address, below.lookup_address(), modules) {
            return None;
        }
        frames.push(frame);
        if at == 0 && direct.is_some() {
            continue;
        }
        match goes_on(frame, table, module, modules) {
            Some(Some(root)) => return Some(UnwindOutcome::Complete(root)),
            Some(None) => {}
            // The chain ends at `main`'s caller, which has no frame pointer.
            None if at + 1 == count && ends_process(known.arch, address, modules) => {
                return Some(UnwindOutcome::Complete(Root::ExitFollows));
            }
            None => return None,
        }
    }
    None
}

/// Returns the root if the frame is one, `Some(None)` if its frame pointer leads to its caller,
/// `None` if neither is certain.
fn goes_on(
    frame: StackFrame,
    table: &UnwindTable,
    module: Module<'_>,
    modules: &dyn Modules,
) -> Option<Option<Root>> {
    let svma = frame.lookup_address().wrapping_sub(module.bias);
    let rule = match table.find(svma) {
        Found::Rule(rule) => rule,
        Found::NoFde if table.is_go_code(svma) => {
            let is_root = is_goexit(frame.address, modules);
            // Frameless code leaves the frame pointer to its caller.
            let leads_on = table.go_frame_size(svma) != Some(0);
            return (is_root || leads_on).then_some(is_root.then_some(Root::ExitFollows));
        }
        _ => return None,
    };
    if rule.rule.return_address == Value::Undefined {
        return Some(Some(Root::UndefinedReturnAddress));
    }
    let arch = table.arch();
    let (sp, fp, word) = (arch.sp(), arch.fp(), arch.word_size() as i32);
    let leads_on = match rule.rule.cfa {
        Cfa::Register(register, offset) if register == sp && table.is_go_code(svma) => {
            // Frameless code makes no calls, except at the start of goroutines.
            if offset == word && is_goexit(frame.address, modules) {
                return Some(Some(Root::ExitFollows));
            }
            offset > word
        }
        Cfa::Register(register, offset) if register == fp && offset == 2 * word => {
            let is_saved = Value::AtCfa(-2 * word);
            rule.rule.return_address == Value::AtCfa(-word)
                && (rule.saved().iter())
                    .any(|saved| saved.register == fp && saved.value == is_saved)
        }
        _ => false,
    };
    (leads_on && !rule.rule.signal).then_some(None)
}

/// Returns true for the first instruction of a function as a return address, with no call before it. It
/// caused a signal, and Go's handler has injected a call of `sigpanic`.
pub(crate) fn is_injected(address: u64, module: Module<'_>, modules: &dyn Modules) -> bool {
    let svma = address.wrapping_sub(module.bias);
    let is_start =
        |table: &UnwindTable| table.is_go_code(svma) && table.function_start(svma) == Some(svma);
    module.table.is_some_and(is_start) && !may_be_behind_call(address, modules)
}

fn is_goexit(address: u64, modules: &dyn Modules) -> bool {
    synthetic_return(address, modules) == Some(SyntheticReturn::GoExit)
}

/// Returns true in `sigreturn__sigaction`, where Go's signal handlers return to. Its call frame
/// information is of a usual function.
pub(crate) fn is_signal_return(
    svma: u64,
    (table, bias): (&UnwindTable, u64),
    modules: &dyn Modules,
) -> bool {
    let start = table.is_go_code(svma).then(|| table.function_start(svma));
    start.flatten().is_some_and(|start| {
        let found = synthetic_return(start.wrapping_add(bias), modules);
        found == Some(SyntheticReturn::SignalReturn)
    })
}

fn synthetic_return(address: u64, modules: &dyn Modules) -> Option<SyntheticReturn> {
    let mut code = [0; 1 + code::LEN];
    let len = modules.code(address.wrapping_sub(1), &mut code);
    let (before, behind) = code.get(..len)?.split_at_checked(1)?;
    code::synthetic_return(Arch::X86_64, before, behind)
}

fn ends_process(arch: Arch, address: u64, modules: &dyn Modules) -> bool {
    let mut code = [0; code::LEN];
    let len = modules.code(address, &mut code);
    code::exits(arch, code.get(..len).unwrap_or(&[]))
}

/// Returns the start of the function that has this address.
fn function_of(address: u64, modules: &dyn Modules) -> Option<u64> {
    let module = modules.find(address)?;
    let start = (module.table?).function_start(address.wrapping_sub(module.bias))?;
    Some(start.wrapping_add(module.bias))
}

fn called(address: u64, slot: u64) -> Caller {
    Caller {
        return_address: Some(address),
        slot,
        interrupted: false,
    }
}

/// Records the first unreadable word.
struct NotedMemory<'m> {
    memory: &'m dyn Memory,
    missing: Cell<Option<u64>>,
}

impl<'m> NotedMemory<'m> {
    const fn new(memory: &'m dyn Memory) -> Self {
        Self {
            memory,
            missing: Cell::new(None),
        }
    }
}

impl Memory for NotedMemory<'_> {
    fn read_u64(&self, avma: u64) -> Option<u64> {
        let word = self.memory.read_u64(avma);
        if word.is_none() && self.missing.get().is_none() {
            self.missing.set(Some(avma));
        }
        word
    }
}
