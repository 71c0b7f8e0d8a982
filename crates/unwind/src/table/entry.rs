//! Length of the code at an image's entry point.

use crate::branch::{Branch, LinkUse};
use crate::{Arch, code};
use iced_x86::{Decoder, DecoderOptions, FlowControl};

/// Maximum length in bytes. The longest known code, in glibc's dynamic linker, has about 70.
const MAX_LEN: usize = 256;

/// Returns the length in bytes of the entry function: up to an unconditional jump, a return, an
/// invalid instruction, or a call before padding. `_start` is assembly code that never returns.
pub(crate) fn len(arch: Arch, code: &[u8]) -> u64 {
    let code = code.get(..MAX_LEN).unwrap_or(code);
    match arch {
        Arch::X86_64 | Arch::X86 => x86(arch, code),
        Arch::Aarch64 => aarch64(code),
    }
}

fn x86(arch: Arch, code: &[u8]) -> u64 {
    let mut decoder = Decoder::new(arch.bits(), code, DecoderOptions::NONE);
    while decoder.can_decode() {
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            break;
        }
        let at = decoder.position();
        match instruction.flow_control() {
            FlowControl::Next | FlowControl::ConditionalBranch => {}
            FlowControl::Call | FlowControl::IndirectCall => {
                // A return address lies after the call.
                if code.get(at..).is_some_and(code::is_padding) {
                    return at as u64 + 1;
                }
            }
            _ => return at as u64,
        }
    }
    decoder.position() as u64
}

/// Returns the length up to `b`, `br`, `ret`, a trap, or a call before the next function.
fn aarch64(code: &[u8]) -> u64 {
    const NOP: u32 = 0xd503_201f;
    let (words, _) = code.as_chunks();
    let word = |at: usize| words.get(at).map(|word| u32::from_le_bytes(*word));
    // udf, brk, hlt
    let is_trap = |word: u32| {
        word >> 16 == 0 || word >> 21 == 0b110_1010_0001 || word >> 21 == 0b110_1010_0010
    };
    let begins =
        |word: u32| word == NOP || is_trap(word) || LinkUse::decode(word) == Some(LinkUse::Saved);
    let ends = |at: &usize| match word(*at).map(|word| (word, Branch::decode(word, 0))) {
        Some((_, Some(Branch::Jump(_) | Branch::Indirect(_) | Branch::Return(_)))) => true,
        Some((_, Some(Branch::Call(_)))) => word(at + 1).is_some_and(begins),
        Some((word, _)) => is_trap(word),
        None => true,
    };
    let last = (0..words.len()).find(ends);
    last.map_or(words.len(), |at| at + 1) as u64 * 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_musl() {
        // xor rbp, rbp; mov rdi, rsp; and rsp, -16; call; nop; another function
        let code = [
            0x48, 0x31, 0xed, 0x48, 0x89, 0xe7, 0x48, 0x83, 0xe4, 0xf0, 0xe8, 4, 0, 0, 0, 0x0f,
            0x1f, 0x40, 0, 0x55, 0x53, 0xc3,
        ];
        assert_eq!(len(Arch::X86_64, &code), 16, "up to the return address");
        // mov x29, #0; mov x0, sp; b
        let code = [
            0x1d, 0, 0x80, 0xd2, 0xe0, 3, 0, 0x91, 1, 0, 0, 0x14, 0xfd, 0x7b, 0xbf, 0xa9,
        ];
        assert_eq!(len(Arch::Aarch64, &code), 12);
        // mov x29, #0; bl; brk #0, and str x30, [sp, #-16]! instead: another function
        for next in [0xd420_0000_u32, 0xf81f_0ffe] {
            let code = [0xd280_001d_u32, 0x9400_0022, next, 0xd503_201f];
            let code: Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
            assert_eq!(len(Arch::Aarch64, &code), 8, "{next:#x}");
        }
        // xor ebp, ebp; mov eax, esp; and esp, -16; push eax; call 1f; 1: push eax; call; nop
        let code = [
            0x31, 0xed, 0x89, 0xe0, 0x83, 0xe4, 0xf0, 0x50, 0xe8, 0, 0, 0, 0, 0x50, 0xe8, 4, 0, 0,
            0, 0x8d, 0x76, 0, 0x55, 0x53, 0xc3,
        ];
        assert_eq!(len(Arch::X86, &code), 20, "up to the return address");
        assert_eq!(len(Arch::Aarch64, &[]), 0);
        assert_eq!(len(Arch::X86_64, &[]), 0);
    }
}
