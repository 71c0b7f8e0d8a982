//! [`Branch`] and [`StackTransfer`]: branches and saved registers in AArch64 code. Source of the
//! encodings: Arm Architecture Reference Manual for A-profile, section C4.1.

use crate::arch::aarch64::{LR, SP};

/// An instruction that may go on elsewhere, with the address that it leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Branch {
    /// `bl`; `None` for `blr` and its authenticating forms.
    Call(Option<u64>),
    /// `b`.
    Jump(u64),
    /// `b.cond`, `cbz`, `tbz` and so on.
    Conditional(u64),
    /// `br` by this register.
    Indirect(u8),
    /// `ret` to the address in this register.
    Return(u8),
}

impl Branch {
    /// Decodes the instruction at this address. `None` if it is no branch.
    pub(crate) fn decode(word: u32, ip: u64) -> Option<Branch> {
        let register = || (word >> 5 & 31) as u8;
        // A field of signed words, from the bit `from` on.
        let target = |from: u32, count: u32| {
            let shift = 64 - count;
            let words = (i64::from(word >> from) << shift) >> shift;
            ip.wrapping_add_signed(words * 4)
        };
        Some(match word {
            _ if word & 0xffff_fc1f == 0xd65f_0000 => Branch::Return(register()),
            _ if word & 0xffff_fbff == 0xd65f_0bff => Branch::Return(LR),
            // br x30: `longjmp` of musl
            0xd61f_03c0 => Branch::Return(LR),
            _ if word & 0xfeff_f000 == 0xd61f_0000 => Branch::Indirect(register()),
            _ if word & 0xfeff_f000 == 0xd63f_0000 => Branch::Call(None),
            _ if word & 0xfc00_0000 == 0x1400_0000 => Branch::Jump(target(0, 26)),
            _ if word & 0xfc00_0000 == 0x9400_0000 => Branch::Call(Some(target(0, 26))),
            _ if word & 0xff00_0000 == 0x5400_0000 || word & 0x7e00_0000 == 0x3400_0000 => {
                Branch::Conditional(target(5, 19))
            }
            _ if word & 0x7e00_0000 == 0x3600_0000 => Branch::Conditional(target(5, 14)),
            _ => return None,
        })
    }
}

/// Load or store of one or two general registers by the stack pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StackTransfer {
    pub(crate) is_load: bool,
    /// True if the stack pointer is moved before the access.
    pub(crate) is_pushed: bool,
    registers: [u8; 2],
}

impl StackTransfer {
    /// Decodes an instruction. `None` if it is another one.
    pub(crate) fn decode(word: u32) -> Option<StackTransfer> {
        let register = |from: u32| (word >> from & 31) as u8;
        if register(5) != SP {
            return None;
        }
        // 64-bit registers; without the offset in a register.
        let is_pair = word & 0xfe00_0000 == 0xa800_0000;
        let is_single = word & 0xff00_0000 == 0xf900_0000 || word & 0xff20_0000 == 0xf800_0000;
        if !is_pair && !is_single {
            return None;
        }
        let mode = if is_pair { word >> 23 } else { word >> 10 };
        let is_offset = word & 0xff00_0000 == 0xf900_0000;
        Some(StackTransfer {
            is_load: word >> 22 & 1 == 1,
            is_pushed: mode & 3 == 3 && !is_offset,
            registers: [register(0), register(if is_pair { 10 } else { 0 })],
        })
    }

    pub(crate) fn has(self, register: u8) -> bool {
        self.registers.contains(&register)
    }
}

/// Effect of an instruction on the link register, other than that of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkUse {
    /// Signed, or saved on the stack: the function has just begun.
    Saved,
    Restored,
}

impl LinkUse {
    pub(crate) fn decode(word: u32) -> Option<LinkUse> {
        match word {
            // paciasp, pacibsp; autiasp, autibsp
            0xd503_233f | 0xd503_237f => return Some(LinkUse::Saved),
            0xd503_23bf | 0xd503_23ff => return Some(LinkUse::Restored),
            _ => {}
        }
        let transfer = StackTransfer::decode(word).filter(|transfer| transfer.has(LR))?;
        Some(match transfer.is_load {
            true => LinkUse::Restored,
            false => LinkUse::Saved,
        })
    }
}

/// Returns true if straight code returns, or jumps out of the function (`leaves`), without
/// restoring the link register: it has been restored. Clang describes no epilogues without
/// asynchronous tables.
pub(crate) fn is_behind_epilogue(code: &[u8], at: u64, leaves: impl Fn(u64) -> bool) -> bool {
    for (index, word) in (0..).zip(code.as_chunks().0) {
        let (word, ip) = (u32::from_le_bytes(*word), at.wrapping_add(4 * index));
        match Branch::decode(word, ip) {
            Some(Branch::Return(_)) => return true,
            Some(Branch::Jump(target)) => return leaves(target),
            Some(_) => return false,
            None => {}
        }
        let loads = StackTransfer::decode(word).is_some_and(|transfer| transfer.has(LR));
        if loads {
            return false;
        }
    }
    false
}

/// Returns true if code may run from one address to another without a call.
pub(crate) fn runs_to(from: u64, to: u64, word: impl Fn(u64) -> Option<u32>) -> bool {
    const MAX_INSTRUCTIONS: usize = 128;
    let (mut seen, mut waiting) = (Vec::new(), vec![from]);
    while let Some(mut at) = waiting.pop() {
        while seen.len() < MAX_INSTRUCTIONS && !seen.contains(&at) {
            if at == to {
                return true;
            }
            seen.push(at);
            let next = at.wrapping_add(4);
            at = match word(at).map(|word| Branch::decode(word, at)) {
                Some(None) => next,
                Some(Some(Branch::Conditional(target))) => {
                    waiting.push(target);
                    next
                }
                Some(Some(Branch::Jump(target))) => target,
                _ => break,
            };
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::{Branch, LinkUse, StackTransfer, runs_to};

    #[test]
    fn code_runs_up_to_the_next_call() {
        // cbz x0, +12; nop; bl; nop; b -4
        let code = [
            0xb400_0060,
            0xd503_201f,
            0x9400_0008,
            0xd503_201f,
            0x17ff_ffff_u32,
        ];
        let word = |at: u64| code.get(at as usize / 4).copied();
        for (to, expected) in [(0, true), (8, true), (12, true), (16, true), (20, false)] {
            assert_eq!(runs_to(0, to, word), expected, "{to}");
        }
        assert!(!runs_to(4, 12, word), "behind the call");
    }

    /// Instructions as LLVM assembles them.
    #[test]
    fn saved_and_restored_registers_are_decoded() {
        for (word, is_load, is_pushed, register) in [
            // stp x29, x30, [sp, #-32]!; stp x29, x30, [sp, #16]; str x30, [sp, #-16]!; str x30, [sp, #8]
            (0xa9be_7bfd, false, true, 30),
            (0xa901_7bfd, false, false, 29),
            (0xf81f_0ffe, false, true, 30),
            (0xf900_07fe, false, false, 30),
            // ldp x29, x30, [sp], #32; ldr x30, [sp], #16; ldur x30, [sp, #-8]
            (0xa8c2_7bfd, true, false, 30),
            (0xf841_07fe, true, false, 30),
            (0xf85f_83fe, true, false, 30),
        ] {
            let found = StackTransfer::decode(word).unwrap();
            assert_eq!(
                (found.is_load, found.is_pushed),
                (is_load, is_pushed),
                "{word:#x}"
            );
            assert!(found.has(register), "{word:#x}");
        }
        for other in [
            // stp x29, x30, [x0]; ldr x30, [x0]; stp d8, d9, [sp, #-16]!; str w30, [sp]; ldr x30, [sp, x1]
            0xa900_7c1d,
            0xf940_001e,
            0x6dbf_27e8,
            0xb900_03fe,
            0xf861_6bfe,
        ] {
            assert_eq!(StackTransfer::decode(other), None, "{other:#x}");
        }
        for (word, expected) in [
            (0xd503_233f, Some(LinkUse::Saved)),
            (0xd503_23ff, Some(LinkUse::Restored)),
            (0xa9be_7bfd, Some(LinkUse::Saved)),
            (0xf841_07fe, Some(LinkUse::Restored)),
            // stp x19, x20, [sp, #16]; nop
            (0xa901_53f3, None),
            (0xd503_201f, None),
        ] {
            assert_eq!(LinkUse::decode(word), expected, "{word:#x}");
        }
    }

    /// Instructions as GNU as assembles them at 0x1000.
    #[test]
    fn branches_of_an_assembler_are_decoded() {
        for (word, branch) in [
            (0x9400_0001, Some(Branch::Call(Some(0x1004)))),
            (0x97ff_ffff, Some(Branch::Call(Some(0xffc)))),
            (0xd63f_0040, Some(Branch::Call(None))),
            (0x17ff_ff66, Some(Branch::Jump(0xd98))),
            (0x5400_0040, Some(Branch::Conditional(0x1008))),
            (0xb4ff_ff60, Some(Branch::Conditional(0xfec))),
            (0x3707_ffe0, Some(Branch::Conditional(0xffc))),
            (0xd61f_0200, Some(Branch::Indirect(16))),
            (0xd65f_03c0, Some(Branch::Return(30))),
            (0xd61f_03c0, Some(Branch::Return(30))),
            (0xd65f_0bff, Some(Branch::Return(30))),
            // mov x0, x1
            (0xaa01_03e0, None),
            // svc 0
            (0xd400_0001, None),
        ] {
            assert_eq!(Branch::decode(word, 0x1000), branch, "{word:#x}");
        }
    }
}
