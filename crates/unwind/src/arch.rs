//! [`Arch`]: what differs between processors.

/// A processor architecture whose stacks can be unwound. 64 bits, little endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arch {
    /// x86-64, also called AMD64.
    X86_64,
    /// 64-bit ARM.
    Aarch64,
}

/// DWARF numbers of x86-64 registers. Source: System V psABI for AMD64, figure 3.36.
pub(crate) mod x86_64 {
    /// rbx.
    pub(crate) const RBX: u8 = 3;
    /// rbp, the frame pointer where there is one.
    pub(crate) const RBP: u8 = 6;
    /// rsp.
    pub(crate) const RSP: u8 = 7;
    /// rip, as the column of the return address.
    pub(crate) const RA: u8 = 16;
}

/// DWARF numbers of AArch64 registers. Source: DWARF for the Arm 64-bit Architecture, section 4.1.
pub(crate) mod aarch64 {
    /// x29, the frame pointer.
    pub(crate) const FP: u8 = 29;
    /// x30, the link register, which is the column of the return address too.
    pub(crate) const LR: u8 = 30;
    /// The stack pointer.
    pub(crate) const SP: u8 = 31;
}

impl Arch {
    /// Number of the stack pointer.
    pub(crate) const fn sp(self) -> u8 {
        match self {
            Arch::X86_64 => x86_64::RSP,
            Arch::Aarch64 => aarch64::SP,
        }
    }

    /// Number of the frame pointer.
    pub(crate) const fn fp(self) -> u8 {
        match self {
            Arch::X86_64 => x86_64::RBP,
            Arch::Aarch64 => aarch64::FP,
        }
    }

    /// Set of the registers that a function must leave as they were, by number.
    pub(crate) const fn callee_saved(self) -> u64 {
        match self {
            // rbx, rbp, rsp, r12 to r15.
            Arch::X86_64 => 1 << 3 | 1 << 6 | 1 << 7 | 0xf << 12,
            // x19 to x29, sp. x18 is kept by the platform (shadow call stack) or by nobody.
            Arch::Aarch64 => 0x7ff << 19 | 1 << 31,
        }
    }

    /// Returns true if a register of this number is followed at all.
    pub(crate) const fn tracks(self, register: u16) -> bool {
        match self {
            Arch::X86_64 => register < 16,
            Arch::Aarch64 => register < 32,
        }
    }

    /// Bits of a return address that are address; the others may be a signature (pointer
    /// authentication).
    pub(crate) const fn address_mask(self) -> u64 {
        match self {
            Arch::X86_64 => u64::MAX,
            // User addresses of 48 bits; a signature takes those above, the tag byte included.
            Arch::Aarch64 => 0x0000_ffff_ffff_ffff,
        }
    }
}
