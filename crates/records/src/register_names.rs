//! Registers by name, as in perf's output and in `perf record --user-regs`.

use std::borrow::Cow;

const X86: [&str; 24] = [
    "AX", "BX", "CX", "DX", "SI", "DI", "BP", "SP", "IP", "FLAGS", "CS", "SS", "DS", "ES", "FS",
    "GS", "R8", "R9", "R10", "R11", "R12", "R13", "R14", "R15",
];
const ARM: [&str; 16] = [
    "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "fp", "ip", "sp", "lr", "pc",
];
const RISCV: [&str; 32] = [
    "pc", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3", "a4", "a5",
    "a6", "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5",
    "t6",
];

/// Names of a machine's registers, by their numbers in `asm/perf_regs.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterNames {
    /// x86, 32 and 64 bits.
    X86,
    /// 32-bit ARM.
    Arm,
    /// 64-bit ARM.
    Arm64,
    /// RISC-V.
    Riscv,
    /// IBM z.
    S390,
    /// Other architectures: `r0`, `r1`, …
    Numbers,
}

impl RegisterNames {
    /// Returns the names for a machine name of uname(2).
    pub fn new(machine: &str) -> RegisterNames {
        match machine {
            "aarch64" | "arm64" => RegisterNames::Arm64,
            m if m.starts_with("arm") => RegisterNames::Arm,
            m if m.starts_with("riscv") => RegisterNames::Riscv,
            m if m.starts_with("s390") => RegisterNames::S390,
            "x86_64" | "x86" | "amd64" => RegisterNames::X86,
            // i386 to i686.
            m if m.starts_with('i') && m.ends_with("86") => RegisterNames::X86,
            _ => RegisterNames::Numbers,
        }
    }

    /// Returns the name of a register; `r` and the number for unknown ones.
    pub fn name(self, number: u32) -> Cow<'static, str> {
        let listed = |list: &'static [&str]| list.get(number as usize).map(|n| (*n).into());
        let name = match (self, number) {
            (RegisterNames::X86, 32..) => Some(format!("XMM{}", (number - 32) / 2).into()),
            (RegisterNames::X86, _) => listed(&X86),
            (RegisterNames::Arm, _) => listed(&ARM),
            (RegisterNames::Riscv, _) => listed(&RISCV),
            (RegisterNames::Arm64, 0..=29) => Some(format!("x{number}").into()),
            (RegisterNames::Arm64, 30) => Some("lr".into()),
            (RegisterNames::Arm64, 31) => Some("sp".into()),
            (RegisterNames::Arm64, 32) => Some("pc".into()),
            (RegisterNames::Arm64, 46) => Some("vg".into()),
            (RegisterNames::S390, 0..=15) => Some(format!("R{number}").into()),
            (RegisterNames::S390, 16..=31) => Some(format!("FP{}", number - 16).into()),
            (RegisterNames::S390, 32) => Some("MASK".into()),
            (RegisterNames::S390, 33) => Some("PC".into()),
            _ => None,
        };
        name.unwrap_or_else(|| format!("r{number}").into())
    }

    /// Parses a list of register names such as `ax,IP` into a mask. Ignores case.
    ///
    /// # Errors
    /// Returns the first name that is not a register in `there`.
    pub fn parse_list(self, list: &str, there: u64) -> Result<u64, UnknownRegister> {
        let mut mask = 0;
        for name in list.split(',').map(str::trim) {
            let mut numbers = (0..u64::BITS).filter(|number| there >> number & 1 != 0);
            let number = numbers.find(|number| self.name(*number).eq_ignore_ascii_case(name));
            let number = number.ok_or_else(|| UnknownRegister {
                name: name.to_owned(),
            })?;
            mask |= 1 << number;
        }
        Ok(mask)
    }

    /// Returns the names of the registers in a mask, lowest first.
    pub fn names_in(self, mask: u64) -> Vec<Cow<'static, str>> {
        let numbers = (0..u64::BITS).filter(|number| mask >> number & 1 != 0);
        numbers.map(|number| self.name(number)).collect()
    }
}

/// Error for an unknown register name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown register `{name}`")]
pub struct UnknownRegister {
    /// Name that no register of the architecture has.
    pub name: String,
}

/// General registers in samples on this program's architecture; 0 if unknown (`PERF_REGS_MASK` in
/// perf, `asm/perf_regs.h`).
pub const GENERAL_REGISTERS: u64 = match () {
    // Without the segment registers that the kernel omits.
    () if cfg!(target_arch = "x86_64") => 0x00ff_0fff,
    // x0 to x29, lr, sp and pc.
    () if cfg!(target_arch = "aarch64") => (1 << 33) - 1,
    () => 0,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let name = |machine, number| RegisterNames::new(machine).name(number).into_owned();
        assert_eq!(name("x86_64", 9), "FLAGS");
        assert_eq!(name("i686", 23), "R15");
        assert_eq!(name("x86_64", 35), "XMM1");
        assert_eq!(name("aarch64", 32), "pc");
        assert_eq!(name("armv7l", 15), "pc");
        assert_eq!(name("riscv64", 0), "pc");
        assert_eq!(name("s390x", 33), "PC");
        assert_eq!(name("ppc64le", 3), "r3");
        assert_eq!(name("armv7l", 60), "r60");
    }
    #[test]
    fn lists_are_masks_and_back() {
        let x86 = RegisterNames::X86;
        let general = 0x00ff_0fff;
        assert_eq!(x86.parse_list("ip,sp", general), Ok(0x180));
        assert_eq!(x86.parse_list("AX, r15", general), Ok(1 | 1 << 23));
        assert_eq!(
            x86.names_in(general).join(" "),
            "AX BX CX DX SI DI BP SP IP FLAGS CS SS R8 R9 R10 R11 R12 R13 R14 R15"
        );
        for list in ["ds", "", "ax,", "xmm0", "r99"] {
            assert!(x86.parse_list(list, general).is_err(), "{list:?}");
        }
    }
}
