//! Evidence beside the code ahead: the code before the frame, and results of system calls.

use super::{BEFORE, Context, called};
use crate::modules::{any_call_target, copy, is_image_of, linkage_slot, pointer};
use crate::step::Caller;
use crate::table::{Found, Value};
use crate::{Registers, code, simulate};

/// DWARF number of rax and eax.
const RESULT: u8 = 0;

impl Context<'_> {
    /// Returns the caller by the code before the frame: see `simulate::entered_by`.
    pub(super) fn by_entry(&self, registers: &mut Registers) -> Option<Caller> {
        let module = self.module?;
        let image = (module.table?, module.bias);
        let entry_of = |address| {
            let target = any_call_target(address, self.modules)?;
            let entry = match linkage_slot(target, self.modules) {
                Some(slot) => pointer(slot, self.modules)?,
                None => target,
            };
            let is_entry = is_image_of(entry, image, self.modules) && self.is_caller(address);
            is_entry.then_some(entry)
        };
        let found = simulate::entered_by(registers, self.memory, self, entry_of);
        if let Some((address, slot)) = found {
            return Some(called(address, slot));
        }
        // Called through a pointer, as `main` and the first functions of threads.
        let entries = simulate::entries_before(registers.ip(), self).into_iter();
        let mut found = entries.filter_map(|entry| {
            let mut callers = *registers;
            let caller = self.entered_at(entry, &mut callers, self)?;
            Some((caller, callers))
        });
        let (caller, callers) = found.next()?;
        if found.any(|(other, _)| other.slot != caller.slot) {
            return None;
        }
        *registers = callers;
        Some(caller)
    }

    /// Returns the caller of a frame of the function at `entry`. For functions that do not return.
    pub(crate) fn entered_at(
        &self,
        entry: u64,
        registers: &mut Registers,
        code: &dyn simulate::CodeSource,
    ) -> Option<Caller> {
        let depth = simulate::depth_from(entry, registers, self.memory, code)?;
        let slot = registers.sp().wrapping_add(depth);
        let address = self.word(slot)?;
        if !self.is_caller(address) && !self.is_root(address) {
            return None;
        }
        let entry_of = |other| (other == address).then_some(entry);
        let (address, slot) = simulate::entered_by(registers, self.memory, code, entry_of)?;
        Some(called(address, slot))
    }

    /// Returns the address to which the result of a system call leads, behind the branches that test it.
    /// A thread at birth has its parent's registers, but for the result, and a stack without callers.
    pub(super) fn behind_system_call(&self, registers: &Registers) -> Option<u64> {
        let has_table = self.module.is_some_and(|module| module.table.is_some());
        if !(self.exact && has_table && self.arch.is_x86()) {
            return None;
        }
        let (ip, result) = (registers.ip(), registers.get(RESULT)?);
        let around = self.code_around(ip);
        let (before, behind) = around.split_at_checked(BEFORE)?;
        code::behind_result_test(self.arch, before, (behind, ip), result)
    }

    /// Copies bytes of the stack copy. Returns their number.
    pub(super) fn read_stack(&self, avma: u64, into: &mut [u8]) -> usize {
        let mut len = 0;
        for (at, piece) in (avma..).step_by(8).zip(into.chunks_mut(8)) {
            let Some(word) = self.memory.read_u64(at) else {
                break;
            };
            len += copy(&word.to_le_bytes(), piece);
        }
        len
    }

    /// Returns false for code that a signal handler does not return to, where the words of an old signal frame may
    /// lie on the stack. In sampled frames, returns true only behind the system call.
    pub(super) fn may_be_in_signal_return(&self, ip: u64) -> bool {
        if self.exact {
            let around = self.code_around(ip);
            let before = around.split_at_checked(BEFORE);
            return before
                .is_some_and(|(before, _)| code::ends_with_signal_return(self.arch, before));
        }
        let mut bytes = [0; code::LEN];
        let len = simulate::CodeSource::read(self, ip, &mut bytes);
        let code = bytes.get(..len).unwrap_or(&[]);
        // The process may have ended.
        len == 0 || code::is_signal_return(self.arch, code)
    }

    /// Returns true if call frame information ends the stack at this address.
    pub(super) fn is_root(&self, avma: u64) -> bool {
        self.modules.find(avma).is_some_and(|module| {
            let svma = avma.wrapping_sub(module.bias);
            let found = module.table.map(|table| table.find(svma));
            matches!(found, Some(Found::Rule(rule)) if rule.rule.return_address == Value::Undefined)
        })
    }
}
