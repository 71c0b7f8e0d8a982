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
    /// A jump table, with entries in the same function.
    Table,
    /// An entry of the table of pointers at this address, which may be a jump table.
    Pointers(u64),
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
    /// A distance from the global offset table in an operand (`-mcmodel=large`).
    pub(crate) distance: Option<u64>,
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
            distance: None,
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

#[cfg(test)]
mod tests {
    use super::*;

    const AT: u64 = 0x1000;

    fn last(arch: Arch, bytes: &[u8]) -> Instruction {
        let (_, instruction) = Sweep::new(arch, bytes, AT).last().expect("an instruction");
        instruction
    }

    /// Texts as of objdump.
    #[test]
    fn jumps_of_x86_have_their_targets() {
        let cases: [(&str, &[u8], Flow); 10] = [
            (
                "movslq (%rdx,%rax,4),%rax; add %rdx,%rax; jmp *%rax",
                &[0x48, 0x63, 0x04, 0x82, 0x48, 0x01, 0xd0, 0xff, 0xe0],
                Flow::Jump(Target::Table),
            ),
            (
                "movslq (%rdx,%rax,4),%rax; add %rdx,%rax; mov 0x10(%rbx),%rax; jmp *%rax",
                &[
                    0x48, 0x63, 0x04, 0x82, 0x48, 0x01, 0xd0, 0x48, 0x8b, 0x43, 0x10, 0xff, 0xe0,
                ],
                Flow::Jump(Target::Pointer),
            ),
            (
                "notrack jmp *%rax",
                &[0x3e, 0xff, 0xe0],
                Flow::Jump(Target::Table),
            ),
            (
                "jmp *0x1ac8570(,%rbp,8)",
                &[0xff, 0x24, 0xed, 0x70, 0x85, 0xac, 0x01],
                Flow::Jump(Target::Pointers(0x1ac_8570)),
            ),
            (
                "mov 0x1f3d920(,%rax,8),%rax; jmp *%rax",
                &[0x48, 0x8b, 0x04, 0xc5, 0x20, 0xd9, 0xf3, 0x01, 0xff, 0xe0],
                Flow::Jump(Target::Pointer),
            ),
            (
                "jmp *0x2fe2(%rip)",
                &[0xff, 0x25, 0xe2, 0x2f, 0, 0],
                Flow::Jump(Target::Slot(0x3fe8)),
            ),
            (
                "call *0x404018",
                &[0xff, 0x14, 0x25, 0x18, 0x40, 0x40, 0],
                Flow::Call(Target::Slot(0x40_4018)),
            ),
            (
                "mov %rax,(%rsp); ret",
                &[0x48, 0x89, 0x04, 0x24, 0xc3],
                Flow::Jump(Target::Pointer),
            ),
            ("push %rax; ret", &[0x50, 0xc3], Flow::Jump(Target::Pointer)),
            ("pop %rax; ret", &[0x58, 0xc3], Flow::Return),
        ];
        for (text, bytes, flow) in cases {
            assert_eq!(last(Arch::X86_64, bytes).flow, flow, "{text}");
        }
    }

    #[test]
    fn stack_pointers_of_other_stacks_and_named_addresses_are_found() {
        let cases: [(&str, &[u8], bool); 4] = [
            ("mov %rdi,%rsp", &[0x48, 0x89, 0xfc], true),
            ("mov %rbp,%rsp", &[0x48, 0x89, 0xec], false),
            ("lea -8(%r10),%rsp", &[0x49, 0x8d, 0x62, 0xf8], true),
            ("sub $8,%rsp", &[0x48, 0x83, 0xec, 0x08], false),
        ];
        for (text, bytes, switches) in cases {
            assert_eq!(last(Arch::X86_64, bytes).switches_stack, switches, "{text}");
        }
        let lea = last(Arch::X86_64, &[0x48, 0x8d, 0x3d, 0x10, 0, 0, 0]);
        assert_eq!(lea.named, Some(0x1017));
        let mov = last(Arch::X86_64, &[0xbf, 0x56, 0x11, 0x40, 0]);
        assert_eq!(mov.named, Some(0x40_1156));
    }

    /// Words as of llvm-objdump.
    #[test]
    fn jumps_of_aarch64_have_their_targets() {
        let cases: [(&str, &[u32], Flow); 11] = [
            (
                "adrp x16, 0x2000; add x16, x16, #8; br x16",
                &[0xb000_0010, 0x9100_2210, 0xd61f_0200],
                Flow::Jump(Target::Address(0x2008)),
            ),
            (
                "adrp x16, 0x2000; mov x16, x0; br x16",
                &[0xb000_0010, 0xaa00_03f0, 0xd61f_0200],
                Flow::Jump(Target::Pointer),
            ),
            (
                "bl 0x1010",
                &[0x9400_0004],
                Flow::Call(Target::Address(0x1010)),
            ),
            (
                "b 0x1010",
                &[0x1400_0004],
                Flow::Jump(Target::Address(0x1010)),
            ),
            ("b.eq 0x1010", &[0x5400_0080], Flow::Branch(0x1010)),
            ("cbz x0, 0x1010", &[0xb400_0080], Flow::Branch(0x1010)),
            ("tbz w0, #0, 0x1010", &[0x3600_0080], Flow::Branch(0x1010)),
            ("blr x8", &[0xd63f_0100], Flow::Call(Target::Pointer)),
            (
                "adrp x16, 0x2000; ldr x17, [x16, #8]; add x16, x16, #8; br x17",
                &[0xb000_0010, 0xf940_0611, 0x9100_2210, 0xd61f_0220],
                Flow::Jump(Target::Slot(0x2008)),
            ),
            ("ret", &[0xd65f_03c0], Flow::Return),
            ("brk #0x3e8", &[0xd420_7d00], Flow::Stop),
        ];
        for (text, words, flow) in cases {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            assert_eq!(last(Arch::Aarch64, &bytes).flow, flow, "{text}");
        }
        let words = [0xb000_0000_u32, 0x9101_0000];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let add = last(Arch::Aarch64, &bytes);
        assert_eq!(
            add.named,
            Some(0x2040),
            "adrp x0, 0x2000; add x0, x0, #0x40"
        );
    }
}
