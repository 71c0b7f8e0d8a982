//! Go: from the stack that its runtime switched to, back to the caller's.
//!
//! A goroutine's stack is in the heap. `systemstack`, `asmcgocall`, callbacks of C and calls of the vDSO run what they call on
//! the thread's own stack, or on the goroutine's again: [`Switch`] has the kinds. No copy has both. What is known of the
//! other one:
//!
//! - The kernel followed the frame pointer at the time of the sample ([`Memory::frame_pointer_chain`]), and Go's code keeps
//!   it from stack to stack. From where that chain leaves the copy, its return addresses are those of the callers. Each has
//!   to be one of code that keeps frame pointers, and to stand behind a call of the function below it, as far as that can be
//!   seen. A function without a frame that makes a call is not in the chain: `systemstack` itself, which is the frame before,
//!   and so its caller's return address. That is found by the function it was to call, which is named before one such call
//!   only ([`Site`]).
//! - Where C code uses the frame pointer for something else, the code behind the call goes back: `asmcgocall` has the
//!   goroutine and the distance of its stack pointer from the end of its stack on the thread's stack.

use crate::arch::x86_64::{RBP, RSP};
use crate::call_edges::{CallEdges, call_target};
use crate::simulate::{CodeSource, PathState, Stop};
use crate::step::Caller;
use crate::table::{Cfa, Found, Site, Switch, UnwindTable, Value};
use crate::{
    Arch, FoundBy, Frame, FrameKind, Memory, MissingWord, Module, Modules, Registers, Root,
    TruncationReason, UnwindOutcome, code,
};
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::cell::{Cell, RefCell};

/// Maximum number of instructions behind the call up to the return; `asmcgocall` has 7.
const MAX_BACK: usize = 24;

/// Bytes of the longest Go function whose calls are looked through.
const MAX_FUNCTION: u64 = 1 << 20;

/// Maximum number of calls that are remembered.
const MAX_KNOWN: usize = 1 << 14;

/// Callers that were found, each with the state of the mappings ([`Modules::generation`]): reading code, and finding the
/// start of a function, takes longer than all else here.
#[derive(Debug, Clone)]
pub(crate) struct KnownCalls {
    pub(crate) edges: CallEdges,
    /// By the addresses of a frame, its callee and its caller's caller, the address of its caller.
    direct: RefCell<FxHashMap<[u64; 4], u64>>,
}

impl KnownCalls {
    pub(crate) const fn new() -> Self {
        Self {
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

/// What lies beyond a switch.
pub(crate) enum Beyond {
    /// The caller, whose registers are set.
    Caller(Caller, FoundBy),
    /// The end of the stack; frames before it were added.
    End(UnwindOutcome),
}

/// A frame that made its call on another stack.
pub(crate) struct SwitchedFrame<'a, M: ?Sized, P: ?Sized, C> {
    pub(crate) memory: &'a M,
    pub(crate) modules: &'a P,
    pub(crate) code: &'a C,
    pub(crate) table: &'a UnwindTable,
    pub(crate) bias: u64,
    pub(crate) switch: Switch,
    pub(crate) known: &'a KnownCalls,
    /// Maximum number of frames.
    pub(crate) limit: usize,
}

impl<M: Memory + ?Sized, P: Modules + ?Sized, C: CodeSource> SwitchedFrame<'_, M, P, C> {
    /// Goes on from the last of `frames`. `registers` are its own.
    pub(crate) fn step(&self, registers: &mut Registers, frames: &mut Vec<Frame>) -> Beyond {
        let Some(&frame) = frames.last() else {
            return Beyond::End(UnwindOutcome::Complete(Root::SwitchedStack));
        };
        // What it calls on the other stack gives it back.
        let fp = registers.frame_pointer();
        let unknown = |missing| {
            let address = frame.address;
            let reason = TruncationReason::OtherStack { address, missing };
            Beyond::End(UnwindOutcome::Truncated(reason))
        };
        match self.switch {
            Switch::Never => Beyond::End(UnwindOutcome::Complete(Root::SwitchedStack)),
            // The function that needs more room, and its caller, are known to memory alone, and to that for a moment.
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
                // Without the frame between, the chain would skip one.
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
                        // The last word of all is the return address.
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

    /// Returns true if there is code before this address.
    fn is_code(&self, address: u64) -> bool {
        let inside = address.checked_sub(1);
        inside.is_some_and(|inside| self.modules.find(inside).is_some())
    }

    /// Returns the frame behind the call of the last of `frames`, whose own caller's frame pointer is `fp`.
    fn direct_caller(&self, frames: &[Frame], fp: u64) -> Option<u64> {
        let [.., callee, frame] = frames else {
            return None;
        };
        let next = *chain_from(fp, self.memory)?.first()?;
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
                    // The function is certain, where in it is not.
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

/// Returns the return addresses that the kernel found from the frame with this frame pointer on, where the stacks that were copied
/// lead there as it found them.
fn chain_from<M: Memory + ?Sized>(fp: u64, memory: &M) -> Option<&[u64]> {
    let (mut at, mut rest) = memory.frame_pointer_chain()?;
    while at != fp {
        let (address, behind) = rest.split_first()?;
        let saved = memory.read_u64(at)?;
        if memory.read_u64(at.wrapping_add(8)) != Some(*address) {
            return None;
        }
        (at, rest) = (saved, behind);
    }
    Some(rest)
}

/// Adds the callers of the last of `frames` that the kernel found from a frame pointer on, which is that of the frame whose
/// caller is next; `direct` is one before that. `None`, and no more frames, where they do not lead to a root.
pub(crate) fn by_chain<M, P>(
    fp: u64,
    direct: Option<u64>,
    (memory, modules, known): (&M, &P, &KnownCalls),
    limit: usize,
    frames: &mut Vec<Frame>,
) -> Option<UnwindOutcome>
where
    M: Memory + ?Sized,
    P: Modules + ?Sized,
{
    let chain = chain_from(fp, memory)?;
    let before = frames.len();
    let end = follow(chain, direct, (modules, known), limit, frames);
    if end.is_none() {
        frames.truncate(before);
    }
    end
}

fn follow<P: Modules + ?Sized>(
    chain: &[u64],
    direct: Option<u64>,
    (modules, known): (&P, &KnownCalls),
    limit: usize,
    frames: &mut Vec<Frame>,
) -> Option<UnwindOutcome> {
    let count = chain.len() + usize::from(direct.is_some());
    for (at, address) in direct.into_iter().chain(chain.iter().copied()).enumerate() {
        if frames.len() >= limit {
            return None;
        }
        let frame = Frame {
            address,
            sp: 0,
            slot: 0,
            kind: FrameKind::Caller,
            found_by: FoundBy::FramePointer,
        };
        let module = modules.find(frame.lookup_address())?;
        let table = module.table?;
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
            // The frame pointer of `main`'s caller, which keeps none, is no address.
            None if at + 1 == count && ends_process(address, modules) => {
                return Some(UnwindOutcome::Complete(Root::ExitFollows));
            }
            None => return None,
        }
    }
    None
}

/// Returns the root if a frame is one, `None` inside if its frame pointer leads to its caller, and outside if neither is known.
fn goes_on<P: Modules + ?Sized>(
    frame: Frame,
    table: &UnwindTable,
    module: Module<'_>,
    modules: &P,
) -> Option<Option<Root>> {
    let svma = frame.lookup_address().wrapping_sub(module.bias);
    let rule = match table.find(svma) {
        Found::Rule(rule) => rule,
        Found::NoFde if table.is_go_code(svma) => {
            return Some(is_goexit(frame.address, modules).then_some(Root::ExitFollows));
        }
        _ => return None,
    };
    if rule.rule.return_address == Value::Undefined {
        return Some(Some(Root::UndefinedReturnAddress));
    }
    let leads_on = match rule.rule.cfa {
        // Code that has no frame makes no call, but for where goroutines begin.
        Cfa::Register(RSP, 8) if table.is_go_code(svma) && is_goexit(frame.address, modules) => {
            return Some(Some(Root::ExitFollows));
        }
        Cfa::Register(RSP, offset) => offset > 8 && table.is_go_code(svma),
        Cfa::Register(RBP, 16) => {
            let saved = rule.saved();
            rule.rule.return_address == Value::AtCfa(-8)
                && (saved.iter())
                    .any(|saved| saved.register == RBP && saved.value == Value::AtCfa(-16))
        }
        _ => false,
    };
    (leads_on && !rule.rule.signal).then_some(None)
}

/// Returns true if goroutines end by returning to this address.
fn is_goexit<P: Modules + ?Sized>(address: u64, modules: &P) -> bool {
    let mut code = [0; 7];
    let start = address.wrapping_sub(1);
    let known = modules.code(start, &mut code) == code.len();
    let (before, behind) = code.split_at(1);
    known && code::synthetic_return(before, behind) == Some(code::SyntheticReturn::GoExit)
}

/// Returns true if the code behind a call ends the process: `exit(main(...))`.
fn ends_process<P: Modules + ?Sized>(address: u64, modules: &P) -> bool {
    let mut code = [0; code::LEN];
    let len = modules.code(address, &mut code);
    code::exits(code.get(..len).unwrap_or(&[]))
}

/// Returns the start of the function that has this address.
fn function_of<P: Modules + ?Sized>(address: u64, modules: &P) -> Option<u64> {
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

/// Memory with a note of the first word that was not there.
struct NotedMemory<'m, M: ?Sized> {
    memory: &'m M,
    missing: Cell<Option<u64>>,
}

impl<'m, M: ?Sized> NotedMemory<'m, M> {
    const fn new(memory: &'m M) -> Self {
        Self {
            memory,
            missing: Cell::new(None),
        }
    }
}

impl<M: Memory + ?Sized> Memory for NotedMemory<'_, M> {
    fn read_u64(&self, avma: u64) -> Option<u64> {
        let word = self.memory.read_u64(avma);
        if word.is_none() && self.missing.get().is_none() {
            self.missing.set(Some(avma));
        }
        word
    }
}
