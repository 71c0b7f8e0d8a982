//! Evaluates the DWARF expressions of call frame information.
//!
//! Makes no allocations, never panics and runs a bounded number of operations. Rejects operations
//! that make no sense here (locations, types, calls), and `DW_OP_addr`, which no compiler emits for
//! unwinding. Values have the size of an address. Source: DWARF 5, section 2.5.

use crate::{Arch, Memory, Registers};

const MAX_OPERATIONS: usize = 1000;
const MAX_DEPTH: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nonsensical or unsupported.
    Bad,
    /// The value of this register is unknown.
    Register(u8),
    /// The memory at this address is unknown.
    Memory(u64),
}

/// Evaluates `code`. The stack starts with `initial`, if given.
pub(crate) fn evaluate(
    code: &[u8],
    initial: Option<u64>,
    registers: &Registers,
    memory: &dyn Memory,
) -> Result<u64, Fault> {
    let mut stack = Stack::new(registers.arch());
    if let Some(value) = initial {
        stack.push(value)?;
    }
    let mut code = Code { bytes: code, at: 0 };
    for _ in 0..MAX_OPERATIONS {
        let Some(operation) = code.next() else {
            return stack.pop();
        };
        operate(operation, &mut code, &mut stack, registers, memory)?;
    }
    Err(Fault::Bad)
}

fn operate(
    operation: u8,
    code: &mut Code<'_>,
    stack: &mut Stack,
    registers: &Registers,
    memory: &dyn Memory,
) -> Result<(), Fault> {
    let arch = registers.arch();
    let value = match operation {
        // DW_OP_deref
        0x06 => {
            let address = stack.pop()?;
            arch.read_word(memory, address)
                .ok_or(Fault::Memory(address))?
        }
        // DW_OP_const1u to DW_OP_consts
        0x08 => u64::from(u8::from_le_bytes(code.read_array()?)),
        0x09 => i64::from(i8::from_le_bytes(code.read_array()?)) as u64,
        0x0a => u64::from(u16::from_le_bytes(code.read_array()?)),
        0x0b => i64::from(i16::from_le_bytes(code.read_array()?)) as u64,
        0x0c => u64::from(u32::from_le_bytes(code.read_array()?)),
        0x0d => i64::from(i32::from_le_bytes(code.read_array()?)) as u64,
        0x0e | 0x0f => u64::from_le_bytes(code.read_array()?),
        0x10 => code.uleb()?,
        0x11 => code.sleb()? as u64,
        // DW_OP_dup, drop, over, pick
        0x12 => stack.peek(0)?,
        0x13 => return stack.pop().map(drop),
        0x14 => stack.peek(1)?,
        0x15 => stack.peek(usize::from(u8::from_le_bytes(code.read_array()?)))?,
        // DW_OP_swap, rot
        0x16 => return stack.rotate(2),
        0x17 => return stack.rotate(3),
        // DW_OP_abs, neg, not, plus_uconst
        0x19 => arch.signed(stack.pop()?).wrapping_abs() as u64,
        0x1f => stack.pop()?.wrapping_neg(),
        0x20 => !stack.pop()?,
        0x23 => stack.pop()?.wrapping_add(code.uleb()?),
        0x1a..=0x1e | 0x21 | 0x22 | 0x24..=0x27 | 0x29..=0x2e => {
            let right = stack.pop()?;
            let left = stack.pop()?;
            binary(operation, arch, left, right)?
        }
        // DW_OP_bra, skip
        0x28 | 0x2f => {
            let distance = i16::from_le_bytes(code.read_array()?);
            if operation == 0x2f || stack.pop()? != 0 {
                code.skip(distance)?;
            }
            return Ok(());
        }
        // DW_OP_lit0 to lit31
        0x30..=0x4f => u64::from(operation - 0x30),
        // DW_OP_breg0 to breg31, bregx
        0x70..=0x8f => based(u64::from(operation - 0x70), code.sleb()?, registers)?,
        0x92 => {
            let register = code.uleb()?;
            based(register, code.sleb()?, registers)?
        }
        // DW_OP_deref_size
        0x94 => {
            let size = u8::from_le_bytes(code.read_array()?);
            if !(1..=arch.word_size()).contains(&size.into()) {
                return Err(Fault::Bad);
            }
            let address = stack.pop()?;
            let word = arch.read_word(memory, address);
            let word = word.ok_or(Fault::Memory(address))?;
            word & (u64::MAX >> (64 - 8 * u32::from(size)))
        }
        // DW_OP_nop
        0x96 => return Ok(()),
        _ => return Err(Fault::Bad),
    };
    stack.push(value)
}

fn based(register: u64, offset: i64, registers: &Registers) -> Result<u64, Fault> {
    let register = u8::try_from(register).map_err(|_| Fault::Bad)?;
    let arch = registers.arch();
    let value = if arch.is_x86() && register == arch.return_address() {
        registers.ip()
    } else {
        registers.get(register).ok_or(Fault::Register(register))?
    };
    Ok(value.wrapping_add_signed(offset))
}

fn binary(operation: u8, arch: Arch, left: u64, right: u64) -> Result<u64, Fault> {
    let (signed_left, signed_right) = (arch.signed(left), arch.signed(right));
    let shift = u32::try_from(right).unwrap_or(u32::MAX);
    Ok(match operation {
        0x1a => left & right,
        0x1b if right == 0 => return Err(Fault::Bad),
        0x1b => signed_left.wrapping_div(signed_right) as u64,
        0x1c => left.wrapping_sub(right),
        0x1d => left.checked_rem(right).ok_or(Fault::Bad)?,
        0x1e => left.wrapping_mul(right),
        0x21 => left | right,
        0x22 => left.wrapping_add(right),
        0x24 => left.checked_shl(shift).unwrap_or(0),
        0x25 => left.checked_shr(shift).unwrap_or(0),
        0x26 => (signed_left >> shift.min(63)) as u64,
        0x27 => left ^ right,
        0x29 => u64::from(left == right),
        0x2a => u64::from(signed_left >= signed_right),
        0x2b => u64::from(signed_left > signed_right),
        0x2c => u64::from(signed_left <= signed_right),
        0x2d => u64::from(signed_left < signed_right),
        0x2e => u64::from(left != right),
        _ => return Err(Fault::Bad),
    })
}

struct Code<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Code<'_> {
    fn next(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn read_array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let rest = self.bytes.get(self.at..).ok_or(Fault::Bad)?;
        let taken = *rest.first_chunk().ok_or(Fault::Bad)?;
        self.at += N;
        Ok(taken)
    }

    fn uleb(&mut self) -> Result<u64, Fault> {
        Ok(self.leb()?.0)
    }

    fn sleb(&mut self) -> Result<i64, Fault> {
        let (value, bits, negative) = self.leb()?;
        let value = if negative && bits < 64 {
            value | u64::MAX << bits
        } else {
            value
        };
        Ok(value as i64)
    }

    fn leb(&mut self) -> Result<(u64, u32, bool), Fault> {
        let mut value = 0;
        for shift in (0..70).step_by(7) {
            let byte = self.next().ok_or(Fault::Bad)?;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Ok((value, shift + 7, byte & 0x40 != 0));
            }
        }
        Err(Fault::Bad)
    }

    fn skip(&mut self, distance: i16) -> Result<(), Fault> {
        let target = self.at.checked_add_signed(distance.into());
        self.at = target
            .filter(|&target| target <= self.bytes.len())
            .ok_or(Fault::Bad)?;
        Ok(())
    }
}

struct Stack {
    arch: Arch,
    values: [u64; MAX_DEPTH],
    len: usize,
}

impl Stack {
    const fn new(arch: Arch) -> Self {
        Self {
            arch,
            values: [0; MAX_DEPTH],
            len: 0,
        }
    }

    fn push(&mut self, value: u64) -> Result<(), Fault> {
        *self.values.get_mut(self.len).ok_or(Fault::Bad)? = self.arch.wrap(value);
        self.len += 1;
        Ok(())
    }

    fn pop(&mut self) -> Result<u64, Fault> {
        let value = self.peek(0)?;
        self.len -= 1;
        Ok(value)
    }

    fn peek(&self, depth: usize) -> Result<u64, Fault> {
        let below = depth.checked_add(1).ok_or(Fault::Bad)?;
        let at = self.len.checked_sub(below).ok_or(Fault::Bad)?;
        self.values.get(at).copied().ok_or(Fault::Bad)
    }

    /// Moves the top value below `count - 1` other values.
    fn rotate(&mut self, count: usize) -> Result<(), Fault> {
        let start = self.len.checked_sub(count).ok_or(Fault::Bad)?;
        let top = self.values.get_mut(start..self.len).ok_or(Fault::Bad)?;
        top.rotate_right(1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gimli::{EndianSlice, EvaluationResult, Expression, LittleEndian, Location, Value};
    use proptest::prelude::*;

    struct Squares;

    impl Memory for Squares {
        fn read_u64(&self, avma: u64) -> Option<u64> {
            (!avma.is_multiple_of(5)).then(|| avma.wrapping_mul(avma))
        }
    }

    fn registers(arch: Arch) -> Registers {
        let mut registers = Registers::new(arch, 0x4000_1234, 0x7fff_0000);
        for (number, value) in [(0, 1), (6, 0x7fff_0100), (arch.word_size() as u8, u64::MAX)] {
            registers.set(number, value);
        }
        registers
    }

    fn oracle(code: &[u8], registers: &Registers) -> Option<u64> {
        let encoding = gimli::Encoding {
            address_size: registers.arch().word_size() as u8,
            format: gimli::Format::Dwarf32,
            version: 5,
        };
        let mut evaluation = Expression(EndianSlice::new(code, LittleEndian)).evaluation(encoding);
        evaluation.set_initial_value(0x7fff_0200);
        evaluation.set_max_iterations(900);
        let mut result = evaluation.evaluate().ok()?;
        loop {
            result = match result {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresRegister { register, .. } => {
                    let number = u8::try_from(register.0).ok()?;
                    let value = match number == registers.arch().return_address() {
                        true => registers.ip(),
                        false => registers.get(number)?,
                    };
                    evaluation
                        .resume_with_register(Value::Generic(value))
                        .ok()?
                }
                EvaluationResult::RequiresMemory { address, size, .. } => {
                    let word = registers.arch().read_word(&Squares, address)?;
                    let word = word & (u64::MAX >> (64 - 8 * u32::from(size)));
                    evaluation.resume_with_memory(Value::Generic(word)).ok()?
                }
                _ => return None,
            };
        }
        match evaluation.as_result().first()?.location {
            Location::Address { address } => Some(address),
            _ => None,
        }
    }

    fn ours(code: &[u8], registers: &Registers) -> Option<u64> {
        evaluate(code, Some(0x7fff_0200), registers, &Squares).ok()
    }

    #[test]
    fn of_a_plt() {
        // rsp + 8 + ((rip & 15) >= 10) * 8
        let code = [0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3a, 0x2a, 0x33, 0x24, 0x22];
        let mut registers = Registers::new(Arch::X86_64, 0x1019, 0x2000);
        assert_eq!(evaluate(&code, None, &registers, &Squares), Ok(0x2008));
        registers.set_ip(0x101a);
        assert_eq!(evaluate(&code, None, &registers, &Squares), Ok(0x2010));
    }

    /// The same of i386: esp + 4 + ((eip & 15) >= 11) * 4.
    #[test]
    fn of_a_plt_of_i386() {
        let code = [0x74, 4, 0x78, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x32, 0x24, 0x22];
        let mut registers = Registers::new(Arch::X86, 0x101a, 0xffff_fff8);
        assert_eq!(evaluate(&code, None, &registers, &Squares), Ok(0xffff_fffc));
        registers.set_ip(0x101b);
        assert_eq!(evaluate(&code, None, &registers, &Squares), Ok(0));
    }

    #[test]
    fn endless_and_empty() {
        let registers = registers(Arch::X86_64);
        let ours = |code: &[u8]| ours(code, &registers);
        assert_eq!(ours(&[0x2f, 0xfd, 0xff]), None, "a jump to itself");
        assert_eq!(evaluate(&[], None, &registers, &Squares), Err(Fault::Bad));
        assert_eq!(
            evaluate(&[0x73, 0], None, &registers, &Squares),
            Err(Fault::Register(3))
        );
        assert_eq!(
            evaluate(&[0x35, 0x06], None, &registers, &Squares),
            Err(Fault::Memory(5))
        );
        let push = [0x12; 40];
        assert_eq!(ours(&push), None, "too much on the stack");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5000))]

        /// If this module returns a value, gimli returns the same.
        #[test]
        fn as_gimli(code in prop::collection::vec(prop_oneof![
            0x06..0x24_u8, 0x24..0x30_u8, 0x30..0x50_u8, Just(0x70), Just(0x76), Just(0x77),
            Just(0x74), Just(0x78), Just(0x7a), Just(0x80), Just(0x94), Just(0x96), 0..10_u8, any::<u8>(),
        ], 1..24)) {
            for arch in [Arch::X86_64, Arch::X86] {
                let registers = registers(arch);
                if let Some(value) = ours(&code, &registers) {
                    prop_assert_eq!(Some(value), oracle(&code, &registers), "{:x?}", code);
                }
            }
        }
    }
}
