//! Unwinds one frame without call frame information (CFI), by evidence or by checked guesses, in
//! this order:
//!
//! 1. A signal frame, recognised by its contents.
//! 2. The root: code at the entry point, or code that exits after the call. Then by runtime: Go
//!    callers always keep frame pointers. Code without an image uses HotSpot's frames, see
//!    [`hotspot`]. Erlang code that called C ends a scheduler's stack. SBCL code may have prepared
//!    its callee's frame. i386 has no such runtimes.
//! 3. A simulation of the code up to its return, with bytes of the table's copy or of
//!    [`Modules::code`]; of the stack copy for trampolines. If none is reached, the code before the frame,
//!    from the target of the call or, if that is unknown, from where a function may start. Without an
//!    image, LuaJIT's and Guile's frames, see [`runtimes`](crate::runtimes).
//! 4. Only in sampled and interrupted frames, if the image has CFI for other functions or nothing
//!    is mapped: a return address where a call puts it. Such images rarely keep frame pointers, and
//!    the register often still belongs to the caller. In x86 images, the call must be direct, or of
//!    a bytecode handler of V8.
//! 5. The frame pointer, if it points up the stack, is aligned, and has a return address beside it.
//!    In sampled x86 frames only if the code ahead does not contradict it: in a prologue the
//!    register belongs to the caller. See [`first_frame_pointer`](Context::first_frame_pointer).
//! 6. Step 4 for all other code. On x86 only if the code is readable.
//!
//! Frame pointers and return addresses on top of the stack are accepted only if the call before the
//! return address can have led to the frame: see [`CallEdges`].
//!
//! The stack is full of stale return addresses: the code must show in which slot one is.

mod beside;

use crate::branch::runs_to;
use crate::call_edges::CallEdges;
use crate::code::SyntheticReturn;
use crate::hotspot::{self, BlobCache};
use crate::modules::{call_target, copy, read_code, word_at};
use crate::runtimes::{beam, guile, luajit, sbcl, v8};
use crate::signal_context;
use crate::simulate::{self, Exit, FramePointerUse, SimulationCache};
use crate::step::Caller;
use crate::{Arch, FoundBy, Memory, Module, Modules, Registers, Root, UnwindTable, arch, code};
use std::cell::Cell;

/// Maximum distance in bytes of a frame pointer above the stack pointer.
const MAX_FRAME: u64 = 16 << 20;

const BEFORE: usize = 7;

#[derive(Default)]
struct Around {
    bytes: [u8; BEFORE + code::LEN],
    len: usize,
}

impl std::ops::Deref for Around {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }
}

pub(crate) enum Outcome {
    Caller(Caller, FoundBy),
    Root(Root),
    Nothing,
    /// The caller should be there, but this address is unreadable.
    Unreadable(u64),
}

pub(crate) struct Context<'a> {
    pub(crate) memory: &'a dyn Memory,
    pub(crate) modules: &'a dyn Modules,
    /// Module at the address. `None`: it is not mapped.
    pub(crate) module: Option<Module<'a>>,
    /// True if the frame was sampled or interrupted.
    pub(crate) exact: bool,
    /// Lookup address of the frame.
    pub(crate) address: u64,
    /// Evidence by which the frame was found.
    pub(crate) found_by: FoundBy,
    pub(crate) arch: Arch,
    pub(crate) blobs: &'a BlobCache,
    pub(crate) simulations: &'a SimulationCache,
    /// Checks of callers.
    pub(crate) edges: &'a CallEdges,
    /// Return address that ends an Erlang process.
    pub(crate) process_end: Cell<Option<u64>>,
}

impl Context<'_> {
    /// Replaces the registers by the caller's, if one is found.
    pub(crate) fn step(&self, registers: &mut Registers) -> Outcome {
        let mut callers = *registers;
        if let Some(ip) = self.behind_system_call(registers) {
            if self.is_root(ip) {
                return Outcome::Root(Root::UndefinedReturnAddress);
            }
            callers.set_ip(ip);
        }
        let outcome = self.find_caller(&mut callers);
        if let Outcome::Caller(caller, _) = outcome {
            *registers = callers;
            let end = self.process_end.get();
            if end.is_some() && end == caller.return_address {
                return Outcome::Root(Root::EndOfProcess);
            }
        }
        outcome
    }

    fn find_caller(&self, registers: &mut Registers) -> Outcome {
        if self.may_be_in_signal_return(registers.ip())
            && let Some(caller) = signal_context::step(registers, self.memory, self.modules)
        {
            return Outcome::Caller(caller, FoundBy::SignalContext);
        }
        if let Some(root) = self.root_at(registers.ip()) {
            return Outcome::Root(root);
        }
        let has_runtimes = self.arch != Arch::X86;
        if has_runtimes && self.module.is_some_and(|module| module.table.is_none()) {
            match hotspot::step(self.blobs, registers, self.memory, self, self.exact) {
                hotspot::Outcome::Caller(caller, by) => return Outcome::Caller(caller, by),
                hotspot::Outcome::Nothing => return Outcome::Nothing,
                hotspot::Outcome::NotMine => {}
            }
            if self.exact
                && let Some(callers) = sbcl::before_call(registers, self.memory, self.modules)
            {
                *registers = callers;
                return self.frame_pointer(registers);
            }
            if !self.exact && beam::is_on_scheduler(registers, self.modules) {
                self.blobs.set_runs_erlang();
                return Outcome::Root(Root::SwitchedStack);
            }
            if !self.exact
                && let Some(outcome) = self.erlang(registers)
            {
                return outcome;
            }
        }
        let keeps = self.module.and_then(|module| module.table);
        if !self.exact && keeps.is_some_and(UnwindTable::keeps_frame_pointers) {
            match self.frame_pointer(registers) {
                Outcome::Nothing => {}
                outcome => return outcome,
            }
        }
        // The first entry of a PLT pushes two words, which the called code removes.
        if self.pushed_by_plt(registers).is_some()
            && let Some(caller) = self.just_called(registers, false)
        {
            return Outcome::Caller(caller, FoundBy::JustCalled);
        }
        let mut unreadable = None;
        let cache = (self.simulations, self.modules.generation());
        match simulate::simulate_to_return(registers, self.memory, self, cache) {
            Exit::Return { address, slot } => {
                return Outcome::Caller(called(address, slot), FoundBy::Code);
            }
            Exit::End => return Outcome::Root(Root::ExitFollows),
            _ if let Some(caller) = self.by_entry(registers) => {
                return Outcome::Caller(caller, FoundBy::Code);
            }
            // The code of an image shows the slot. A frame pointer would skip the caller.
            Exit::Unreadable(address) if keeps.is_some() => return Outcome::Unreadable(address),
            Exit::Unreadable(address) => unreadable = Some(address),
            Exit::Lost => {}
        }
        if self.module.is_some_and(|module| module.table.is_none())
            && let Some((caller, by)) = self.by_runtime(registers)
        {
            return Outcome::Caller(caller, by);
        }
        let described = self
            .module
            .is_none_or(|module| module.table.is_some_and(UnwindTable::has_cfi));
        if self.exact
            && described
            && self.may_have_just_called(registers)
            && let Some(caller) = self.just_called(registers, false)
        {
            return Outcome::Caller(caller, FoundBy::JustCalled);
        }
        let found = match self.exact {
            true => self.first_frame_pointer(registers),
            false => self.frame_pointer(registers),
        };
        match found {
            Outcome::Nothing => unreadable.map_or(Outcome::Nothing, Outcome::Unreadable),
            outcome => outcome,
        }
    }

    /// Returns the caller of a sampled frame by its frame pointer, if the frame owns it.
    ///
    /// The code ahead decides, or else the top of the stack: a return address there, or the frame
    /// pointer below one, means that at most the first instruction of a prologue was executed.
    fn first_frame_pointer(&self, registers: &mut Registers) -> Outcome {
        match self.frame_pointer_use(registers) {
            FramePointerUse::CallersFrame { is_first: true } => self.last_resort(registers, true),
            FramePointerUse::CallersFrame { is_first: false } => Outcome::Nothing,
            FramePointerUse::HandedFrame => self.handed_frame(registers),
            FramePointerUse::OwnFrame if !self.arch.is_x86() => self.frame_pointer(registers),
            FramePointerUse::OwnFrame => match self.follow_frame_pointer(registers) {
                Outcome::Nothing => self.last_resort(registers, false),
                outcome => outcome,
            },
            FramePointerUse::Unknown | FramePointerUse::Unreadable
                if !self.has_return_address(registers) =>
            {
                self.frame_pointer(registers)
            }
            FramePointerUse::Unknown => match self.frame_pointer(&mut registers.clone()) {
                Outcome::Nothing => self.last_resort(registers, false),
                _ => Outcome::Nothing,
            },
            FramePointerUse::Unreadable => Outcome::Nothing,
        }
    }

    fn frame_pointer_use(&self, registers: &Registers) -> FramePointerUse {
        simulate::frame_pointer_use(self.arch, (registers.ip(), self.exact), self)
    }

    /// Returns true if a return address may be on top of the stack or in the link register.
    fn has_return_address(&self, registers: &Registers) -> bool {
        match self.arch {
            Arch::Aarch64 => {
                let linked = registers.get(arch::aarch64::LR);
                let linked = linked.map(|address| address & self.arch.address_mask());
                linked.is_some_and(|at| self.is_caller(at) && !self.goes_on(at, registers.ip()))
            }
            _ => self.return_on_top(registers, true).is_some(),
        }
    }

    /// Returns false if the code ahead shows that the link register of AArch64 has another value.
    fn may_have_just_called(&self, registers: &Registers) -> bool {
        let not_first = FramePointerUse::CallersFrame { is_first: false };
        let not_linked = [not_first, FramePointerUse::OwnFrame];
        self.arch.is_x86() || !not_linked.contains(&self.frame_pointer_use(registers))
    }

    /// Returns the caller if it has prepared the callee's frame, with the return address on top of
    /// the stack.
    fn handed_frame(&self, registers: &mut Registers) -> Outcome {
        let (arch, slot) = (self.arch, registers.sp());
        let frame = registers
            .frame_pointer()
            .filter(|fp| fp.wrapping_sub(slot) <= MAX_FRAME);
        let saved = frame.and_then(|fp| Some((fp, self.word(fp)?)));
        let (Some((fp, saved)), Some(address)) = (saved, self.word(slot)) else {
            return Outcome::Nothing;
        };
        if !self.is_return(address) {
            return Outcome::Nothing;
        }
        registers.keep(0);
        registers.set(arch.sp(), fp.wrapping_add(2 * arch.word_size()));
        registers.set(arch.fp(), saved);
        Outcome::Caller(called(address, slot), FoundBy::FramePointer)
    }

    fn word(&self, avma: u64) -> Option<u64> {
        self.arch.read_word(self.memory, avma)
    }

    fn last_resort(&self, registers: &mut Registers, prologue: bool) -> Outcome {
        let caller = self.just_called(registers, prologue);
        caller.map_or(Outcome::Nothing, |caller| {
            Outcome::Caller(caller, FoundBy::JustCalled)
        })
    }

    /// Returns the caller of an Erlang function that made a call: its part of the stack ends with
    /// the return address, or with a frame pointer below it.
    fn erlang(&self, registers: &mut Registers) -> Option<Outcome> {
        let arch = registers.arch();
        let fp = registers.frame_pointer();
        let is_outermost = fp.is_some_and(|fp| self.memory.read_u64(fp) == Some(0));
        if !(is_outermost || self.blobs.runs_erlang()) {
            return None;
        }
        let (slot, word) = match beam::first_address(registers.sp(), self.memory)? {
            Ok(found) => found,
            Err(slot) => return (self.blobs.runs_erlang()).then_some(Outcome::Unreadable(slot)),
        };
        let has_frame_pointer = fp == Some(slot);
        let (slot, address) = match has_frame_pointer {
            true => (
                slot.wrapping_add(8),
                self.memory.read_u64(slot.wrapping_add(8))?,
            ),
            false => (slot, word),
        };
        // A process begins with a frame pointer of 0, which identifies Erlang.
        let begins = has_frame_pointer && word == 0;
        if !(begins || self.blobs.runs_erlang()) {
            return None;
        }
        if !self.is_return(address) {
            return None;
        }
        if self.process_end.get() == Some(address) {
            return Some(Outcome::Root(Root::EndOfProcess));
        }
        if !self.blobs.runs_erlang() {
            return None;
        }
        registers.keep(arch.callee_saved());
        if has_frame_pointer {
            registers.set(arch.fp(), word);
        }
        registers.set(arch.sp(), slot.wrapping_add(8));
        Some(Outcome::Caller(called(address, slot), FoundBy::Code))
    }

    fn by_runtime(&self, registers: &mut Registers) -> Option<(Caller, FoundBy)> {
        let traced = luajit::step(registers, self.memory, self.modules);
        let traced = traced.map(|caller| (caller, FoundBy::Cfi));
        traced.or_else(|| {
            let caller = guile::step(registers, self.memory, self.modules)?;
            Some((caller, FoundBy::Code))
        })
    }

    /// Returns the evidence in the code that the frame at `ip` has no caller.
    pub(crate) fn root_at(&self, ip: u64) -> Option<Root> {
        // A call that never returns may be the last instruction.
        let lookup = ip.wrapping_sub(u64::from(!self.exact));
        if let Some(module) = self.module
            && let Some(table) = module.table
            && table.is_entry_code(lookup.wrapping_sub(module.bias))
        {
            return Some(Root::EntryPoint);
        }
        if self.exact || !self.arch.is_x86() {
            return None;
        }
        let around = self.code_around(ip);
        let (before, behind) = around.split_at_checked(BEFORE)?;
        let ends = code::exits(self.arch, behind)
            || code::is_exit(self.arch, before, behind)
            || code::synthetic_return(self.arch, before, behind) == Some(SyntheticReturn::GoExit);
        ends.then_some(Root::ExitFollows)
    }

    fn code_around(&self, ip: u64) -> Around {
        self.around(ip, |avma, into| {
            simulate::CodeSource::read(self, avma, into)
        })
    }

    /// Returns the code around a return address. Empty unless all code before it is readable.
    fn around(&self, address: u64, read: impl Fn(u64, &mut [u8]) -> usize) -> Around {
        let mut around = Around::default();
        let start = address.wrapping_sub(BEFORE as u64);
        let len = read(start, &mut around.bytes).min(around.bytes.len());
        around.len = if len < BEFORE { 0 } else { len };
        around
    }

    /// Returns the caller of a frame that has pushed nothing yet, or with `prologue` the frame
    /// pointer.
    fn just_called(&self, registers: &mut Registers, prologue: bool) -> Option<Caller> {
        let (arch, ip) = (self.arch, registers.ip());
        let mask = arch.address_mask();
        let (address, slot) = match arch {
            Arch::Aarch64 => {
                let address = registers.get(arch::aarch64::LR)? & mask;
                match self.pushed_by_plt(registers) {
                    Some(true) => (address, registers.sp().wrapping_add(8)),
                    _ => (address, 0),
                }
            }
            Arch::X86_64 | Arch::X86 => self.return_on_top(registers, prologue)?,
        };
        // Any function may have been called through a pointer, and a stale address may be on top.
        let is_proven = prologue
            || self.module.is_none_or(|module| module.table.is_none())
            || match call_target(address, self.modules).flatten() {
                _ if !arch.is_x86() && self.is_in_plt(ip) => true,
                Some(to) if !arch.is_x86() => !self.is_in_plt(to) && !self.goes_on(address, ip),
                Some(_) => true,
                None => v8::is_handler(registers, address, self.memory, self.modules),
            };
        if !is_proven || !self.is_caller(address) {
            return None;
        }
        registers.keep(arch.callee_saved());
        if slot != 0 {
            registers.set(arch.sp(), slot.wrapping_add(arch.word_size()));
        } else if !prologue && !self.is_in_plt(ip) {
            // The code does not show how much of a frame there is.
            registers.forget(arch.sp());
            registers.forget(arch.fp());
        }
        Some(called(address, slot))
    }

    /// Returns true if code goes on from an earlier call to `ip`.
    fn goes_on(&self, address: u64, ip: u64) -> bool {
        runs_to(address, ip, |at| word_at(at, self.module?, self.modules))
    }

    fn is_in_plt(&self, ip: u64) -> bool {
        self.module.is_some_and(|module| {
            let svma = ip.wrapping_sub(module.bias);
            module.table.is_some_and(|table| table.is_plt(svma))
        })
    }

    /// Returns whether the first entry of an AArch64 PLT has pushed x16 and x30; `None` elsewhere.
    fn pushed_by_plt(&self, registers: &Registers) -> Option<bool> {
        const PUSH: [u8; 4] = 0xa9bf_7bf0_u32.to_le_bytes();
        let module = (self.module).filter(|_| self.exact && !self.arch.is_x86())?;
        let svma = registers.ip().wrapping_sub(module.bias);
        let start = module.table?.plt_header(svma)?;
        let mut code = [0; 8];
        let at = start.wrapping_add(module.bias);
        let len = read_code(module, self.modules, at, &mut code);
        let (words, _) = code.get(..len)?.as_chunks();
        // Static programs have no first entry. `bti c` may stand before.
        let push = words.iter().position(|word| *word == PUSH)?;
        Some(svma - start > 4 * push as u64)
    }

    /// Returns the return address on top of the stack and its slot. With `prologue`, the frame
    /// pointer may have been pushed after it. For x86.
    fn return_on_top(&self, registers: &Registers, prologue: bool) -> Option<(u64, u64)> {
        // The PLT pushes one word in an entry and another in its header.
        let in_plt = self.is_in_plt(registers.ip());
        let top = self.word(registers.sp())?;
        let is_pushed = prologue && registers.frame_pointer() == Some(top);
        let most = if in_plt { 2 } else { u64::from(is_pushed) };
        (0..=most).find_map(|words| {
            let slot = registers.sp().wrapping_add(words * self.arch.word_size());
            let address = self.word(slot)?;
            self.is_return(address).then_some((address, slot))
        })
    }

    /// Returns the caller by the frame pointer. `Nothing` if the register still belongs to the caller, which
    /// would be skipped: the call before the return address cannot have led here, or a sampled frame
    /// would have none, and the code ahead does not use the register as its own.
    fn frame_pointer(&self, registers: &mut Registers) -> Outcome {
        let mut callers = *registers;
        let outcome = self.follow_frame_pointer(&mut callers);
        let is_doubtful = match &outcome {
            Outcome::Caller(caller, _) => !self.is_possible_caller(caller.return_address),
            // The register of a frame that does not own it often points to words of 0.
            Outcome::Root(_) => self.exact && self.arch.is_x86(),
            Outcome::Nothing | Outcome::Unreadable(_) => false,
        };
        let is_refused = match self.arch {
            Arch::Aarch64 => {
                let is_callers = |used| matches!(used, FramePointerUse::CallersFrame { .. });
                is_doubtful || is_callers(self.frame_pointer_use(registers))
            }
            _ => is_doubtful && self.frame_pointer_use(registers) != FramePointerUse::OwnFrame,
        };
        if is_refused {
            return Outcome::Nothing;
        }
        *registers = callers;
        outcome
    }

    /// Returns true for a possible return address whose call can have led to this frame.
    pub(crate) fn is_caller(&self, address: u64) -> bool {
        self.is_return(address) && self.is_possible_caller(Some(address))
    }

    /// Returns false if the call before a return address cannot have led to this frame.
    fn is_possible_caller(&self, return_address: Option<u64>) -> bool {
        return_address
            .is_none_or(|address| self.edges.is_possible(address, self.address, self.modules))
    }

    fn follow_frame_pointer(&self, registers: &mut Registers) -> Outcome {
        let Some(fp) = registers.frame_pointer() else {
            return Outcome::Nothing;
        };
        if fp == 0 && self.found_by == FoundBy::FramePointer {
            return Outcome::Root(Root::NullFramePointer);
        }
        let above = fp.wrapping_sub(registers.sp());
        let size = self.arch.word_size();
        if fp % size != 0 || fp < registers.sp() || above > MAX_FRAME {
            return Outcome::Nothing;
        }
        let slot = fp.wrapping_add(size);
        let (Some(saved), Some(address)) = (self.word(fp), self.word(slot)) else {
            return Outcome::Unreadable(slot);
        };
        let address = address & self.arch.address_mask();
        if address == 0 && saved == 0 {
            return Outcome::Root(Root::NullReturnAddress);
        }
        if !self.is_return(address) {
            return Outcome::Nothing;
        }
        registers.keep(0);
        registers.set(self.arch.sp(), fp.wrapping_add(2 * size));
        registers.set(self.arch.fp(), saved);
        if !self.arch.is_x86() {
            // The record may lie anywhere in the caller's frame.
            registers.forget(self.arch.sp());
        }
        Outcome::Caller(called(address, slot), FoundBy::FramePointer)
    }

    fn ends_process(&self, address: u64) -> bool {
        let read = |avma, into: &mut [u8]| self.modules.code(avma, into);
        let ends = beam::ends_process(address, read);
        if ends {
            self.process_end.set(Some(address));
            self.blobs.set_runs_erlang();
        }
        ends
    }

    /// Returns true if the address is mapped and follows a call. Where code is unreadable, since its
    /// process has ended: true for generated code, for code with call frame information, which has no
    /// copy, and on AArch64, whose code keeps frame records.
    fn is_return(&self, address: u64) -> bool {
        let Some(inside) = address.checked_sub(1) else {
            return false;
        };
        let Some(module) = self.modules.find(inside).filter(|m| m.runs_on(self.arch)) else {
            return false;
        };
        let read = |avma, into: &mut [u8]| read_code(module, self.modules, avma, into);
        match self.around(address, read).split_at_checked(BEFORE) {
            None => {
                let described =
                    |table: &UnwindTable| table.covers(inside.wrapping_sub(module.bias));
                // A pointer into an executable stack is data, or leads to a trampoline that only jumps.
                let is_stack = || self.memory.read_u64(address & !7).is_some();
                let is_generated = || module.table.is_none() && !is_stack();
                !self.arch.is_x86() || module.table.is_some_and(described) || is_generated()
            }
            Some((before, behind)) if !self.arch.is_x86() => {
                code::ends_with_aarch64_call(before) || code::is_aarch64_signal_return(behind)
            }
            Some((before, behind)) => {
                let read = |avma, into: &mut [u8]| self.modules.code(avma, into);
                code::ends_with_call(before)
                    || code::synthetic_return(self.arch, before, behind).is_some()
                    || (self.arch != Arch::X86
                        && module.table.is_none()
                        && (self.blobs.is_return(address, read) || self.ends_process(address)))
            }
        }
    }
}

impl simulate::CodeSource for Context<'_> {
    fn read(&self, avma: u64, into: &mut [u8]) -> usize {
        let kept = self.module.and_then(|module| module.kept_code(avma));
        if let Some(kept) = kept {
            return copy(kept, into);
        }
        // A trampoline on the stack may be overwritten soon after the sample.
        let is_image = self.module.is_some_and(|module| module.table.is_some());
        match is_image || self.memory.read_u64(avma).is_none() {
            true => self.modules.code(avma, into),
            false => self.read_stack(avma, into),
        }
    }

    fn is_described(&self, avma: u64) -> bool {
        self.module.is_some_and(|module| {
            let svma = avma.wrapping_sub(module.bias);
            module.table.is_some_and(|table| table.covers(svma))
        })
    }

    fn begins_behind_call(&self, avma: u64) -> bool {
        self.module.is_some_and(|module| {
            let svma = avma.wrapping_sub(module.bias);
            let begins = |table: &UnwindTable| table.begins_behind_call(svma);
            self.is_described(avma) || module.table.is_some_and(begins)
        })
    }

    fn is_return_address(&self, avma: u64) -> bool {
        // Calls of generated code have no known targets.
        let has_targets = self.module.is_some_and(|module| module.table.is_some());
        self.is_return(avma) && (!has_targets || self.is_possible_caller(Some(avma)))
    }
}

fn called(address: u64, slot: u64) -> Caller {
    Caller {
        return_address: Some(address),
        slot,
        interrupted: false,
    }
}
