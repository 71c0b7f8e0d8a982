//! Machine code to instructions.
//!
//! One [`Disassembler`] for each kind of processor; nobody else knows the crate behind it.

mod aarch64;
mod x86;

use std::str::FromStr;

/// Notation of instructions, where a processor has several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Syntax {
    /// AT&T's notation, as objdump and perf print it: `mov %rsp,%rbp`.
    #[default]
    Att,
    /// Intel's: `mov rbp,rsp`.
    Intel,
}

impl FromStr for Syntax {
    type Err = ();

    fn from_str(name: &str) -> Result<Syntax, ()> {
        match name {
            "att" => Ok(Syntax::Att),
            "intel" => Ok(Syntax::Intel),
            _ => Err(()),
        }
    }
}

/// Control flow after an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flow {
    /// To the next.
    #[default]
    Next,
    /// Elsewhere, always.
    Jump,
    /// Elsewhere or to the next.
    Branch,
    /// Elsewhere, and back to the next.
    Call,
    /// Back to the caller.
    Return,
}

/// Instruction as it was decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decoded {
    /// Length in bytes, 1 at least.
    pub len: usize,
    /// Mnemonic and operands; bytes that are no instruction are data.
    pub text: String,
    /// Control flow after the instruction.
    pub flow: Flow,
    /// Address to which it goes, where the instruction has it.
    pub target: Option<u64>,
}

/// Decoder of the instructions of one kind of processor.
pub trait Disassembler {
    /// Decodes the first instruction of `bytes`, which are not empty, at an address. What is no instruction is data
    /// of one byte, or of one word where all instructions are words.
    fn decode(&mut self, bytes: &[u8], address: u64) -> Decoded;
}

/// Returns the disassembler for a processor, as ELF numbers it (`e_machine`).
pub fn disassembler(machine: u16, syntax: Syntax) -> Option<Box<dyn Disassembler>> {
    match machine {
        // EM_386, EM_X86_64, EM_AARCH64.
        3 => Some(Box::new(x86::X86::new(32, syntax))),
        62 => Some(Box::new(x86::X86::new(64, syntax))),
        183 => Some(Box::new(aarch64::Aarch64)),
        _ => None,
    }
}

/// Returns the text for bytes that are no instruction.
fn data(bytes: &[u8], directive: &str) -> String {
    let digits: String = bytes
        .iter()
        .rev()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{directive} 0x{digits}")
}
