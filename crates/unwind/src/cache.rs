//! [`RuleCache`]: recently used rules of call frame information, by address.
//!
//! A program spends its time at few addresses, and lookups of mapping, image, row and rule repeat.
//! Most rules are plain: the canonical frame address (CFA) is a register plus an offset, and the
//! saved registers lie below it. Such a rule fits into a cache line with its address.
//!
//! An entry is valid for one state of the mappings ([`Modules::generation`]), so it cannot outlive
//! them.
//!
//! [`Modules::generation`]: crate::Modules::generation

use crate::expression::Fault;
use crate::step::{self, Caller};
use crate::table::{Cfa, RuleRef, Value};
use crate::{Arch, Memory, Registers, arch};

/// Number of entries, a power of two. The cache takes 1 MiB once it is used.
const ENTRIES: usize = 1 << 14;

/// Number of callee-saved registers of x86-64.
const MAX_SAVED: usize = 7;

/// Contradiction between code and the rule that describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doubt {
    None,
    /// The rule may be that of other code.
    Inconclusive,
    /// It has moved the stack pointer without description. The rule has the distance by the code.
    Moved,
    /// It has overwritten the register of the CFA.
    Overwritten,
}

/// A rule with CFA = register + offset, and all saved registers at fixed offsets from the CFA.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlainRule {
    cfa_offset: i32,
    cfa_register: u8,
    count: u8,
    return_address: i16,
    saved: [(u8, i16); MAX_SAVED],
    /// True for Go code. Its CFI omits that the caller's frame pointer is saved below the return
    /// address, where its own frame pointer points.
    is_go: bool,
    pub(crate) doubt: Doubt,
    /// True if functions without this frame have the rule as well.
    pub(crate) is_shared: bool,
}

impl PlainRule {
    /// Creates a plain rule. `None` for other kinds.
    pub(crate) fn new(rule: RuleRef<'_>, arch: Arch, is_go: bool) -> Option<Self> {
        let Cfa::Register(cfa_register, cfa_offset) = rule.rule.cfa else {
            return None;
        };
        let at_cfa = |value| match value {
            Value::AtCfa(offset) => i16::try_from(offset).ok(),
            _ => None,
        };
        let all = rule.saved();
        // Frames whose CFA is in a caller-saved register need a check.
        let keeps_cfa = arch.callee_saved() >> cfa_register & 1 != 0 || cfa_register == arch.sp();
        let is_plain = !rule.rule.signal && !rule.leaves_frames(arch);
        if !is_plain || all.len() > MAX_SAVED || !keeps_cfa {
            return None;
        }
        let mut saved = [(0, 0); MAX_SAVED];
        for (slot, one) in saved.iter_mut().zip(all) {
            if one.register == arch.sp() {
                return None;
            }
            *slot = (one.register, at_cfa(one.value)?);
        }
        let return_address = at_cfa(rule.rule.return_address)?;
        if return_address >= 0 {
            return None;
        }
        Some(Self {
            cfa_offset,
            cfa_register,
            count: all.len() as u8,
            return_address,
            saved,
            is_go: is_go && arch == Arch::X86_64,
            doubt: Doubt::None,
            is_shared: false,
        })
    }

    /// Creates the rule of Go code without call frame information, from the distance of the return
    /// address from the stack pointer.
    pub(crate) fn of_go_frame(size: u32) -> Option<Self> {
        let word = Arch::X86_64.word_size() as i32;
        Some(Self {
            cfa_offset: i32::try_from(size).ok()?.checked_add(word)?,
            cfa_register: Arch::X86_64.sp(),
            count: 0,
            return_address: -8,
            saved: [(0, 0); MAX_SAVED],
            is_go: true,
            doubt: Doubt::None,
            is_shared: false,
        })
    }

    /// Returns true if the return address is on top of the stack, as at the start of a function. For
    /// x86.
    pub(crate) fn has_no_frame(&self, arch: Arch) -> bool {
        self.has_words(1, arch)
    }

    /// Returns true if one word is above the return address. For x86.
    pub(crate) fn is_one_word(&self, arch: Arch) -> bool {
        self.has_words(2, arch)
    }

    /// Returns true if the frame pointer leads to the caller.
    pub(crate) fn has_frame_pointer(&self, arch: Arch) -> bool {
        self.cfa_register == arch.fp()
    }

    /// Returns true if the CFA is found by the stack pointer, or by the frame pointer of x86.
    pub(crate) fn uses(&self, register: u8) -> bool {
        self.cfa_register == register && !self.is_go
    }

    /// Corrects the rule by what code has pushed without description.
    pub(crate) fn set_moved(&mut self, pushed: i64) {
        let offset = i64::from(self.cfa_offset).saturating_add(pushed);
        match i32::try_from(offset) {
            Ok(offset) => (self.cfa_offset, self.doubt) = (offset, Doubt::Moved),
            Err(_) => self.doubt = Doubt::Overwritten,
        }
    }

    /// Returns the distance in bytes from the stack pointer to the return address, if the rule uses the
    /// stack pointer.
    pub(crate) fn frame_size(&self, arch: Arch) -> Option<u64> {
        let size = self.cfa_offset.checked_sub(arch.word_size() as i32)?;
        (self.cfa_register == arch.sp() && !self.is_go)
            .then_some(size)
            .and_then(|size| u64::try_from(size).ok())
    }

    /// Returns the caller of a function that has not yet pushed all registers of the rule: `slot` has its
    /// return address. Registers that are not on the stack have the caller's values.
    pub(crate) fn apply_in_prologue(
        &self,
        slot: u64,
        registers: &mut Registers,
        memory: &dyn Memory,
    ) -> Result<Caller, Fault> {
        let arch = registers.arch();
        let sp = registers.sp();
        let cfa = slot.wrapping_add(arch.word_size());
        let return_address = arch.read_word(memory, slot).ok_or(Fault::Memory(slot))?;
        registers.set(arch.sp(), cfa);
        registers.return_to_caller(arch.callee_saved());
        for &(register, offset) in self.saved.iter().take(usize::from(self.count)) {
            let saved = cfa.wrapping_add_signed(offset.into());
            if saved < sp {
                continue;
            }
            match arch.read_word(memory, saved) {
                Some(value) => registers.set(register, value),
                None => registers.forget(register),
            }
        }
        Ok(Caller {
            return_address: Some(return_address),
            slot,
            interrupted: false,
        })
    }

    fn has_words(&self, words: u64, arch: Arch) -> bool {
        let is_size = self.cfa_register == arch.sp()
            && u64::try_from(self.cfa_offset) == Ok(words * arch.word_size());
        is_size && arch.is_x86() && !self.is_go
    }

    /// Returns the CFA of AArch64 code by its frame record, which x29 points to. A frame pointer
    /// led to the frame, so its stack pointer is unknown.
    #[cold]
    fn cfa_by_record(&self, registers: &Registers) -> Option<u64> {
        let arch = registers.arch();
        let mut saved = self.saved.iter().take(usize::from(self.count));
        let (_, record) = saved.find(|(register, _)| *register == arch.fp())?;
        let is_record = arch == Arch::Aarch64
            && self.cfa_register == arch.sp()
            && self.return_address == record.checked_add(8)?;
        let fp = registers.frame_pointer().filter(|_| is_record)?;
        Some(fp.wrapping_add_signed(-i64::from(*record)))
    }

    /// Equivalent to [`step::apply`] with the original rule, except for an unknown stack pointer.
    #[inline]
    pub(crate) fn apply(
        &self,
        registers: &mut Registers,
        memory: &dyn Memory,
    ) -> Result<Caller, Fault> {
        let arch = registers.arch();
        let cfa = match registers.get(self.cfa_register) {
            Some(value) => value.wrapping_add_signed(self.cfa_offset.into()),
            None => (self.cfa_by_record(registers)).ok_or(Fault::Register(self.cfa_register))?,
        };
        let slot = cfa.wrapping_add_signed(self.return_address.into());
        let return_address = arch.read_word(memory, slot).ok_or(Fault::Memory(slot))?;
        let sp = registers.sp();
        let own = cfa.wrapping_sub(16);
        let has_frame = self.is_go && registers.frame_pointer() == Some(own);
        registers.set(arch.sp(), cfa);
        registers.return_to_caller(arch.callee_saved());
        if has_frame {
            match memory.read_u64(own) {
                Some(saved) => registers.set(arch.fp(), saved),
                None => registers.forget(arch.fp()),
            }
        }
        for &(register, offset) in self.saved.iter().take(usize::from(self.count)) {
            let slot = cfa.wrapping_add_signed(offset.into());
            match arch.read_word(memory, slot) {
                Some(value) => registers.set(register, value),
                None if step::is_popped(arch, slot, sp) => {}
                None => registers.forget(register),
            }
        }
        if arch == Arch::Aarch64 {
            registers.forget(arch::aarch64::LR);
        }
        Ok(Caller {
            return_address: Some(return_address),
            slot,
            interrupted: false,
        })
    }
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    generation: u64,
    address: u64,
    rule: PlainRule,
}

const _: () = assert!(size_of::<Entry>() <= 64);

/// Counts of the rule cache. Each frame is one hit or one miss, if
/// [`Modules::generation`](crate::Modules::generation) is implemented.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuleCacheStats {
    /// Hits.
    pub hits: u64,
    /// Misses on an empty slot.
    pub misses_empty: u64,
    /// Misses on a slot with another address. If these are many, the cache is too small.
    pub misses_other_address: u64,
    /// Misses on a slot with the same address in another state of the mappings.
    pub misses_other_generation: u64,
    /// Misses without a plain rule, also included in the counts above.
    pub uncacheable: u64,
}

/// Direct-mapped rule cache.
#[derive(Debug, Clone, Default)]
pub(crate) struct RuleCache {
    entries: Vec<Option<Entry>>,
    stats: RuleCacheStats,
}

impl RuleCache {
    pub(crate) const fn new() -> Self {
        Self {
            entries: Vec::new(),
            stats: RuleCacheStats {
                hits: 0,
                misses_empty: 0,
                misses_other_address: 0,
                misses_other_generation: 0,
                uncacheable: 0,
            },
        }
    }

    pub(crate) fn stats(&self) -> RuleCacheStats {
        self.stats
    }

    pub(crate) fn count_uncacheable(&mut self) {
        self.stats.uncacheable += 1;
    }

    #[inline]
    pub(crate) fn get(&mut self, generation: u64, address: u64) -> Option<&PlainRule> {
        let entry = self.entries.get(slot_of(generation, address));
        let Some(entry) = entry.and_then(Option::as_ref) else {
            self.stats.misses_empty += 1;
            return None;
        };
        if entry.address != address {
            self.stats.misses_other_address += 1;
            return None;
        }
        if entry.generation != generation {
            self.stats.misses_other_generation += 1;
            return None;
        }
        self.stats.hits += 1;
        Some(&entry.rule)
    }

    pub(crate) fn insert(&mut self, generation: u64, address: u64, rule: PlainRule) {
        if self.entries.is_empty() {
            self.entries.resize(ENTRIES, None);
        }
        if let Some(entry) = self.entries.get_mut(slot_of(generation, address)) {
            *entry = Some(Entry {
                generation,
                address,
                rule,
            });
        }
    }
}

/// Returns the slot by Fibonacci hashing: the upper bits of the product depend on all bits.
#[inline]
fn slot_of(generation: u64, address: u64) -> usize {
    let mixed = (address ^ generation.rotate_right(16)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> (64 - ENTRIES.trailing_zeros())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(offset: i32) -> PlainRule {
        PlainRule {
            cfa_offset: offset,
            cfa_register: 7,
            count: 0,
            return_address: -8,
            saved: [(0, 0); MAX_SAVED],
            is_go: false,
            doubt: Doubt::None,
            is_shared: false,
        }
    }

    #[test]
    fn an_entry_holds_for_its_address_and_state_only() {
        let mut cache = RuleCache::new();
        assert!(cache.get(0, 0).is_none(), "nothing was put there");
        for address in 0..40_000 {
            cache.insert(address % 7, address, rule(address as i32));
        }
        let mut kept = 0;
        for address in 0..40_000 {
            for generation in 0..7 {
                if let Some(found) = cache.get(generation, address) {
                    assert_eq!(generation, address % 7);
                    assert_eq!(found.cfa_offset, address as i32);
                    kept += 1;
                }
            }
        }
        assert!(kept > ENTRIES / 2 && kept <= ENTRIES, "{kept}");
    }

    #[test]
    fn each_lookup_is_counted_once_with_its_reason() {
        let mut cache = RuleCache::new();
        assert!(cache.get(1, 0x1000).is_none());
        cache.insert(1, 0x1000, rule(16));
        assert!(cache.get(1, 0x1000).is_some());
        // Keys for the same slot: another address, and the same address in another state.
        let shares =
            |generation: u64, address: &u64| slot_of(generation, *address) == slot_of(1, 0x1000);
        let other = (0x1001..).find(|address| shares(1, address)).unwrap();
        assert!(cache.get(1, other).is_none());
        let later = (2..)
            .find(|generation| shares(*generation, &0x1000))
            .unwrap();
        assert!(cache.get(later, 0x1000).is_none());
        let expected = RuleCacheStats {
            hits: 1,
            misses_empty: 1,
            misses_other_address: 1,
            misses_other_generation: 1,
            uncacheable: 0,
        };
        assert_eq!(cache.stats(), expected);
    }
}
