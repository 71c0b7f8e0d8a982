//! Steps by call frame information.

use super::{Unwinder, cause, on_other_stack};
use crate::branch::is_behind_epilogue;
use crate::cache::{Doubt, PlainRule};
use crate::hotspot::BlobCache;
use crate::modules::may_be_behind_call;
use crate::runtimes::{callee, go, luajit, sbcl};
use crate::simulate::{self, Exit, UndescribedMove};
use crate::step::{self, Caller};
use crate::table::{Cfa, Found, Value};
use crate::without_cfi::Context;
use crate::{
    Arch, FoundBy, FrameKind, Memory, Module, Modules, Registers, Root, StackFrame,
    TruncationReason, UnwindOutcome, UnwindTable, signal_context,
};
use iced_x86::{Decoder, DecoderOptions, FlowControl};

/// Maximum length in bytes of the rest of a prologue.
const MAX_PROLOGUE: usize = 32;

/// Maximum length in bytes of a prologue of AArch64 that is not described.
const MAX_UNDESCRIBED: usize = 96;

/// Maximum length in bytes of an epilogue of AArch64.
const MAX_EPILOGUE: usize = 64;

/// Maximum distance in bytes from an inline thunk to code whose rule is checked.
const MAX_BEHIND: u64 = 4096;

/// Maximum length in bytes of an inline thunk: `call`, the loop, `mov [rsp], REG`, `ret`.
const THUNK: u64 = 5 + 7 + 5 + 1;

/// Maximum distance in bytes from the call that overwrites the saved registers to the row of call
/// frame information at the function's end.
const MAX_TO_END: usize = 256;

/// The usual distance: 117 to 126 bytes in GCC 12.
const TO_END: usize = 128;

impl Unwinder {
    /// Returns the rule for a lookup address, if it is plain and holds for every kind of frame.
    pub(super) fn plain_rule(
        &self,
        address: u64,
        module: Module<'_>,
        modules: &dyn Modules,
    ) -> Option<PlainRule> {
        let table = module.table?;
        let svma = address.wrapping_sub(module.bias);
        let next = svma.wrapping_add(1);
        let may_be_injected = || table.is_go_code(svma) && table.function_start(next) == Some(next);
        if table.switch_at(next).is_some() || may_be_injected() {
            return None;
        }
        let mut has_frame_at_start = false;
        let mut rule = match table.find(svma) {
            Found::Rule(rule) => {
                has_frame_at_start = rule.rule.has_frame_at_start;
                PlainRule::new(rule, self.arch, table.is_go_code(svma))?
            }
            Found::NoFde => PlainRule::of_go_frame(table.go_frame_size(svma)?)?,
            Found::Bad => return None,
        };
        if go::is_signal_return(svma, (table, module.bias), modules) {
            return None;
        }
        if rule.is_one_word(self.arch) && thunk_before(svma, table, module.bias, modules).is_some()
        {
            rule.doubt = Doubt::Inconclusive;
        }
        // The lookup address of a caller is within its call.
        if self.arch == Arch::Aarch64 && address.is_multiple_of(4) {
            let mut code = [0; MAX_EPILOGUE];
            let len = modules.code(address, &mut code);
            let start = table.function_start(svma);
            let leaves = |target| {
                let other = table.function_start(target);
                other == Some(target) && other != start
            };
            let code = code.get(..len).unwrap_or(&[]);
            if is_behind_epilogue(code, svma, leaves) {
                rule.doubt = Doubt::Inconclusive;
            }
        }
        if has_frame_at_start && let Some(start) = table.function_start(svma) {
            let image = (table, module.bias);
            rule.is_shared = (self.calls.edges).shares_rule(start, image, modules);
        }
        if rule.doubt == Doubt::None && !rule.is_shared {
            self.correct(&mut rule, svma, module, modules);
        }
        Some(rule)
    }

    /// Corrects a rule by the code from the start of its row on.
    fn correct(&self, rule: &mut PlainRule, svma: u64, module: Module<'_>, modules: &dyn Modules) {
        let by_frame_pointer = rule.uses(self.arch.fp());
        if !self.arch.is_x86() || !(by_frame_pointer || rule.uses(self.arch.sp())) {
            return;
        }
        let row = module.table.and_then(|table| table.row_at(svma));
        let code = (module, modules);
        let moved =
            row.and_then(|row| simulate::undescribed_move(svma, row, by_frame_pointer, code));
        match moved {
            None => {}
            Some(UndescribedMove::Pushed(pushed)) => rule.set_moved(pushed),
            Some(UndescribedMove::Overwritten) => rule.doubt = Doubt::Overwritten,
        }
    }

    /// Returns the caller of a frame in assembly that has one rule for several functions, such as
    /// LuaJIT's interpreter: some have no frame, and no prologue is described. The evidence, in this order:
    ///
    /// 1. The code ahead returns, and the call before the return address leads to the frame.
    /// 2. The frame is not complete: the code from the call's target to the frame has pushed so much.
    /// 3. The frame of LuaJIT's interpreter.
    /// 4. The rule, if the call before the return address leads to the frame.
    #[cold]
    pub(super) fn where_rule_is_shared(
        &self,
        rule: PlainRule,
        frame: StackFrame,
        registers: &mut Registers,
        memory: &dyn Memory,
        modules: &dyn Modules,
        blobs: &BlobCache,
    ) -> Result<(Caller, FoundBy), UnwindOutcome> {
        let (address, sp) = (frame.address, registers.sp());
        let bad = UnwindOutcome::Truncated(TruncationReason::BadCfi { address });
        let module = self.module_at(frame.lookup_address(), modules);
        let Some((module, table)) = module.and_then(|module| Some((module, module.table?))) else {
            return Err(bad);
        };
        let context = self.context(frame, Some(module), memory, modules, blobs);
        if let Ok(found) = self.by_described_code(&context, table, module.bias, registers) {
            return Ok(found);
        }
        let word = self.arch.word_size();
        let size = rule.frame_size(self.arch).unwrap_or(0);
        let image = (table, module.bias);
        let slots = (0..=size).step_by(word as usize);
        let found = slots.into_iter().find(|depth| {
            let to = self.arch.read_word(memory, sp.wrapping_add(*depth));
            let leads =
                |to| (self.calls.edges).leads_with_depth(to, (address, *depth), image, modules);
            to.is_some_and(leads)
        });
        if let Some(depth) = found {
            let caller = rule.apply_in_prologue(sp.wrapping_add(depth), registers, memory);
            let fault = |fault| UnwindOutcome::Truncated(cause(fault, address, sp));
            return caller.map(|caller| (caller, FoundBy::Cfi)).map_err(fault);
        }
        if frame.kind != FrameKind::Caller && self.is_in_prologue(address, modules) {
            return Err(bad);
        }
        if let Some(caller) = luajit::step(registers, memory, modules) {
            return Ok((caller, FoundBy::Cfi));
        }
        let mut callers = *registers;
        let caller = rule.apply(&mut callers, memory);
        let caller = caller.map_err(|fault| UnwindOutcome::Truncated(cause(fault, address, sp)))?;
        if !caller
            .return_address
            .is_some_and(|to| context.is_caller(to))
        {
            return Err(bad);
        }
        *registers = callers;
        Ok((caller, FoundBy::Cfi))
    }

    /// Returns true if the next instructions still make a frame.
    fn is_in_prologue(&self, ip: u64, modules: &dyn Modules) -> bool {
        let mut code = [0; MAX_PROLOGUE];
        let len = modules.code(ip, &mut code);
        simulate::makes_frame(self.arch, code.get(..len).unwrap_or(&[]))
    }

    /// Returns the caller of a frame whose rule the code contradicts. Inline assembly and functions without
    /// prologue (`naked`) move the stack pointer without description. Behind an inline thunk, gcc
    /// describes the frame of the thunk (`-mindirect-branch=thunk-inline`). The code ahead decides, but not
    /// against the code before. If it is inconclusive, the call before the return address must lead to
    /// the frame.
    #[cold]
    pub(super) fn where_rule_is_doubtful(
        &self,
        rule: PlainRule,
        frame: StackFrame,
        registers: &mut Registers,
        memory: &dyn Memory,
        modules: &dyn Modules,
        blobs: &BlobCache,
    ) -> Result<(Caller, FoundBy), UnwindOutcome> {
        let (address, sp) = (frame.address, registers.sp());
        let module = self.module_at(frame.lookup_address(), modules);
        let context = self.context(frame, module, memory, modules, blobs);
        let size = (rule.frame_size(self.arch)).filter(|_| rule.doubt == Doubt::Moved);
        let slot = size.map(|size| sp.wrapping_add(size));
        let mut unreadable = None;
        if let Some(module) = module
            && let Some(table) = module.table
        {
            let mut callers = *registers;
            let found = self.by_described_code(&context, table, module.bias, &mut callers);
            // Code that has popped the return address jumps to it: it has no slot.
            let has_popped = slot == Some(sp.wrapping_sub(self.arch.word_size()));
            unreadable = found.err().flatten();
            if let Ok((caller, by)) = found
                && slot.is_none_or(|slot| slot == caller.slot || has_popped && caller.slot == 0)
            {
                *registers = callers;
                return Ok((caller, by));
            }
            let found = self.by_rule_before_thunk(&context, table, module.bias, registers);
            if let Some(found) = found.filter(|_| slot.is_none()) {
                return Ok(found);
            }
        }
        if rule.doubt != Doubt::Overwritten {
            let mut callers = *registers;
            let caller = rule.apply(&mut callers, memory);
            let caller =
                caller.map_err(|fault| UnwindOutcome::Truncated(cause(fault, address, sp)))?;
            let may_be_root = rule.has_no_frame(self.arch);
            let is_caller = |to| (to == 0 && may_be_root) || context.is_caller(to & self.mask);
            if caller.return_address.is_none_or(is_caller) {
                *registers = callers;
                return Ok((caller, FoundBy::Cfi));
            }
        }
        if let Some(root) = context.root_at(address) {
            return Err(UnwindOutcome::Complete(root));
        }
        // The function has called on another stack, and goes back to its own.
        Err(match unreadable {
            Some(slot) if rule.doubt == Doubt::Overwritten => on_other_stack(frame, slot),
            _ => UnwindOutcome::Truncated(TruncationReason::BadCfi { address }),
        })
    }

    /// Returns the caller of a frame whose plain rule needs an unknown register.
    #[cold]
    pub(super) fn where_register_is_missing(
        &self,
        frame: StackFrame,
        registers: &mut Registers,
        memory: &dyn Memory,
        modules: &dyn Modules,
        blobs: &BlobCache,
    ) -> Option<(Caller, FoundBy)> {
        let module = self.module_at(frame.lookup_address(), modules)?;
        let context = self.context(frame, Some(module), memory, modules, blobs);
        self.where_rules_fail(&context, module.table?, module.bias, registers)
    }

    /// Returns the caller by the rule that holds before the first inline thunk of the function, if the
    /// call before the return address leads to the frame.
    fn by_rule_before_thunk(
        &self,
        context: &Context<'_>,
        table: &UnwindTable,
        bias: u64,
        registers: &mut Registers,
    ) -> Option<(Caller, FoundBy)> {
        let svma = context.address.wrapping_sub(bias);
        let thunk = thunk_before(svma, table, bias, context.modules)?;
        // The thunk's own call is on the stack.
        if svma - thunk < THUNK {
            return None;
        }
        let Found::Rule(rule) = table.find(thunk) else {
            return None;
        };
        let mut callers = *registers;
        let caller = step::apply(rule, &mut callers, context.memory).ok()?;
        let to = caller.return_address?;
        context.is_caller(to).then(|| {
            *registers = callers;
            (caller, FoundBy::Cfi)
        })
    }

    /// Simulates the rest of a function with call frame information. The error is the slot of a return
    /// address that could not be read.
    fn by_described_code(
        &self,
        context: &Context<'_>,
        table: &UnwindTable,
        bias: u64,
        registers: &mut Registers,
    ) -> Result<(Caller, FoundBy), Option<u64>> {
        let start = table.function_start(context.address.wrapping_sub(bias));
        let code = DescribedCode {
            context,
            table,
            bias,
            start: start.ok_or(None)?,
        };
        let cache = (&self.simulations, context.modules.generation());
        match simulate::simulate_to_return(registers, context.memory, &code, cache) {
            Exit::Return { address, slot } => {
                let caller = Caller {
                    return_address: Some(address),
                    slot,
                    interrupted: false,
                };
                Ok((caller, FoundBy::Code))
            }
            Exit::Unreadable(slot) => Err(Some(slot)),
            _ => Err(None),
        }
    }

    /// Returns the caller of a frame whose rule needs a register or a word that was not recorded. The
    /// call before the return address must lead to the frame.
    ///
    /// - Assembly may keep the canonical frame address in a caller-saved register that its callees do
    ///   not change (AES-GCM in OpenSSL). As in other unwinders, registers without a rule then keep
    ///   their value.
    /// - The frame pointer is unknown behind code of libgcc that overwrites saved registers. The code from the
    ///   function's start to the frame gives the size of the frame instead (`rust_panic`).
    /// - The rule may read the red zone below the stack pointer, which is not copied (SHA-512 in
    ///   OpenSSL). The rest of the code is simulated instead.
    #[cold]
    pub(super) fn where_rules_fail(
        &self,
        context: &Context<'_>,
        table: &UnwindTable,
        bias: u64,
        registers: &mut Registers,
    ) -> Option<(Caller, FoundBy)> {
        if !self.arch.is_x86() {
            return None;
        }
        let svma = context.address.wrapping_sub(bias);
        let Found::Rule(rule) = table.find(svma) else {
            return None;
        };
        // What was refused stays refused: the frame may be overwritten.
        if rule.leaves_frames(self.arch) {
            return None;
        }
        if context.exact {
            return (self.by_described_code(context, table, bias, registers)).ok();
        }
        if let Some(mut all) = registers.restore_all()
            && let Ok(caller) = step::apply(rule, &mut all, context.memory)
        {
            let is_caller = caller
                .return_address
                .is_some_and(|at| context.is_caller(at));
            return (is_caller && all.sp() > registers.sp()).then(|| {
                *registers = all;
                (caller, FoundBy::Cfi)
            });
        }
        let code = DescribedCode {
            context,
            table,
            bias,
            start: table.function_start(svma)?,
        };
        let entry = code.start.wrapping_add(bias);
        let caller = context.entered_at(entry, registers, &code)?;
        Some((caller, FoundBy::Code))
    }

    /// Returns the caller of a frame in a prologue of AArch64 that is not described: clang does so
    /// without asynchronous tables. The return address is still in its register, but not much of
    /// the frame is known.
    pub(super) fn in_prologue(
        &self,
        context: &Context<'_>,
        table: &UnwindTable,
        bias: u64,
        registers: &mut Registers,
    ) -> Option<(Caller, FoundBy)> {
        if !context.exact || self.arch != Arch::Aarch64 {
            return None;
        }
        let svma = context.address.wrapping_sub(bias);
        let Found::Rule(rule) = table.find(svma) else {
            return None;
        };
        let has_no_frame = rule.rule.cfa == Cfa::Register(self.arch.sp(), 0)
            && rule.rule.return_address == Value::Default;
        if !has_no_frame {
            return None;
        }
        let start = table.function_start(svma)?;
        let mut code = [0; MAX_UNDESCRIBED];
        let code = code.get_mut(..usize::try_from(svma - start).ok()?)?;
        let len = context.modules.code(start.wrapping_add(bias), code);
        if !simulate::moves_stack(code.get(..len)?) {
            return None;
        }
        let found = self.by_described_code(context, table, bias, registers);
        found.ok().or_else(|| {
            let caller = step::apply(rule, registers, context.memory).ok()?;
            registers.keep(0);
            Some((caller, FoundBy::JustCalled))
        })
    }

    /// Returns the caller by call frame information, if the table covers the frame.
    pub(super) fn by_table(
        &self,
        frame: StackFrame,
        table: &UnwindTable,
        bias: u64,
        registers: &mut Registers,
        memory: &dyn Memory,
        modules: &dyn Modules,
    ) -> Option<Result<(Caller, FoundBy), UnwindOutcome>> {
        let address = frame.address;
        let svma = frame.lookup_address().wrapping_sub(bias);
        if go::is_signal_return(svma, (table, bias), modules) {
            let caller = signal_context::step(registers, memory, modules);
            let reason = TruncationReason::NoUnwindInfo { address };
            return Some(
                caller
                    .map(|caller| (caller, FoundBy::SignalContext))
                    .ok_or(UnwindOutcome::Truncated(reason)),
            );
        }
        let rule = match table.find(svma) {
            Found::Rule(rule) => rule,
            Found::Bad => {
                return Some(Err(UnwindOutcome::Truncated(TruncationReason::BadCfi {
                    address,
                })));
            }
            Found::NoFde => {
                let size = table.go_frame_size(svma)?;
                let rule = PlainRule::of_go_frame(size)?;
                let sp = registers.sp();
                return Some(match rule.apply(registers, memory) {
                    Ok(caller) => Ok((caller, FoundBy::Cfi)),
                    Err(fault) => Err(UnwindOutcome::Truncated(cause(fault, address, sp))),
                });
            }
        };
        // The call frame information of AArch64's signal return skips the interrupted function.
        if rule.rule.signal && self.arch == Arch::Aarch64 {
            let Some(caller) = signal_context::step(registers, memory, modules) else {
                return Some(Err(UnwindOutcome::Truncated(TruncationReason::BadCfi {
                    address,
                })));
            };
            return Some(Ok((caller, FoundBy::SignalContext)));
        }
        if self.arch == Arch::X86_64
            && let Cfa::Expression(index) = rule.rule.cfa
        {
            let cfa = rule.expression(index);
            let caller = match frame.kind {
                FrameKind::Caller if sbcl::called_lisp(address, cfa, modules) => {
                    Some(sbcl::caller_of_c(registers, memory))
                }
                FrameKind::Caller => None,
                _ if sbcl::may_be_end(address, cfa, modules) => {
                    let reason = TruncationReason::BadCfi { address };
                    return Some(Err(UnwindOutcome::Truncated(reason)));
                }
                _ => sbcl::caller_of_end(address, registers, memory, modules),
            };
            if let Some(caller) = caller {
                let outcome = UnwindOutcome::Complete(Root::SwitchedStack);
                return Some(
                    caller
                        .map(|caller| (caller, FoundBy::FramePointer))
                        .ok_or(outcome),
                );
            }
        }
        let sp = registers.sp();
        let fault = |fault| UnwindOutcome::Truncated(cause(fault, address, sp));
        if rule.rule.signal || !rule.leaves_frames(self.arch) {
            let caller = step::apply(rule, registers, memory);
            return Some(caller.map(|caller| (caller, FoundBy::Cfi)).map_err(fault));
        }
        let mut callers = *registers;
        let caller = match step::apply(rule, &mut callers, memory) {
            Ok(caller) => caller,
            Err(missing) => return Some(Err(fault(missing))),
        };
        let edges = &self.calls.edges;
        let returns =
            |to| may_be_behind_call(to, modules) && edges.is_possible(to, address, modules);
        let bad = UnwindOutcome::Truncated(TruncationReason::BadCfi { address });
        if rule.has_left_frames(self.arch) || !caller.return_address.is_none_or(returns) {
            return Some(Err(bad));
        }
        if overwrites_frame(address, table, bias, modules) {
            let start = table.function_start(address.wrapping_sub(bias));
            let start = start.map(|start| start.wrapping_add(bias));
            let leads = |to| {
                callee(to, modules)
                    .zip(start)
                    .is_some_and(|(callee, start)| edges.jumps_to(callee, start, modules))
            };
            if !caller.return_address.is_none_or(leads) {
                return Some(Err(bad));
            }
            callers.keep(1 << self.arch.sp());
        }
        *registers = callers;
        Some(Ok((caller, FoundBy::Cfi)))
    }
}

/// The code of a function with call frame information. Jumps within the function do not leave it.
struct DescribedCode<'a, 'c> {
    context: &'a Context<'c>,
    table: &'a UnwindTable,
    bias: u64,
    /// SVMA at which the function starts.
    start: u64,
}

impl simulate::CodeSource for DescribedCode<'_, '_> {
    fn read(&self, avma: u64, into: &mut [u8]) -> usize {
        self.context.modules.code(avma, into)
    }

    fn is_described(&self, avma: u64) -> bool {
        self.table.function_start(avma.wrapping_sub(self.bias)) != Some(self.start)
    }

    fn is_return_address(&self, avma: u64) -> bool {
        self.context.is_caller(avma)
    }
}

/// Returns the SVMA of the first inline thunk of a function before an address in it.
fn thunk_before(svma: u64, table: &UnwindTable, bias: u64, modules: &dyn Modules) -> Option<u64> {
    let start = table.function_start(svma)?;
    let start = start.max(svma.saturating_sub(MAX_BEHIND));
    let mut code = [0; MAX_BEHIND as usize];
    let code = code.get_mut(..(svma - start) as usize)?;
    let len = modules.code(start.wrapping_add(bias), code);
    let thunk = simulate::inline_thunk(code.get(..len)?)?;
    Some(start + thunk as u64)
}

/// Returns true if the saved registers and the return address of a function that leaves its callers'
/// frames (`RuleRef::leaves_frames`) may be overwritten by those of the frame that handles the
/// exception: at most one call, of `_Unwind_DebugHook`, is before the function's end. The distance
/// decides where the code is unreadable.
fn overwrites_frame(address: u64, table: &UnwindTable, bias: u64, modules: &dyn Modules) -> bool {
    let svma = address.wrapping_sub(bias);
    let Some((end, next)) = table.next_rule(svma) else {
        return false;
    };
    let is_end = next.leaves_frames(table.arch()) && next.has_left_frames(table.arch());
    let mut code = [0; MAX_TO_END];
    let Some(code) = code.get_mut(..(end - svma) as usize).filter(|_| is_end) else {
        return false;
    };
    if modules.code(address, code) < code.len() {
        return code.len() <= TO_END;
    }
    let mut decoder = Decoder::new(table.arch().bits(), code, DecoderOptions::NONE);
    let calls = (decoder.iter()).filter(|one| one.flow_control() == FlowControl::Call);
    calls.count() <= 1
}
