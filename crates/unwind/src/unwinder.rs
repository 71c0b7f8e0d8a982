//! [`Unwinder`]: steps from frame to frame until the root.

mod by_table;

use crate::cache::{Doubt, PlainRule, RuleCache, RuleCacheStats};
use crate::expression::Fault;
use crate::hotspot::BlobCache;
use crate::runtimes::go;
use crate::simulate::{SimulationCache, SimulationCacheStats};
use crate::step::Caller;
use crate::without_cfi::{Context, Outcome};
use crate::{
    Arch, FoundBy, FrameKind, Memory, MissingWord, Module, Modules, Registers, Root, StackFrame,
    TruncationReason, UnwindOutcome,
};
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::cell::Cell;

/// Maximum number of stack switches of one stack: signal handlers may have stacks of their own, and
/// some programs (rustc, Go) switch inside a call.
const MAX_SWITCHES: usize = 16;

/// Unreadable words within this distance in bytes above the stack pointer mean that the copy is too
/// short.
const MAX_STACK: u64 = 1 << 30;

const MAX_PROCESSES: usize = 256;

/// Unwinds stacks of one architecture. The unwinder for x86-64 also unwinds i386. Cheap to create.
///
/// Caches rules if [`Modules::generation`] is implemented, and locations of run-time code if
/// [`Modules::process`] is.
#[derive(Debug, Clone)]
pub struct Unwinder {
    arch: Arch,
    mask: u64,
    /// For 32-bit programs.
    compat: Option<Box<Self>>,
    processes: FxHashMap<u64, BlobCache>,
    cache: RuleCache,
    simulations: SimulationCache,
    calls: go::KnownCalls,
}

/// Hits and misses of an [`Unwinder`]'s caches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// Cache of call frame rules, by address.
    pub rules: RuleCacheStats,
    /// Cache of simulations of code without call frame information.
    pub simulations: SimulationCacheStats,
}

#[derive(Clone, Copy)]
enum Code<'a> {
    Plain(PlainRule),
    /// Code without a plain rule: its module, if any.
    Module(Option<Module<'a>>),
}

impl Unwinder {
    /// Creates an unwinder with empty caches.
    #[must_use]
    pub const fn new(arch: Arch) -> Self {
        Self {
            arch,
            mask: arch.address_mask(),
            compat: None,
            processes: FxHashMap::with_hasher(FxBuildHasher),
            cache: RuleCache::new(),
            simulations: SimulationCache::new(),
            calls: go::KnownCalls::new(arch),
        }
    }

    /// Returns the counts since the unwinder was created, without 32-bit programs.
    #[must_use]
    pub fn cache_stats(&self) -> CacheStats {
        CacheStats {
            rules: self.cache.stats(),
            simulations: self.simulations.stats(),
        }
    }

    /// Replaces `frames` by the frames of a stack, innermost first, at most `limit`. The first is
    /// always the frame of `registers`. The work is bounded by `limit` for any input. Registers of
    /// another architecture give one frame.
    pub fn unwind(
        &mut self,
        registers: &Registers,
        memory: &dyn Memory,
        modules: &dyn Modules,
        limit: usize,
        frames: &mut Vec<StackFrame>,
    ) -> UnwindOutcome {
        self.unwind_observed(registers, memory, modules, limit, frames, &mut |_, _| ())
    }

    /// Unwinds a stack like [`unwind`](Self::unwind), and replaces `kept` by the registers of each
    /// frame: as sampled for the first, and the restored ones for callers. Frames of another stack
    /// have only their address and stack pointer.
    pub fn unwind_with_registers(
        &mut self,
        registers: &Registers,
        memory: &dyn Memory,
        modules: &dyn Modules,
        limit: usize,
        frames: &mut Vec<StackFrame>,
        kept: &mut Vec<Registers>,
    ) -> UnwindOutcome {
        kept.clear();
        let fill = |kept: &mut Vec<Registers>, frames: &[StackFrame], to: usize| {
            let missing = frames.get(kept.len()..to).unwrap_or_default();
            kept.extend(
                missing
                    .iter()
                    .map(|frame| Registers::new(registers.arch(), frame.address, frame.sp)),
            );
        };
        let mut keep = |frames: &[StackFrame], known: &Registers| {
            fill(kept, frames, frames.len().saturating_sub(1));
            kept.push(*known);
        };
        let end = self.unwind_observed(registers, memory, modules, limit, frames, &mut keep);
        fill(kept, frames, frames.len());
        end
    }

    /// Returns false if the call before the return address of `caller` cannot have led to the function of
    /// `callee`. For frames that were read at different times.
    #[must_use]
    pub fn may_call(
        &self,
        caller: &StackFrame,
        callee: &StackFrame,
        modules: &dyn Modules,
    ) -> bool {
        let below = callee.lookup_address();
        let edges = &self.calls.edges;
        caller.kind != FrameKind::Caller || edges.is_possible(caller.address, below, modules)
    }

    /// Calls `observe` with the frames so far and the registers of the last one.
    fn unwind_observed(
        &mut self,
        registers: &Registers,
        memory: &dyn Memory,
        modules: &dyn Modules,
        limit: usize,
        frames: &mut Vec<StackFrame>,
        observe: &mut dyn FnMut(&[StackFrame], &Registers),
    ) -> UnwindOutcome {
        if (self.arch, registers.arch()) == (Arch::X86_64, Arch::X86) {
            let compat = || Box::new(Self::new(Arch::X86));
            let compat = self.compat.get_or_insert_with(compat);
            return compat.unwind_observed(registers, memory, modules, limit, frames, observe);
        }
        frames.clear();
        if limit == 0 {
            return UnwindOutcome::Truncated(TruncationReason::TooDeep);
        }
        let frame = StackFrame::sampled(registers.ip(), registers.sp());
        frames.push(frame);
        observe(frames, registers);
        if registers.arch() != self.arch {
            return UnwindOutcome::Truncated(TruncationReason::BadCfi {
                address: frame.address,
            });
        }
        let process = modules.process();
        let known = process.and_then(|process| self.processes.remove(&process));
        let blobs = known.unwrap_or_default();
        blobs.begin_stack();
        let mut cache = std::mem::take(&mut self.cache);
        let end = self.follow(
            frame, registers, memory, modules, limit, frames, &blobs, &mut cache, observe,
        );
        self.cache = cache;
        for frame in frames.iter_mut() {
            // Readers look up the byte before, which belongs to another function.
            let is_exact = frame.kind == FrameKind::Interrupted;
            if is_exact && self.begins_function(frame.address, modules) {
                frame.address = frame.address.wrapping_add(1);
            }
        }
        if let Some(process) = process
            && blobs.is_used()
        {
            if self.processes.len() >= MAX_PROCESSES {
                self.processes.clear();
            }
            self.processes.insert(process, blobs);
        }
        end
    }

    #[allow(clippy::too_many_arguments)]
    fn follow(
        &self,
        mut frame: StackFrame,
        sampled: &Registers,
        memory: &dyn Memory,
        modules: &dyn Modules,
        limit: usize,
        frames: &mut Vec<StackFrame>,
        blobs: &BlobCache,
        cache: &mut RuleCache,
        observe: &mut dyn FnMut(&[StackFrame], &Registers),
    ) -> UnwindOutcome {
        let mut registers = *sampled;
        let generation = modules.generation();
        let code_at = |address: u64, cache: &mut RuleCache| {
            let known = generation.and_then(|generation| cache.get(generation, address));
            if let Some(rule) = known {
                return Code::Plain(*rule);
            }
            let module = self.module_at(address, modules);
            let rule = module.and_then(|module| self.plain_rule(address, module, modules));
            match (rule, generation) {
                (Some(rule), Some(generation)) => cache.insert(generation, address, rule),
                (None, Some(_)) => cache.count_uncacheable(),
                (_, None) => {}
            }
            rule.map_or(Code::Module(module), Code::Plain)
        };
        let mut code = code_at(registers.ip(), cache);
        let mut switches = MAX_SWITCHES;
        loop {
            let stepped = match code {
                Code::Plain(rule) if rule.is_shared => {
                    self.where_rule_is_shared(rule, frame, &mut registers, memory, modules, blobs)
                }
                Code::Plain(rule)
                    if rule.doubt != Doubt::None
                        || (frame.kind == FrameKind::Caller && rule.has_no_frame(self.arch)) =>
                {
                    self.where_rule_is_doubtful(rule, frame, &mut registers, memory, modules, blobs)
                }
                Code::Plain(rule) => {
                    let sp = registers.sp();
                    match rule.apply(&mut registers, memory) {
                        Ok(caller) => Ok((caller, FoundBy::Cfi)),
                        Err(Fault::Register(register)) => self
                            .where_register_is_missing(
                                frame,
                                &mut registers,
                                memory,
                                modules,
                                blobs,
                            )
                            .ok_or(UnwindOutcome::Truncated(
                                TruncationReason::MissingRegister {
                                    address: frame.address,
                                    register,
                                },
                            )),
                        Err(fault) => {
                            Err(UnwindOutcome::Truncated(cause(fault, frame.address, sp)))
                        }
                    }
                }
                Code::Module(module) => {
                    let switched = self.switched(
                        module,
                        &mut registers,
                        memory,
                        modules,
                        limit,
                        frames,
                        blobs,
                    );
                    match switched {
                        Some(go::Beyond::Caller(caller, by)) => Ok((caller, by)),
                        Some(go::Beyond::End(end)) => return end,
                        None => self.step(frame, module, &mut registers, memory, modules, blobs),
                    }
                }
            };
            let (caller, by) = match stepped {
                Ok(found) => found,
                Err(end) => {
                    let word = self.arch.word_size();
                    let end = beyond_copy(end, word, (memory, modules, &self.calls), limit, frames);
                    let has_frame_pointer =
                        matches!(code, Code::Plain(rule) if rule.has_frame_pointer(self.arch));
                    return match end {
                        UnwindOutcome::Truncated(TruncationReason::BadMemory { address })
                            if has_frame_pointer =>
                        {
                            on_other_stack(frame, address)
                        }
                        end => end,
                    };
                }
            };
            let Some(address) = caller.return_address else {
                return UnwindOutcome::Complete(Root::UndefinedReturnAddress);
            };
            let address = address & self.mask;
            let kind = if caller.interrupted {
                FrameKind::Interrupted
            } else {
                FrameKind::Caller
            };
            if address == 0 && kind == FrameKind::Caller {
                return UnwindOutcome::Complete(Root::NullReturnAddress);
            }
            // On AArch64 a leaf function can return with an unchanged stack pointer.
            let sp = registers.sp();
            let grows = sp > frame.sp || (sp == frame.sp && frame.kind != FrameKind::Caller);
            if !grows {
                let same = sp == frame.sp && address == frame.address;
                if same || switches == 0 {
                    return UnwindOutcome::Truncated(TruncationReason::NotProgressing {
                        address: frame.address,
                    });
                }
                switches -= 1;
            }
            let callee = frame;
            frame = StackFrame {
                address,
                sp,
                slot: caller.slot,
                kind,
                found_by: by,
            };
            code = code_at(frame.lookup_address(), cache);
            if let Code::Module(Some(module)) = code
                && kind == FrameKind::Caller
                && go::is_injected(address, module, modules)
            {
                // Readers look up the instruction before a return address.
                frame.address = address.wrapping_add(1);
                code = code_at(address, cache);
            }
            if matches!(code, Code::Module(None)) && kind == FrameKind::Caller {
                let root = self.root_of(callee, memory, modules, blobs);
                let not_mapped = UnwindOutcome::Truncated(TruncationReason::NotMapped { address });
                return root.map_or(not_mapped, UnwindOutcome::Complete);
            }
            if frames.len() >= limit {
                return UnwindOutcome::Truncated(TruncationReason::TooDeep);
            }
            registers.set_ip(address);
            frames.push(frame);
            observe(frames, &registers);
        }
    }

    fn begins_function(&self, address: u64, modules: &dyn Modules) -> bool {
        self.module_at(address, modules).is_some_and(|module| {
            let svma = address.wrapping_sub(module.bias);
            (module.table).is_some_and(|table| table.begins_function(svma))
        })
    }

    fn module_at<'m>(&self, avma: u64, modules: &'m dyn Modules) -> Option<Module<'m>> {
        modules
            .find(avma)
            .filter(|module| module.runs_on(self.arch))
    }

    /// Returns the evidence in a frame's code that it has no caller. For frames whose rule leads to
    /// unmapped memory: compilers describe `_start` and the first function of a thread like others.
    #[cold]
    fn root_of(
        &self,
        frame: StackFrame,
        memory: &dyn Memory,
        modules: &dyn Modules,
        blobs: &BlobCache,
    ) -> Option<Root> {
        let module = self.module_at(frame.lookup_address(), modules)?;
        let context = self.context(frame, Some(module), memory, modules, blobs);
        context.root_at(frame.address)
    }

    /// Continues after a call that the last frame made on another stack.
    #[allow(clippy::too_many_arguments)]
    fn switched(
        &self,
        module: Option<Module<'_>>,
        registers: &mut Registers,
        memory: &dyn Memory,
        modules: &dyn Modules,
        limit: usize,
        frames: &mut Vec<StackFrame>,
        blobs: &BlobCache,
    ) -> Option<go::Beyond> {
        let (frame, module) = (*frames.last()?, module?);
        let table = module.table.filter(|_| frame.kind == FrameKind::Caller)?;
        let switch = table.switch_at(frame.address.wrapping_sub(module.bias))?;
        let code = self.context(frame, Some(module), memory, modules, blobs);
        let switched = go::SwitchedFrame {
            memory,
            modules,
            code: &code,
            table,
            bias: module.bias,
            switch,
            known: &self.calls,
            limit,
        };
        Some(switched.step(registers, frames))
    }

    fn context<'c>(
        &'c self,
        frame: StackFrame,
        module: Option<Module<'c>>,
        memory: &'c dyn Memory,
        modules: &'c dyn Modules,
        blobs: &'c BlobCache,
    ) -> Context<'c> {
        Context {
            memory,
            modules,
            module,
            exact: frame.kind != FrameKind::Caller,
            address: frame.lookup_address(),
            found_by: frame.found_by,
            arch: self.arch,
            blobs,
            simulations: &self.simulations,
            edges: &self.calls.edges,
            process_end: Cell::new(None),
        }
    }

    #[inline]
    fn step(
        &self,
        frame: StackFrame,
        module: Option<Module<'_>>,
        registers: &mut Registers,
        memory: &dyn Memory,
        modules: &dyn Modules,
        blobs: &BlobCache,
    ) -> Result<(Caller, FoundBy), UnwindOutcome> {
        let address = frame.address;
        if let Some(module) = module
            && let Some(table) = module.table
        {
            let context = self.context(frame, Some(module), memory, modules, blobs);
            let found = self.in_prologue(&context, table, module.bias, registers);
            if let Some(found) = found {
                return Ok(found);
            }
            let by_table = self.by_table(frame, table, module.bias, registers, memory, modules);
            if let Some(Err(_)) = &by_table {
                let found = self.where_rules_fail(&context, table, module.bias, registers);
                if let Some(found) = found {
                    return Ok(found);
                }
            }
            if let Some(outcome) = by_table {
                return outcome;
            }
        }
        if module.is_some_and(|module| module.table.is_none())
            && let Some(table) = modules.jit_table(frame.lookup_address())
            && table.arch() == self.arch
        {
            let by_table = self.by_table(frame, &table, 0, registers, memory, modules);
            if let Some(outcome) = by_table {
                return outcome;
            }
        }
        let context = self.context(frame, module, memory, modules, blobs);
        let sp = registers.sp();
        match context.step(registers) {
            Outcome::Caller(caller, by) => Ok((caller, by)),
            Outcome::Root(root) => Err(UnwindOutcome::Complete(root)),
            Outcome::Unreadable(at) => Err(match cause(Fault::Memory(at), address, sp) {
                TruncationReason::BadMemory { address: slot } => on_other_stack(frame, slot),
                cause => UnwindOutcome::Truncated(cause),
            }),
            // A handler of signals has a caller, which its code shows.
            Outcome::Nothing
                if module.is_some_and(|Module { table, bias }| {
                    let svma = frame.lookup_address().wrapping_sub(bias);
                    table.is_some_and(|table| table.is_go_top(svma))
                }) =>
            {
                Err(UnwindOutcome::Complete(Root::UndefinedReturnAddress))
            }
            Outcome::Nothing if module.is_none() => {
                Err(UnwindOutcome::Truncated(TruncationReason::NotMapped {
                    address,
                }))
            }
            Outcome::Nothing => Err(UnwindOutcome::Truncated(TruncationReason::NoUnwindInfo {
                address,
            })),
        }
    }
}

/// Continues beyond the stack copy by the kernel's frame pointer chain, if the missing return
/// address is in it. Otherwise checks if a signal interrupted an uncopied stack.
#[cold]
fn beyond_copy(
    end: UnwindOutcome,
    word: u64,
    (memory, modules, calls): (&dyn Memory, &dyn Modules, &go::KnownCalls),
    limit: usize,
    frames: &mut Vec<StackFrame>,
) -> UnwindOutcome {
    let (UnwindOutcome::Truncated(TruncationReason::StackEnded { address })
    | UnwindOutcome::Truncated(TruncationReason::BadMemory { address })) = end
    else {
        return end;
    };
    let fp = address.wrapping_sub(word);
    if let Some(end) = go::by_chain(fp, None, (memory, modules, calls), limit, frames) {
        return end;
    }
    let mut interrupted = (frames.iter().rev()).filter(|f| f.kind == FrameKind::Interrupted);
    let is_elsewhere = interrupted
        .next()
        .is_some_and(|frame| memory.read_u64(frame.sp & !7).is_none());
    match frames.last() {
        Some(frame) if is_elsewhere => UnwindOutcome::Truncated(TruncationReason::OtherStack {
            address: frame.address,
            missing: MissingWord::ReturnAddress(address),
        }),
        _ => end,
    }
}

/// Returns the end of a stack whose return address is far away, by the code or by call frame information
/// with a frame pointer: a function continues on another stack, as `__morestack` of split stacks does.
/// `slot` has the return address.
fn on_other_stack(frame: StackFrame, slot: u64) -> UnwindOutcome {
    UnwindOutcome::Truncated(TruncationReason::OtherStack {
        address: frame.address,
        missing: MissingWord::ReturnAddress(slot),
    })
}

fn cause(fault: Fault, address: u64, sp: u64) -> TruncationReason {
    match fault {
        Fault::Bad => TruncationReason::BadCfi { address },
        Fault::Register(register) => TruncationReason::MissingRegister { address, register },
        Fault::Memory(at) => {
            let above = at.checked_sub(sp).is_some_and(|above| above <= MAX_STACK);
            if above {
                TruncationReason::StackEnded { address: at }
            } else {
                TruncationReason::BadMemory { address: at }
            }
        }
    }
}
