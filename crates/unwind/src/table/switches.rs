//! Go's runtime: calls on another stack.
//!
//! `systemstack`, `mcall`, `morestack` and `asmcgocall` load the stack pointer and call at
//! once. The call frame information goes on as if the stack were the same, but above what
//! they begin lies what was left there by others: 0 in most threads, stale addresses in the
//! first one. So these calls are where a stack begins.

use super::elf::part;
use iced_x86::{Decoder, DecoderOptions, FlowControl};
use object::ReadRef;
use rprof_image::Segments;

/// Maximum number of instructions between the new stack pointer and the call; `asmcgocall` has 8.
const MAX_INSTRUCTIONS: usize = 12;
/// Maximum number of calls that are kept; there are some 10.
const MAX_KEPT: usize = 256;
/// Maximum number of bytes of code that are searched. The largest Go programs have some 100 MB.
const MAX_SEARCHED: usize = 256 << 20;

/// SVMAs behind such calls, sorted.
pub(crate) fn find<'data>(bytes: impl ReadRef<'data>, segments: &Segments) -> Box<[u64]> {
    let mut found = Vec::new();
    // Segments may overlap in a file that is damaged.
    let len = bytes.len().map_or(0, |len| len as usize);
    let mut left = len.min(MAX_SEARCHED);
    for segment in segments.code() {
        let (start, end) = (segment.svma, segment.svma.saturating_add(segment.file_size));
        let code = segments
            .offset_of_svma(start)
            .and_then(|(offset, mapped)| part(bytes, offset, mapped.min(end.checked_sub(start)?)));
        let code = code.unwrap_or(&[]);
        let code = code.get(..left).unwrap_or(code);
        left -= code.len();
        for (at, window) in code.windows(3).enumerate() {
            if found.len() >= MAX_KEPT {
                break;
            }
            if loads_sp(window)
                && let Some(len) = code.get(at..).and_then(to_call)
            {
                found.push(start + (at + len) as u64);
            }
        }
    }
    found.sort_unstable();
    found.into()
}

/// `mov rsp, r` or `mov rsp, [r+x]`, where the register is none of rsp and rbp: those belong to
/// this stack.
fn loads_sp(code: &[u8]) -> bool {
    match *code {
        [0x48 | 0x4c, 0x89, modrm] => modrm & 0xc7 == 0xc4 && !matches!(modrm, 0xe4 | 0xec),
        [0x48 | 0x49, 0x8b, modrm] => modrm & 0xf8 == 0x60 && !matches!(modrm, 0x64 | 0x65),
        _ => false,
    }
}

/// Returns the offset behind the first call, if no jump comes before.
fn to_call(code: &[u8]) -> Option<usize> {
    let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
    for _ in 0..MAX_INSTRUCTIONS {
        let instruction = decoder.decode();
        match instruction.flow_control() {
            _ if instruction.is_invalid() => return None,
            FlowControl::Next => {}
            FlowControl::Call | FlowControl::IndirectCall => return Some(decoder.position()),
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systemstack_and_others() {
        // mov rsp, rbx; mov rdx, rdi; mov rdi, [rdi]; call rdi
        let code = [
            0x48, 0x89, 0xdc, 0x48, 0x89, 0xfa, 0x48, 0x8b, 0x3f, 0xff, 0xd7, 0x90,
        ];
        assert!(loads_sp(&code[..3]));
        assert_eq!(to_call(&code), Some(11));
        assert!(loads_sp(&[0x49, 0x8b, 0x66]), "mov rsp, [r14+x]");
        assert!(!loads_sp(&[0x48, 0x89, 0xec]), "mov rsp, rbp");
        assert!(!loads_sp(&[0x48, 0x8b, 0x65]), "mov rsp, [rbp+x]");
        // mov rsp, rbx; jmp rbx
        assert_eq!(to_call(&[0x48, 0x89, 0xdc, 0xff, 0xe3]), None);
    }
}
