//! [`Registers`]: the known general registers of one frame.

use crate::Arch;

const COUNT: usize = 33;

/// The general registers of one frame, by DWARF number. Unknown values are absent, not zero.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Registers {
    arch: Arch,
    ip: u64,
    valid: u64,
    /// Registers that calls may change, with the value of a callee: no rule restores them. Assembly may rely on a callee
    /// that leaves them alone.
    unrestored: u64,
    values: [u64; COUNT],
}

/// DWARF number by bit of `perf_event_attr.sample_regs_user`; 0xff: untracked, 0xfe: program
/// counter. Source: `arch/x86/include/uapi/asm/perf_regs.h`.
const PERF_X86_64: [u8; 24] = [
    0, 3, 2, 1, 4, 5, 6, 7, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 8, 9, 10, 11, 12, 13,
    14, 15,
];

/// The same for i386, whose registers have the same bits, but other DWARF numbers.
const PERF_X86: [u8; 9] = [0, 3, 1, 2, 6, 7, 5, 4, 0xfe];

impl Registers {
    /// Returns registers with only the program counter and the stack pointer.
    #[must_use]
    pub const fn new(arch: Arch, ip: u64, sp: u64) -> Self {
        let mut values = [0; COUNT];
        values[arch.sp() as usize] = arch.wrap(sp);
        Self {
            arch,
            ip: arch.wrap(ip),
            valid: 1 << arch.sp(),
            unrestored: 0,
            values,
        }
    }

    /// Returns the user registers of a perf sample. `mask` is the event's `sample_regs_user`;
    /// `values` has one word for each bit.
    ///
    /// `None` without program counter or stack pointer. `arch` must fit the sample's ABI: see
    /// [`Arch::of_sample`].
    ///
    /// Source: `arch/{x86,arm64}/include/uapi/asm/perf_regs.h`.
    #[must_use]
    pub fn from_perf(arch: Arch, mask: u64, values: &[u64]) -> Option<Self> {
        let mut registers = Self::new(arch, 0, 0);
        registers.valid = 0;
        let mut has_ip = false;
        let mut bits = mask;
        for &value in values {
            if bits == 0 {
                break;
            }
            let bit = bits.trailing_zeros();
            bits &= bits - 1;
            let number = match arch {
                Arch::X86_64 => PERF_X86_64.get(bit as usize).copied().unwrap_or(0xff),
                Arch::X86 => PERF_X86.get(bit as usize).copied().unwrap_or(0xff),
                // x0 to x30, sp and pc have their DWARF numbers.
                Arch::Aarch64 if bit < 32 => bit as u8,
                Arch::Aarch64 if bit == 32 => 0xfe,
                Arch::Aarch64 => 0xff,
            };
            match number {
                0xfe => {
                    registers.ip = arch.wrap(value);
                    has_ip = true;
                }
                0xff => {}
                number => registers.set(number, value),
            }
        }
        (has_ip && registers.get(arch.sp()).is_some()).then_some(registers)
    }

    /// Returns the architecture.
    #[must_use]
    pub const fn arch(&self) -> Arch {
        self.arch
    }

    /// Returns the program counter, an AVMA.
    #[must_use]
    pub const fn ip(&self) -> u64 {
        self.ip
    }

    /// Sets the program counter.
    pub const fn set_ip(&mut self, ip: u64) {
        self.ip = self.arch.wrap(ip);
    }

    /// Returns the stack pointer, an AVMA.
    #[must_use]
    pub fn sp(&self) -> u64 {
        self.values[self.arch.sp() as usize]
    }

    /// Returns a register by DWARF number, if known.
    #[must_use]
    #[inline]
    pub fn get(&self, register: u8) -> Option<u64> {
        let value = *self.values.get(usize::from(register))?;
        (self.valid >> register & 1 != 0).then_some(value)
    }

    /// Sets a register by DWARF number, to the lower half of the value on i386. Ignores untracked
    /// numbers.
    #[inline]
    pub fn set(&mut self, register: u8, value: u64) {
        if let Some(slot) = self.values.get_mut(usize::from(register)) {
            *slot = self.arch.wrap(value);
            self.valid |= 1 << register;
            self.unrestored &= !(1 << register);
        }
    }

    /// Marks a register as unknown.
    #[inline]
    pub fn forget(&mut self, register: u8) {
        if usize::from(register) < COUNT {
            self.valid &= !(1 << register);
            self.unrestored &= !(1 << register);
        }
    }

    #[inline]
    pub(crate) fn keep(&mut self, mask: u64) {
        self.valid &= mask;
        self.unrestored = 0;
    }

    /// Goes from a callee to its caller: of the registers outside of `mask` the value before the call is unknown. The
    /// callee's values remain for [`restore_all`](Self::restore_all).
    #[inline]
    pub(crate) fn return_to_caller(&mut self, mask: u64) {
        self.unrestored |= self.valid & !mask;
        self.valid &= mask;
    }

    /// Returns the registers, with the callee's value for each that no rule has restored; `None` if all are restored.
    pub(crate) fn restore_all(&self) -> Option<Self> {
        (self.unrestored != 0).then_some(Self {
            valid: self.valid | self.unrestored,
            unrestored: 0,
            ..*self
        })
    }

    /// Returns rbp, x29 or ebp, if known. The code may use it for other values.
    #[must_use]
    #[inline]
    pub fn frame_pointer(&self) -> Option<u64> {
        self.get(self.arch.fp())
    }
}

impl std::fmt::Debug for Registers {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:?} ip={:#x}", self.arch, self.ip)?;
        for register in 0..COUNT as u8 {
            if let Some(value) = self.get(register) {
                write!(formatter, " {register}={value:#x}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perf_order_on_x86_64() {
        // AX BX CX DX SI DI BP SP IP FLAGS CS SS, R8 to R15, as perf requests.
        let mask = 0xff_0fff;
        let values: Vec<u64> = (100..120).collect();
        let registers = Registers::from_perf(Arch::X86_64, mask, &values).unwrap();
        assert_eq!((registers.ip(), registers.sp()), (108, 107));
        assert_eq!(registers.get(0), Some(100));
        assert_eq!(registers.get(x86_64::RBX), Some(101));
        assert_eq!(registers.get(2), Some(102), "rcx has number 2");
        assert_eq!(registers.get(1), Some(103), "rdx has number 1");
        assert_eq!(registers.get(x86_64::RBP), Some(106));
        assert_eq!(registers.get(8), Some(112));
        assert_eq!(registers.get(15), Some(119));
        assert_eq!(registers.get(16), None);
    }

    #[test]
    fn perf_order_on_aarch64() {
        let values: Vec<u64> = (0..33).map(|number| number + 1000).collect();
        let registers = Registers::from_perf(Arch::Aarch64, (1 << 33) - 1, &values).unwrap();
        assert_eq!((registers.ip(), registers.sp()), (1032, 1031));
        assert_eq!(registers.get(30), Some(1030));
    }

    /// A kernel for x86-64 writes whole registers. A system call may leave bits in the upper halves.
    #[test]
    fn perf_order_on_i386() {
        let values: Vec<u64> = (100..120).map(|value| value | 0xffff_ffff << 32).collect();
        let registers = Registers::from_perf(Arch::X86, 0xff_0fff, &values).unwrap();
        assert_eq!((registers.ip(), registers.sp()), (108, 107));
        // eax, ecx, edx, ebx, esp, ebp, esi, edi.
        let found: Vec<_> = (0..9).map(|number| registers.get(number)).collect();
        let numbers = [100, 102, 103, 101, 107, 106, 104, 105].map(Some);
        assert_eq!((&found[..8], found[8]), (&numbers[..], None));
    }

    #[test]
    fn nothing_without_ip_and_sp() {
        for arch in [Arch::X86_64, Arch::Aarch64, Arch::X86] {
            assert_eq!(Registers::from_perf(arch, 0, &[]), None);
            assert_eq!(Registers::from_perf(arch, 1 << 7, &[1]), None);
            assert_eq!(Registers::from_perf(arch, u64::MAX, &[1]), None);
            assert!(Registers::from_perf(arch, u64::MAX, &[1; 64]).is_some());
        }
    }

    use crate::arch::x86_64;
}
