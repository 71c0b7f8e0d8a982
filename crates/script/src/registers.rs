//! Registers by name.

use std::borrow::Cow;
use std::io::{self, Write};

use rprof_records::Registers;

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
pub(crate) enum RegisterNames {
    X86,
    Arm,
    Arm64,
    Riscv,
    S390,
    Numbers,
}

impl RegisterNames {
    /// Returns the names for a machine of uname(2).
    pub(crate) fn new(machine: &str) -> RegisterNames {
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

    fn name(self, number: u32) -> Cow<'static, str> {
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
}

/// Writes ` ABI:2    AX:0x1 …`.
pub(crate) fn write(
    registers: &Registers<'_>,
    names: &RegisterNames,
    out: &mut dyn Write,
) -> io::Result<()> {
    write!(out, " ABI:{} ", registers.abi)?;
    for (number, value) in registers.iter() {
        write!(out, "{:>5}:{value:#x} ", names.name(number))?;
    }
    Ok(())
}

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
}
