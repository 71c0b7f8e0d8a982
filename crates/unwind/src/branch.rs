//! [`Branch`]: branches of AArch64 code. Source of the encodings: Arm Architecture Reference Manual
//! for A-profile, section C4.1.

use crate::arch::aarch64::LR;

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

#[cfg(test)]
mod tests {
    use super::Branch;

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
