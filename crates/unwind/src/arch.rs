//! [`Arch`]: properties of the supported processors.

use crate::Memory;
use iced_x86::Register;

/// A supported processor architecture. All are little endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arch {
    /// x86-64, also called AMD64.
    X86_64,
    /// 64-bit ARM.
    Aarch64,
    /// 32-bit x86 (i386), also on x86-64 kernels.
    X86,
}

/// DWARF numbers of x86-64 registers. Source: System V psABI for AMD64, figure 3.36.
pub(crate) mod x86_64 {
    pub(crate) const RBX: u8 = 3;
    pub(crate) const RBP: u8 = 6;
    pub(crate) const RSP: u8 = 7;
    pub(crate) const R12: u8 = 12;
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

/// DWARF numbers of i386 registers. Source: System V psABI for Intel386, table 2.14.
pub(crate) mod x86 {
    pub(crate) const ESP: u8 = 4;
    pub(crate) const EBP: u8 = 5;
    /// Number of the return address (eip).
    pub(crate) const RA: u8 = 8;
}

/// `PERF_SAMPLE_REGS_ABI_32`.
const ABI_32: u64 = 1;

/// `PERF_SAMPLE_REGS_ABI_64`.
const ABI_64: u64 = 2;

impl Arch {
    /// Returns the architecture of a sample's user registers, from a recording of this one.
    ///
    /// `abi` is the sample's `PERF_SAMPLE_REGS_ABI_*`. `None` for 32-bit ARM, and without
    /// registers. A kernel for x86-64 also runs 32-bit programs.
    #[must_use]
    pub const fn of_sample(self, abi: u64) -> Option<Self> {
        match (self, abi) {
            (Self::X86_64 | Self::X86, ABI_32) => Some(Self::X86),
            (Self::X86_64, ABI_64) => Some(Self::X86_64),
            (Self::Aarch64, ABI_64) => Some(Self::Aarch64),
            _ => None,
        }
    }

    /// Returns the number of bytes of an address, a register and a stack slot.
    #[must_use]
    pub const fn word_size(self) -> u64 {
        match self {
            Self::X86_64 | Self::Aarch64 => 8,
            Self::X86 => 4,
        }
    }

    /// Reads a word of this architecture.
    #[must_use]
    #[inline]
    pub fn read_word(self, memory: &dyn Memory, avma: u64) -> Option<u64> {
        match self {
            Self::X86_64 | Self::Aarch64 => memory.read_u64(avma),
            Self::X86 => memory.read_u32(avma).map(u64::from),
        }
    }

    /// Cuts the result of a calculation to a word.
    #[inline]
    pub(crate) const fn wrap(self, value: u64) -> u64 {
        match self {
            Self::X86_64 | Self::Aarch64 => value,
            Self::X86 => value & u32::MAX as u64,
        }
    }

    pub(crate) const fn signed(self, word: u64) -> i64 {
        match self {
            Self::X86_64 | Self::Aarch64 => word.cast_signed(),
            Self::X86 => (word as u32).cast_signed() as i64,
        }
    }

    /// Returns true for both sizes of x86.
    pub(crate) const fn is_x86(self) -> bool {
        matches!(self, Self::X86_64 | Self::X86)
    }

    /// Returns the word size in bits, the mode of an x86 decoder.
    pub(crate) const fn bits(self) -> u32 {
        self.word_size() as u32 * 8
    }

    pub(crate) const fn sp(self) -> u8 {
        match self {
            Self::X86_64 => x86_64::RSP,
            Self::Aarch64 => aarch64::SP,
            Self::X86 => x86::ESP,
        }
    }

    pub(crate) const fn fp(self) -> u8 {
        match self {
            Self::X86_64 => x86_64::RBP,
            Self::Aarch64 => aarch64::FP,
            Self::X86 => x86::EBP,
        }
    }

    /// Returns the stack pointer as operand of x86 instructions.
    pub(crate) const fn sp_operand(self) -> Register {
        match self {
            Self::X86 => Register::ESP,
            _ => Register::RSP,
        }
    }

    /// Returns the frame pointer as operand of x86 instructions.
    pub(crate) const fn fp_operand(self) -> Register {
        match self {
            Self::X86 => Register::EBP,
            _ => Register::RBP,
        }
    }

    /// Returns the DWARF number of the return address.
    pub(crate) const fn return_address(self) -> u8 {
        match self {
            Self::X86_64 => x86_64::RA,
            Self::Aarch64 => aarch64::LR,
            Self::X86 => x86::RA,
        }
    }

    /// Returns the callee-saved registers as a bit mask by DWARF number.
    pub(crate) const fn callee_saved(self) -> u64 {
        match self {
            // rbx, rbp, rsp, r12 to r15.
            Self::X86_64 => 1 << 3 | 1 << 6 | 1 << 7 | 0xf << 12,
            // x19 to x29, sp. x18 is reserved by the platform (shadow call stack) or caller-saved.
            Self::Aarch64 => 0x7ff << 19 | 1 << 31,
            // ebx, esp, ebp, esi, edi.
            Self::X86 => 0x1f << 3,
        }
    }

    pub(crate) const fn tracks(self, register: u16) -> bool {
        match self {
            Self::X86_64 => register < 16,
            Self::Aarch64 => register < 32,
            Self::X86 => register < 8,
        }
    }

    /// Mask of a return address's address bits. The others may be a signature (pointer
    /// authentication).
    pub(crate) const fn address_mask(self) -> u64 {
        match self {
            Self::X86_64 => u64::MAX,
            // User addresses have 48 bits. A signature uses all bits above.
            Self::Aarch64 => 0x0000_ffff_ffff_ffff,
            Self::X86 => u32::MAX as u64,
        }
    }
}
