//! [`Arch`]: properties of the supported processors.

/// A supported processor architecture. All are 64-bit and little endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arch {
    /// x86-64, also called AMD64.
    X86_64,
    /// 64-bit ARM.
    Aarch64,
}

/// DWARF numbers of x86-64 registers. Source: System V psABI for AMD64, figure 3.36.
pub(crate) mod x86_64 {
    pub(crate) const RBX: u8 = 3;
    pub(crate) const RBP: u8 = 6;
    pub(crate) const RSP: u8 = 7;
    /// Number of the return address (rip).
    pub(crate) const RA: u8 = 16;
}

/// DWARF numbers of AArch64 registers. Source: DWARF for the Arm 64-bit Architecture, section 4.1.
pub(crate) mod aarch64 {
    pub(crate) const FP: u8 = 29;
    /// Number of the link register x30, which is also used for the return address.
    pub(crate) const LR: u8 = 30;
    pub(crate) const SP: u8 = 31;
}

impl Arch {
    pub(crate) const fn sp(self) -> u8 {
        match self {
            Arch::X86_64 => x86_64::RSP,
            Arch::Aarch64 => aarch64::SP,
        }
    }

    pub(crate) const fn fp(self) -> u8 {
        match self {
            Arch::X86_64 => x86_64::RBP,
            Arch::Aarch64 => aarch64::FP,
        }
    }

    /// Returns the callee-saved registers as a bit mask by DWARF number.
    pub(crate) const fn callee_saved(self) -> u64 {
        match self {
            // rbx, rbp, rsp, r12 to r15.
            Arch::X86_64 => 1 << 3 | 1 << 6 | 1 << 7 | 0xf << 12,
            // x19 to x29, sp. x18 is reserved by the platform (shadow call stack) or caller-saved.
            Arch::Aarch64 => 0x7ff << 19 | 1 << 31,
        }
    }

    pub(crate) const fn tracks(self, register: u16) -> bool {
        match self {
            Arch::X86_64 => register < 16,
            Arch::Aarch64 => register < 32,
        }
    }

    /// Mask of a return address's address bits. The others may be a signature (pointer
    /// authentication).
    pub(crate) const fn address_mask(self) -> u64 {
        match self {
            Arch::X86_64 => u64::MAX,
            // User addresses have 48 bits. A signature uses all bits above.
            Arch::Aarch64 => 0x0000_ffff_ffff_ffff,
        }
    }
}
