//! Line program of a unit, run once for all addresses of a lookup (DWARF 5, section 6.2.5).
//!
//! gimli keeps all registers and returns every row. Keeping only the needed ones takes a third of
//! the time.

use super::sections::Slice;
use gimli::{EndianSlice, LineProgramHeader, Reader};

/// Row of the line table. 0 means unknown line or column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) file: u64,
    pub(super) line: u32,
    pub(super) column: u32,
}

/// Returns the row for each of the sorted `svmas`. Damage ends the program; earlier rows stay
/// valid.
///
/// Among several rows for one address, the last one wins, as in other tools.
pub(super) fn rows(header: &LineProgramHeader<Slice<'_>>, svmas: &[u64]) -> Vec<Option<Row>> {
    let mut search = Search {
        svmas,
        found: vec![None; svmas.len()],
        missing: svmas.len(),
        before: None,
        next: 0,
        wanted: 0,
    };
    // Damage, or all rows found.
    let _ = Machine::new(header).run(header.raw_program_buf(), &mut search);
    search.found
}

#[derive(Debug, Clone, Copy)]
struct Registers {
    address: u64,
    /// Index of the operation within an instruction, on VLIW machines.
    operation: u64,
    file: u64,
    line: u64,
    column: u64,
}

impl Registers {
    const AT_START: Self = Self {
        address: 0,
        operation: 0,
        file: 1,
        line: 1,
        column: 0,
    };
}

struct Search<'s> {
    svmas: &'s [u64],
    found: Vec<Option<Row>>,
    missing: usize,
    before: Option<Registers>,
    /// First address at or after the current row: its index, and its value.
    next: usize,
    wanted: u64,
}

impl Search<'_> {
    /// Handles the next row of a sequence. `None` once every address has its row.
    #[inline]
    fn row(&mut self, row: &Registers, ends: bool) -> Option<()> {
        match &self.before {
            // Rows ascend within a sequence. Code discarded by the linker starts at 0.
            Some(before) if before.address <= row.address => {
                if self.wanted < row.address && before.address != 0 {
                    self.settle(*before, row.address)?;
                }
            }
            _ => self.go_on(self.svmas.partition_point(|&svma| svma < row.address)),
        }
        self.before = (!ends).then_some(*row);
        Some(())
    }

    fn settle(&mut self, row: Registers, end: u64) -> Option<()> {
        let small = |value: u64| u32::try_from(value).unwrap_or(0);
        while self.wanted < end {
            let Some(found) = self.found.get_mut(self.next) else {
                break;
            };
            if self.wanted >= row.address && found.is_none() {
                *found = Some(Row {
                    file: row.file,
                    line: small(row.line),
                    column: small(row.column),
                });
                self.missing -= 1;
            }
            self.go_on(self.next + 1);
        }
        (self.missing > 0).then_some(())
    }

    fn go_on(&mut self, next: usize) {
        self.next = next;
        self.wanted = self.svmas.get(next).copied().unwrap_or(u64::MAX);
    }
}

struct Machine<'a> {
    at: Registers,
    is_gone: bool,
    opcode_base: u8,
    line_base: i64,
    line_range: u8,
    /// Reciprocal: `n * reciprocal >> 16` is `n / line_range`, for all bytes.
    reciprocal: u32,
    min_length: u64,
    operations: u64,
    address_size: u8,
    /// Highest valid address for the address size.
    highest: u64,
    arguments: &'a [u8],
}

impl<'a> Machine<'a> {
    fn new(header: &LineProgramHeader<Slice<'a>>) -> Self {
        let address_size = header.address_size();
        // gimli rejects a header with a range of 0.
        let line_range = header.line_range().max(1);
        Self {
            at: Registers::AT_START,
            is_gone: false,
            opcode_base: header.opcode_base(),
            line_base: header.line_base().into(),
            line_range,
            reciprocal: 65_536_u32.div_ceil(line_range.into()),
            min_length: header.minimum_instruction_length().into(),
            operations: header.maximum_operations_per_instruction().max(1).into(),
            address_size,
            highest: u64::MAX >> (64 - 8 * u32::from(address_size.clamp(1, 8))),
            arguments: header.standard_opcode_lengths().slice(),
        }
    }

    fn run(mut self, mut program: Slice<'a>, search: &mut Search<'_>) -> Option<()> {
        while let Some((&opcode, rest)) = program.slice().split_first() {
            program = EndianSlice::new(rest, program.endian());
            if opcode >= self.opcode_base {
                let (operations, line) = self.special(opcode);
                self.add_line(self.line_base + i64::from(line));
                self.add_operations(operations.into())?;
                self.emit(search, false)?;
                continue;
            }
            match gimli::DwLns(opcode) {
                gimli::DwLns(0) => {
                    let len = usize::try_from(leb(&mut program)?).ok()?;
                    let instruction = program.split(len).ok()?;
                    self.extended(instruction, search)?;
                }
                gimli::DW_LNS_copy => self.emit(search, false)?,
                gimli::DW_LNS_advance_pc => {
                    let operations = leb(&mut program)?;
                    self.add_operations(operations)?;
                }
                gimli::DW_LNS_advance_line => self.add_line(program.read_sleb128().ok()?),
                gimli::DW_LNS_set_file => self.at.file = leb(&mut program)?,
                gimli::DW_LNS_set_column => self.at.column = leb(&mut program)?,
                gimli::DW_LNS_const_add_pc => {
                    let (operations, _) = self.special(255);
                    self.add_operations(operations.into())?;
                }
                gimli::DW_LNS_fixed_advance_pc => {
                    let len = program.read_u16().ok()?;
                    if !self.is_gone {
                        self.add_address(len.into())?;
                        self.at.operation = 0;
                    }
                }
                gimli::DW_LNS_negate_stmt
                | gimli::DW_LNS_set_basic_block
                | gimli::DW_LNS_set_prologue_end
                | gimli::DW_LNS_set_epilogue_begin => {}
                gimli::DW_LNS_set_isa => drop(leb(&mut program)?),
                _ => {
                    let arguments = *self.arguments.get(usize::from(opcode).checked_sub(1)?)?;
                    for _ in 0..arguments {
                        leb(&mut program)?;
                    }
                }
            }
        }
        Some(())
    }

    fn extended(&mut self, mut instruction: Slice<'a>, search: &mut Search<'_>) -> Option<()> {
        match gimli::DwLne(instruction.read_u8().ok()?) {
            gimli::DW_LNE_end_sequence => {
                self.emit(search, true)?;
                (self.at, self.is_gone) = (Registers::AT_START, false);
            }
            gimli::DW_LNE_set_address => {
                let address = instruction.read_address(self.address_size).ok()?;
                // Discarded code has address -1 in DWARF 6, -2 with LLVM, and 0 or a small offset
                // with binutils. Addresses of other code ascend.
                self.is_gone = address < self.at.address || address >= self.highest - 1;
                if !self.is_gone {
                    self.at.address = address;
                    self.at.operation = 0;
                }
            }
            _ => {}
        }
        Some(())
    }

    /// Returns the advance of a special opcode: operations, and lines in addition to the base.
    #[inline]
    fn special(&self, opcode: u8) -> (u8, u8) {
        let value = opcode - self.opcode_base;
        let operations = ((u32::from(value) * self.reciprocal) >> 16) as u8;
        (operations, value - operations * self.line_range)
    }

    #[inline]
    fn emit(&self, search: &mut Search<'_>, ends: bool) -> Option<()> {
        if self.is_gone {
            return Some(());
        }
        search.row(&self.at, ends)
    }

    #[inline]
    fn add_line(&mut self, by: i64) {
        let line = &mut self.at.line;
        *line = match by < 0 {
            true => line.saturating_sub(by.unsigned_abs()),
            false => line.wrapping_add(by.unsigned_abs()),
        };
    }

    #[inline]
    fn add_operations(&mut self, by: u64) -> Option<()> {
        if self.is_gone {
            return Some(());
        }
        let mut instructions = by;
        if self.operations > 1 {
            let sum = self.at.operation.wrapping_add(by);
            self.at.operation = sum % self.operations;
            instructions = sum / self.operations;
        }
        self.add_address(self.min_length.wrapping_mul(instructions))
    }

    #[inline]
    fn add_address(&mut self, by: u64) -> Option<()> {
        self.at.address = self.at.address.checked_add(by)?;
        (self.at.address <= self.highest).then_some(())
    }
}

#[inline]
fn leb(input: &mut Slice<'_>) -> Option<u64> {
    match input.slice().split_first() {
        Some((&byte, rest)) if byte < 0x80 => {
            *input = EndianSlice::new(rest, input.endian());
            Some(byte.into())
        }
        _ => input.read_uleb128().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gimli::{DebugLine, DebugLineOffset, RunTimeEndian};
    use rprof_testing::Random;

    /// Compares random programs, most of them damaged, with gimli's machine and a linear search.
    #[test]
    fn as_gimli_runs_it() {
        let mut numbers = Random::new(7);
        let mut random = |below: u64| numbers.below(below);
        let (mut rows_seen, mut named) = (0, 0);
        for round in 0..4000 {
            let line_range = [1, 4, 10, 12, 14, 15, 242][random(7) as usize];
            let operations = if round % 5 == 0 { 3 } else { 1 };
            let mut header = vec![1_u8, operations, 1, 251, line_range, 13];
            header.extend([0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1]);
            header.extend([0, b'a', 0, 0, 0, 0, 0]);
            let mut program = Vec::new();
            for _ in 0..1 + random(40) {
                match random(12) {
                    0 => {
                        program.extend([0, 9, 2]);
                        let gone = [0, u64::MAX, u64::MAX - 1][random(3) as usize];
                        let address = if random(8) == 0 { gone } else { random(3000) };
                        program.extend(address.to_le_bytes());
                    }
                    1 => program.extend([0, 1, 1]),
                    2 => program.extend([2, random(128) as u8]),
                    3 => program.extend([3, random(128) as u8]),
                    4 => program.extend([4, random(5) as u8]),
                    5 => program.extend([5, random(100) as u8]),
                    6 => program.push(8),
                    7 => program.extend([9, random(200) as u8, 0]),
                    8 => program.push([1, 6, 7, 10, 11][random(5) as usize]),
                    _ => program.push(13 + random(243) as u8),
                }
            }
            let mut unit = vec![4, 0];
            unit.extend((header.len() as u32).to_le_bytes());
            unit.extend(&header);
            unit.extend(&program);
            let mut section = (unit.len() as u32).to_le_bytes().to_vec();
            section.extend(&unit);
            let lines = DebugLine::new(&section, RunTimeEndian::Little);
            let incomplete = lines.program(DebugLineOffset(0), 8, None, None).unwrap();

            let mut svmas: Vec<u64> = (0..random(200)).map(|_| random(4000)).collect();
            svmas.sort_unstable();
            svmas.dedup();
            let found = rows(incomplete.header(), &svmas);

            let mut expected = vec![None; svmas.len()];
            let mut theirs = incomplete.rows();
            let mut before: Option<(u64, Row)> = None;
            while let Ok(Some((_, row))) = theirs.next_row() {
                rows_seen += 1;
                if let Some((start, value)) = before
                    && start != 0
                {
                    for (svma, expected) in svmas.iter().zip(&mut expected) {
                        if (start..row.address()).contains(svma) && expected.is_none() {
                            *expected = Some(value);
                        }
                    }
                }
                let column = match row.column() {
                    gimli::ColumnType::LeftEdge => 0,
                    gimli::ColumnType::Column(column) => column.get() as u32,
                };
                let value = Row {
                    file: row.file_index(),
                    line: row.line().map_or(0, |line| line.get() as u32),
                    column,
                };
                before = (!row.end_sequence()).then_some((row.address(), value));
            }
            assert_eq!(found, expected, "{program:?}");
            named += found.iter().flatten().count();
        }
        assert!(rows_seen > 10_000 && named > 10_000, "{rows_seen} {named}");
    }
}
