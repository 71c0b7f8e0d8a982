//! The columns of registers.

use std::io::{self, Write};

use rprof_records::{RecordedRegisters, RegisterNames};

/// Writes ` ABI:2    AX:0x1 …`.
pub(crate) fn write(
    registers: &RecordedRegisters<'_>,
    names: &RegisterNames,
    out: &mut dyn Write,
) -> io::Result<()> {
    write!(out, " ABI:{} ", registers.abi)?;
    for (number, value) in registers.iter() {
        write!(out, "{:>5}:{value:#x} ", names.name(number))?;
    }
    Ok(())
}
