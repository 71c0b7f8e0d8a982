//! Disassembly of machine code.
//!
//! Each kind of processor has a [`Disassembler`], which hides the crate that it uses.

mod aarch64;
mod x86;

use std::str::FromStr;

/// Assembly syntax, for processors with several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Syntax {
    /// AT&T syntax, as in objdump and perf: `mov %rsp,%rbp`.
    #[default]
    Att,
    /// Intel syntax: `mov rbp,rsp`.
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
    /// Falls through to the next instruction.
    #[default]
    Next,
    /// Unconditional jump.
    Jump,
    /// Conditional jump.
    Branch,
    /// Call, which returns to the next instruction.
    Call,
    /// Return to the caller.
    Return,
}

/// Decoded instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decoded {
    /// Length in bytes, at least 1.
    pub len: usize,
    /// Mnemonic and operands, or a data directive for invalid bytes.
    pub text: String,
    /// Control flow after the instruction.
    pub flow: Flow,
    /// Target address, if it is encoded in the instruction.
    pub target: Option<u64>,
}

/// Decoder for one kind of processor.
pub trait Disassembler {
    /// Decodes the first instruction of `bytes`, which must not be empty. Invalid code becomes data
    /// of one byte, or of one word for word-based instruction sets.
    fn decode(&mut self, bytes: &[u8], address: u64) -> Decoded;
}

/// Returns the disassembler for an ELF machine (`e_machine`).
pub fn disassembler(machine: u16, syntax: Syntax) -> Option<Box<dyn Disassembler>> {
    match machine {
        // EM_386, EM_X86_64, EM_AARCH64.
        3 => Some(Box::new(x86::X86::new(32, syntax))),
        62 => Some(Box::new(x86::X86::new(64, syntax))),
        183 => Some(Box::new(aarch64::Aarch64)),
        _ => None,
    }
}

fn data(bytes: &[u8], directive: &str) -> String {
    let digits: String = bytes
        .iter()
        .rev()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{directive} 0x{digits}")
}
