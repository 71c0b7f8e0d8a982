//! x86 and x86-64 disassembler, based on iced-x86.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Formatter, GasFormatter, Instruction, IntelFormatter,
    MemorySizeOptions, OpKind,
};

use super::{Decoded, Disassembler, Flow, Syntax, data};

pub(super) struct X86 {
    bits: u32,
    formatter: Box<dyn Formatter>,
}

impl X86 {
    pub(super) fn new(bits: u32, syntax: Syntax) -> X86 {
        let mut formatter: Box<dyn Formatter> = match syntax {
            Syntax::Att => Box::new(GasFormatter::new()),
            Syntax::Intel => Box::new(IntelFormatter::new()),
        };
        let options = formatter.options_mut();
        options.set_hex_prefix("0x");
        options.set_hex_suffix("");
        options.set_uppercase_hex(false);
        options.set_small_hex_numbers_in_decimal(false);
        options.set_add_leading_zero_to_hex_numbers(false);
        options.set_displacement_leading_zeros(false);
        options.set_branch_leading_zeros(false);
        options.set_leading_zeros(false);
        options.set_rip_relative_addresses(true);
        options.set_space_after_operand_separator(false);
        options.set_show_branch_size(false);
        if syntax == Syntax::Intel {
            options.set_memory_size_options(MemorySizeOptions::Always);
            options.set_uppercase_keywords(true);
        }
        X86 { bits, formatter }
    }

    fn text(&mut self, instruction: &Instruction, target: Option<u64>) -> String {
        let mut text = String::new();
        match target {
            // Targets are addresses, which listings print without `0x`.
            Some(target) => {
                self.formatter.format_mnemonic(instruction, &mut text);
                text.push_str(&format!(" {target:x}"));
            }
            None => self.formatter.format(instruction, &mut text),
        }
        text
    }
}

impl Disassembler for X86 {
    fn decode(&mut self, bytes: &[u8], address: u64) -> Decoded {
        let mut decoder = Decoder::with_ip(self.bits, bytes, address, DecoderOptions::NONE);
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            return Decoded {
                len: 1,
                text: data(bytes.get(..1).unwrap_or_default(), ".byte"),
                ..Decoded::default()
            };
        }
        let is_near = (0..instruction.op_count()).any(|operand| {
            matches!(
                instruction.op_kind(operand),
                OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64
            )
        });
        let target = is_near.then(|| instruction.near_branch_target());
        let flow = match instruction.flow_control() {
            FlowControl::UnconditionalBranch | FlowControl::IndirectBranch => Flow::Jump,
            FlowControl::ConditionalBranch => Flow::Branch,
            FlowControl::Call | FlowControl::IndirectCall => Flow::Call,
            FlowControl::Return => Flow::Return,
            FlowControl::Next
            | FlowControl::Interrupt
            | FlowControl::XbeginXabortXend
            | FlowControl::Exception => Flow::Next,
        };
        Decoded {
            len: instruction.len().max(1),
            text: self.text(&instruction, target),
            flow,
            target,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(bytes: &[u8], syntax: Syntax) -> Decoded {
        X86::new(64, syntax).decode(bytes, 0x1000)
    }

    #[test]
    fn instructions_have_text_flow_and_target() {
        let mov = decode(&[0x48, 0x89, 0xe5], Syntax::Att);
        assert_eq!(
            (mov.len, &*mov.text, mov.flow),
            (3, "mov %rsp,%rbp", Flow::Next)
        );
        assert_eq!(
            decode(&[0x48, 0x89, 0xe5], Syntax::Intel).text,
            "mov rbp,rsp"
        );
        let load = [0x8b, 0x45, 0xec];
        assert_eq!(decode(&load, Syntax::Att).text, "mov -0x14(%rbp),%eax");
        assert_eq!(
            decode(&load, Syntax::Intel).text,
            "mov eax,DWORD PTR [rbp-0x14]"
        );
        let branch = decode(&[0x75, 0x10], Syntax::Att);
        assert_eq!(
            (&*branch.text, branch.flow, branch.target),
            ("jne 1012", Flow::Branch, Some(0x1012))
        );
        let call = decode(&[0xe8, 0, 0, 0, 0], Syntax::Att);
        assert_eq!(
            (&*call.text, call.flow, call.target),
            ("call 1005", Flow::Call, Some(0x1005))
        );
        let indirect = decode(&[0xff, 0xe0], Syntax::Att);
        assert_eq!(
            (&*indirect.text, indirect.flow, indirect.target),
            ("jmp *%rax", Flow::Jump, None)
        );
        assert_eq!(decode(&[0xc3], Syntax::Att).flow, Flow::Return);
    }

    #[test]
    fn any_bytes_are_decoded_without_a_panic() {
        let mut numbers = rprof_testing::Random::new(3);
        let bytes: Vec<u8> = (0..20_000).map(|_| numbers.below(256) as u8).collect();
        for syntax in [Syntax::Att, Syntax::Intel] {
            let mut decoder = X86::new(64, syntax);
            let mut at = 0;
            while at < bytes.len() {
                let found = decoder.decode(&bytes[at..], (u64::MAX - 100).wrapping_add(at as u64));
                assert!(found.len > 0 && !found.text.is_empty());
                at += found.len;
            }
        }
        let cut = decode(&[0x48], Syntax::Att);
        assert_eq!((cut.len, &*cut.text), (1, ".byte 0x48"));
    }
}
