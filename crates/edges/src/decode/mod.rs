//! Instructions, as far as they matter for calls: control flow, named addresses, stack switches.

mod aarch64;
mod x86;

use iced_x86::{Decoder, DecoderOptions};

pub(crate) use aarch64::text as aarch64_text;
pub(crate) use x86::text as x86_text;

/// Instruction set of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arch {
    X86_64,
    Aarch64,
}

impl Arch {
    /// Returns the lengths that a call instruction can have, in bytes.
    pub(crate) const fn call_lengths(self) -> std::ops::RangeInclusive<u64> {
        match self {
            Self::X86_64 => 2..=9,
            Self::Aarch64 => 4..=4,
        }
    }
}

/// Destination of a call or jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Address(u64),
    /// The pointer at this address.
    Slot(u64),
    /// A jump table, whose entries lie in the same function.
    Table,
    /// A pointer in a register or in memory.
    Pointer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Next,
    Call(Target),
    Jump(Target),
    /// A conditional jump.
    Branch(u64),
    Return,
    /// A trap or a halt: execution does not continue behind it.
    Stop,
    Invalid,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    /// Length in bytes.
    pub(crate) len: u64,
    pub(crate) flow: Flow,
    /// An address in an operand, which may become a function pointer.
    pub(crate) named: Option<u64>,
    /// True if the stack pointer is loaded with a value that is not based on the frame.
    pub(crate) switches_stack: bool,
    /// True for fillers between functions.
    pub(crate) is_padding: bool,
}

impl Instruction {
    const fn new(len: u64, flow: Flow) -> Self {
        Self {
            len,
            flow,
            named: None,
            switches_stack: false,
            is_padding: false,
        }
    }
}

/// Decodes a range of code, one instruction after the other.
pub(crate) struct Sweep<'a> {
    arch: Arch,
    bytes: &'a [u8],
    start: u64,
    at: usize,
    decoder: Decoder<'a>,
    x86: x86::Before,
    aarch64: aarch64::Before,
}

impl<'a> Sweep<'a> {
    pub(crate) fn new(arch: Arch, bytes: &'a [u8], start: u64) -> Self {
        Self {
            arch,
            bytes,
            start,
            at: 0,
            decoder: Decoder::with_ip(64, bytes, start, DecoderOptions::NONE),
            x86: x86::Before::default(),
            aarch64: aarch64::Before::default(),
        }
    }
}

impl Iterator for Sweep<'_> {
    /// Address and instruction.
    type Item = (u64, Instruction);

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.bytes.get(self.at..).filter(|rest| !rest.is_empty())?;
        let address = self.start.wrapping_add(self.at as u64);
        let instruction = match self.arch {
            Arch::X86_64 => {
                self.decoder.set_position(self.at).ok()?;
                self.decoder.set_ip(address);
                x86::decode(&mut self.decoder, &mut self.x86)
            }
            Arch::Aarch64 => aarch64::decode(rest, address, &mut self.aarch64),
        };
        self.at += instruction.len as usize;
        Some((address, instruction))
    }
}
