//! Recognises calls, exits and padding in machine code without call frame information. For x86-64
//! and i386, unless stated otherwise.

use crate::Arch;
use crate::branch::Branch;
use iced_x86::{ConditionCode, Decoder, DecoderOptions, FlowControl, Mnemonic, OpKind, Register};

pub(crate) const LEN: usize = 16;

/// Length in bytes of the longest call instruction without prefixes.
pub(crate) const LONGEST_CALL: usize = 7;

/// Returns true if the code before a return address ends with a call.
pub(crate) fn ends_with_call(code: &[u8]) -> bool {
    ends_with_direct_call(code).is_some() || ends_with_indirect_call(code)
}

/// Returns the distance from a return address to the target of the direct call before it. `None` for
/// calls through a register or memory, and for bytes that may be either.
pub(crate) fn direct_call(code: &[u8]) -> Option<i32> {
    ends_with_direct_call(code).filter(|_| !ends_with_indirect_call(code))
}

fn ends_with_direct_call(code: &[u8]) -> Option<i32> {
    match code.last_chunk::<5>()? {
        [0xe8, distance @ ..] => Some(i32::from_le_bytes(*distance)),
        _ => None,
    }
}

fn ends_with_indirect_call(code: &[u8]) -> bool {
    let at = |back: usize| code.len().checked_sub(back).and_then(|at| code.get(at));
    // call r/m64: opcode ff, extension 2 in the second byte, whose other bits give the length.
    (2..=LONGEST_CALL).any(|len| {
        let (Some(0xff), Some(second)) = (at(len), at(len - 1)) else {
            return false;
        };
        let (mode, register) = (second >> 6, second & 7);
        // An operand with a base of 4 has a byte for an index.
        let expected = match (mode, register) {
            (3, _) => 2,
            (0, 5) | (2, 0..=3 | 5..) => 6,
            (0, 4) => 3,
            (0, _) => 2,
            (1, 4) => 4,
            (1, _) => 3,
            _ => 7,
        };
        // Without a base the byte for the index is followed by four more.
        let is_absolute = (mode, register, len) == (0, 4, 7) && at(5).is_some_and(|b| b & 7 == 5);
        second >> 3 & 7 == 2 && (len == expected || is_absolute)
    })
}

/// Returns true if the AArch64 code before a return address ends with `bl`, `blr` or an
/// authenticating `blr`.
pub(crate) fn ends_with_aarch64_call(code: &[u8]) -> bool {
    let word = code.last_chunk().map(|bytes| u32::from_le_bytes(*bytes));
    let branch = word.and_then(|word| Branch::decode(word, 0));
    matches!(branch, Some(Branch::Call(_)))
}

/// Returns true for the signal return of AArch64: `mov x8, 139`, `svc 0`.
pub(crate) fn is_aarch64_signal_return(code: &[u8]) -> bool {
    matches!(code, [0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4, ..])
}

/// Returns true if the code after a call only ends the thread or the process:
///
/// - `mov edi, eax` or `mov rdi, rax`, a call and padding: `exit(main(...))`,
///   `pthread_exit(start(...))`;
/// - within 16 bytes `mov al, 60` or `mov eax, 60` and `syscall`: exit(2);
/// - `hlt`, which no user program can execute.
///
/// On i386 only `hlt`, and exit(2): within 16 bytes `mov eax, 1` or `inc eax`, and `int 0x80`.
pub(crate) fn exits(arch: Arch, code: &[u8]) -> bool {
    let start = code.get(..16).unwrap_or(code);
    let position = |what: &[u8]| start.windows(what.len()).position(|bytes| bytes == what);
    if arch == Arch::X86 {
        let number = position(&[0x31, 0xc0, 0x40]).or_else(|| position(&[0xb8, 1, 0, 0, 0]));
        let syscall = position(&[0xcd, 0x80]);
        return code.starts_with(&[0xf4])
            || matches!((number, syscall), (Some(number), Some(syscall)) if number < syscall);
    }
    let behind = match code {
        [0xf4, ..] => return true,
        [0x89, 0xc7, 0xe8, _, _, _, _, behind @ ..]
        | [0x48, 0x89, 0xc7, 0xe8, _, _, _, _, behind @ ..] => behind,
        _ => &[],
    };
    if is_padding(behind) {
        return true;
    }
    let number = position(&[0xb0, 60]).or_else(|| position(&[0xb8, 60, 0, 0, 0]));
    let syscall = position(&[0x0f, 0x05]);
    matches!((number, syscall), (Some(number), Some(syscall)) if number < syscall)
}

/// Returns true if `before` ends with the exit call described in [`exits`].
pub(crate) fn is_exit(arch: Arch, before: &[u8], behind: &[u8]) -> bool {
    arch == Arch::X86_64
        && matches!(before, [.., 0x89, 0xc7, 0xe8, _, _, _, _])
        && is_padding(behind)
}

/// Detects return addresses that no call has pushed:
///
/// - Go's `goexit` (`nop`, a call, `nop`), the root of goroutine stacks;
/// - where signal handlers return to: `mov rax, 15`, `syscall`; on i386 `mov eax, 173`, `int 0x80`,
///   or `pop eax`, `mov eax, 119`, `int 0x80`.
pub(crate) fn synthetic_return(
    arch: Arch,
    before: &[u8],
    behind: &[u8],
) -> Option<SyntheticReturn> {
    match (before, behind) {
        ([.., 0x90], [0xe8, _, _, _, _, 0x90, ..]) => Some(SyntheticReturn::GoExit),
        _ => is_signal_return(arch, behind).then_some(SyntheticReturn::SignalReturn),
    }
}

/// Returns true if code begins with a signal return: loads the number of the system call, and makes it.
pub(crate) fn is_signal_return(arch: Arch, code: &[u8]) -> bool {
    match arch {
        Arch::X86 => matches!(
            code,
            [0xb8, 173, 0, 0, 0, 0xcd, 0x80, ..] | [0x58, 0xb8, 119, 0, 0, 0, 0xcd, 0x80, ..]
        ),
        Arch::X86_64 => matches!(
            code,
            [0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 5, ..] | [0xb8, 15, 0, 0, 0, 0x0f, 5, ..]
        ),
        Arch::Aarch64 => is_aarch64_signal_return(code),
    }
}

/// Returns true if the code ends with the system call of a signal return: `mov rax, 15`, `syscall`, or on
/// i386 `mov eax, 173`, `int 0x80`.
pub(crate) fn ends_with_signal_return(arch: Arch, code: &[u8]) -> bool {
    match arch {
        Arch::X86_64 => matches!(code, [.., 0xb8 | 0xc0, 15, 0, 0, 0, 0x0f, 5]),
        Arch::X86 => matches!(code, [.., 0xb8, 173, 0, 0, 0, 0xcd, 0x80]),
        Arch::Aarch64 => false,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SyntheticReturn {
    GoExit,
    SignalReturn,
}

/// Returns the address behind the instructions that test the result of a system call against zero, and
/// jump: `test eax, eax; je`. `behind` is the code at `ip`, behind the system call. `None` if there is
/// no such call or test.
pub(crate) fn behind_result_test(
    arch: Arch,
    before: &[u8],
    (behind, ip): (&[u8], u64),
    result: u64,
) -> Option<u64> {
    let call: &[u8] = match arch {
        Arch::X86_64 => &[0x0f, 0x05],
        Arch::X86 => &[0xcd, 0x80],
        Arch::Aarch64 => return None,
    };
    if !before.ends_with(call) {
        return None;
    }
    let mut decoder = Decoder::with_ip(arch.bits(), behind, ip, DecoderOptions::NONE);
    let test = decoder.decode();
    let is_result = |register: Register| register.full_register() == Register::RAX;
    let is_test = test.op0_kind() == OpKind::Register
        && is_result(test.op0_register())
        && match (test.mnemonic(), test.op1_kind()) {
            (Mnemonic::Test, OpKind::Register) => is_result(test.op1_register()),
            (Mnemonic::Cmp, OpKind::Register | OpKind::Memory) => false,
            (Mnemonic::Cmp, _) => test.immediate(1) == 0,
            _ => false,
        };
    let is_zero = match test.op0_register().size() {
        8 => result == 0,
        _ => result as u32 == 0,
    };
    if !is_test {
        return None;
    }
    let mut at = test.next_ip();
    while decoder.can_decode() {
        let branch = decoder.decode();
        let is_taken = match (branch.condition_code(), is_zero) {
            (ConditionCode::e, _) => is_zero,
            (ConditionCode::ne, _) => !is_zero,
            (ConditionCode::l | ConditionCode::s, true) => false,
            (ConditionCode::ge | ConditionCode::ns, true) => true,
            _ => break,
        };
        if branch.flow_control() != FlowControl::ConditionalBranch {
            break;
        }
        if is_taken {
            return Some(branch.near_branch_target());
        }
        at = branch.next_ip();
    }
    Some(at)
}

/// Returns the length in bytes of the padding at the start of code.
pub(crate) fn padding(arch: Arch, code: &[u8]) -> usize {
    if arch == Arch::Aarch64 {
        const NOP: [u8; 4] = 0xd503_201f_u32.to_le_bytes();
        let (words, _) = code.as_chunks();
        return 4 * words.iter().take_while(|word| **word == NOP).count();
    }
    let mut decoder = Decoder::new(arch.bits(), code, DecoderOptions::NONE);
    let mut len = 0;
    while decoder.can_decode() {
        match decoder.decode().mnemonic() {
            Mnemonic::Nop | Mnemonic::Int3 => len = decoder.position(),
            _ => break,
        }
    }
    len
}

/// Returns true for the first instructions of a function. Behind padding, fewer suffice. Code behind
/// `setjmp` begins with `endbr64` too, but without padding. For x86.
pub(crate) fn begins_function(arch: Arch, code: &[u8], is_behind_padding: bool) -> bool {
    let rest = match (arch, code) {
        (Arch::X86_64, [0xf3, 0x0f, 0x1e, 0xfa, ..])
        | (Arch::X86, [0xf3, 0x0f, 0x1e, 0xfb, ..])
            if is_behind_padding =>
        {
            return true;
        }
        // push rbp; mov rbp, rsp
        (Arch::X86_64, [0x55, 0x48, rest @ ..]) | (Arch::X86, [0x55, rest @ ..]) => rest,
        _ => &[],
    };
    if matches!(rest, [0x89, 0xe5, ..] | [0x8b, 0xec, ..]) {
        return true;
    }
    // push of a register that a function must save; sub rsp
    arch == Arch::X86_64
        && is_behind_padding
        && matches!(
            code,
            [0x53 | 0x55, ..] | [0x41, 0x54..=0x57, ..] | [0x48, 0x83 | 0x81, 0xec, ..]
        )
}

pub(crate) fn is_padding(code: &[u8]) -> bool {
    matches!(
        code,
        [0x66, 0x2e, 0x0f, 0x1f, ..]
            | [0x66, 0x66, 0x2e, ..]
            | [0x0f, 0x1f, ..]
            | [0x66, 0x0f, 0x1f, ..]
            | [0x66, 0x90, ..]
            // i386: lea esi, [esi]
            | [0x2e, 0x8d, 0x74 | 0xb4, 0x26, ..]
            | [0x8d, 0x76, 0, ..]
            | [0x8d, 0x74, 0x26, 0, ..]
            | [0x8d, 0xb6 | 0xbc | 0xb4, 0x27 | 0x26 | 0, 0, 0, 0, ..]
            | [0x90 | 0xcc | 0xf4, ..]
            | [0x0f, 0x0b, ..]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls() {
        assert!(ends_with_call(&[0, 0, 0xe8, 1, 2, 3, 4]));
        assert!(ends_with_call(&[0xff, 0xd0]), "call rax");
        assert!(ends_with_call(&[0x41, 0xff, 0xd4]), "call r12");
        assert!(ends_with_call(&[0xff, 0x50, 0x18]), "call [rax+0x18]");
        assert!(ends_with_call(&[0xff, 0x15, 1, 2, 3, 4]), "call [rip+x]");
        assert!(
            ends_with_call(&[0xff, 0x94, 0xc1, 1, 2, 3, 4]),
            "call [rcx+rax*8+x]"
        );
        assert!(ends_with_call(&[0xff, 0x14, 0xc1]), "call [rcx+rax*8]");
        assert!(ends_with_call(&[0xff, 0x54, 0xc1, 8]), "call [rcx+rax*8+8]");
        assert!(ends_with_call(&[0xff, 0x90, 1, 2, 3, 4]), "call [rax+x]");
        assert!(ends_with_call(&[0xff, 0x14, 0x25, 1, 2, 3, 4]), "call [x]");
        assert!(!ends_with_call(&[0xff, 0x90, 0, 1, 2, 3, 4]));
        assert!(!ends_with_call(&[0xff, 0xe0]), "jmp rax");
        assert!(!ends_with_call(&[0x90; 7]));
        assert!(!ends_with_call(&[]));
    }

    #[test]
    fn direct_calls_have_a_distance() {
        assert_eq!(direct_call(&[0, 0, 0xe8, 1, 0, 0, 0]), Some(1));
        assert_eq!(direct_call(&[0xe8, 0xff, 0xff, 0xff, 0xff]), Some(-1));
        // call rax, whose bytes may also be the end of a direct call.
        assert_eq!(direct_call(&[0, 0, 0xe8, 1, 2, 0xff, 0xd0]), None);
        // call [rax+rbp*8+x]
        assert_eq!(direct_call(&[0xff, 0x94, 0xe8, 1, 2, 3, 4]), None);
        assert_eq!(direct_call(&[0xe8]), None);
        // The end of an instruction, and a nop.
        assert_eq!(direct_call(&[0xff, 0x90, 0xe8, 1, 0, 0, 0]), Some(1));
    }

    #[test]
    fn calls_of_aarch64() {
        let call = |word: u32| ends_with_aarch64_call(&word.to_le_bytes());
        assert!(call(0x9400_0123), "bl");
        assert!(call(0xd63f_0200), "blr x16");
        assert!(call(0xd73f_0910), "blraa x8, x16");
        assert!(!call(0x1400_0123), "b");
        assert!(!call(0xd65f_03c0), "ret");
        assert!(!ends_with_aarch64_call(&[0, 0x94]));
    }

    #[test]
    fn ends_of_threads() {
        // musl's __clone: mov edi, eax; xor eax, eax; mov al, 60; syscall; hlt
        assert!(exits(
            Arch::X86_64,
            &[0x89, 0xc7, 0x31, 0xc0, 0xb0, 60, 0x0f, 5, 0xf4]
        ));
        // exit(main(...)), and close(open(...))
        assert!(exits(
            Arch::X86_64,
            &[0x89, 0xc7, 0xe8, 1, 2, 3, 4, 0x66, 0x2e, 0x0f, 0x1f]
        ));
        assert!(is_exit(
            Arch::X86_64,
            &[0, 0x89, 0xc7, 0xe8, 1, 2, 3, 4],
            &[0x0f, 0x1f]
        ));
        assert!(!exits(
            Arch::X86_64,
            &[0x89, 0xc7, 0xe8, 1, 2, 3, 4, 0x48, 0x89, 0xc7]
        ));
        assert!(!exits(Arch::X86_64, &[0x89, 0xc7, 0x31, 0xc0, 0xc3]));
        assert!(
            !exits(Arch::X86_64, &[0x0f, 5, 0xb0, 60]),
            "the wrong order"
        );
        assert!(!exits(Arch::X86_64, &[]));
    }

    /// Ends of `clone3` and `clone` of glibc, `__clone` of musl, and `runtime.clone` of Go.
    #[test]
    fn the_result_of_a_system_call_chooses_the_branch() {
        let (parent, failed) = (4242, (-38_i64).cast_unsigned());
        for (arch, before, behind, (child, parents)) in [
            // test rax, rax; jl +0x11; je +1; ret
            (
                Arch::X86_64,
                &[0x0f, 0x05][..],
                &[0x48, 0x85, 0xc0, 0x7c, 0x11, 0x74, 0x01, 0xc3][..],
                (8, 3),
            ),
            // test eax, eax; jne +0x12; xor ebp, ebp
            (
                Arch::X86_64,
                &[0x0f, 0x05],
                &[0x85, 0xc0, 0x75, 0x12, 0x31, 0xed],
                (4, 0x16),
            ),
            // cmp rax, 0; je +5; mov [rsp+40], eax; ret
            (
                Arch::X86_64,
                &[0x0f, 0x05],
                &[0x48, 0x83, 0xf8, 0, 0x74, 5, 0x89, 0x44, 0x24, 40, 0xc3],
                (11, 6),
            ),
            // test eax, eax; jne +7
            (
                Arch::X86,
                &[0xcd, 0x80],
                &[0x85, 0xc0, 0x75, 7, 0x89, 0xe8],
                (4, 11),
            ),
        ] {
            let of = |before: &[u8], result| {
                let found = behind_result_test(arch, before, (behind, 0x1000), result);
                found.map(|at| at - 0x1000)
            };
            assert_eq!(of(before, 0), Some(child), "{behind:x?}");
            assert_eq!(of(before, parent), Some(parents), "{behind:x?}");
            assert_eq!(of(before, failed), Some(parents), "{behind:x?}");
            assert_eq!(of(&[0x90, 0x90], 0), None, "no system call");
        }
        // cmp rax, -4095; jae; and test ebx, ebx; je
        for other in [
            &[0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff, 0x73, 1, 0xc3][..],
            &[0x85, 0xdb, 0x74, 1, 0xc3],
        ] {
            let code = (other, 0x1000);
            assert_eq!(behind_result_test(Arch::X86_64, &[0x0f, 5], code, 0), None);
        }
    }

    #[test]
    fn functions_begin_behind_padding() {
        for (arch, code, padded, alone) in [
            // endbr64; push rbp, mov rbp, rsp; push r12; sub rsp, 16; push rax; mov rdi, rbx
            (
                Arch::X86_64,
                &[0xf3, 0x0f, 0x1e, 0xfa, 0x55][..],
                true,
                false,
            ),
            (Arch::X86_64, &[0x55, 0x48, 0x89, 0xe5], true, true),
            (Arch::X86_64, &[0x41, 0x54], true, false),
            (Arch::X86_64, &[0x48, 0x83, 0xec, 16], true, false),
            (Arch::X86_64, &[0x50], false, false),
            (Arch::X86_64, &[0x48, 0x89, 0xdf], false, false),
            // push ebp, mov ebp, esp; push ebx
            (Arch::X86, &[0x55, 0x89, 0xe5], true, true),
            (Arch::X86, &[0x53], false, false),
            (Arch::Aarch64, &[0x55, 0x48, 0x89, 0xe5], false, false),
        ] {
            let found = |is_behind| begins_function(arch, code, is_behind);
            assert_eq!((found(true), found(false)), (padded, alone), "{code:x?}");
        }
        // nopw cs:[rax + rax]; int3; ret
        let code = [0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0, 0xcc, 0xc3];
        assert_eq!(padding(Arch::X86_64, &code), 11);
        assert_eq!(padding(Arch::X86_64, &code[11..]), 0);
        let code = [0x1f, 0x20, 3, 0xd5, 0xc0, 3, 0x5f, 0xd6];
        assert_eq!(padding(Arch::Aarch64, &code), 4);
    }

    #[test]
    fn ends_and_signals_of_i386() {
        // musl's __clone: mov ebx, eax; xor eax, eax; inc eax; int 0x80; hlt
        let end = [0x89, 0xc3, 0x31, 0xc0, 0x40, 0xcd, 0x80, 0xf4];
        assert!(exits(Arch::X86, &end) && exits(Arch::X86, &[0xf4]));
        assert!(!exits(Arch::X86_64, &end));
        assert!(!exits(Arch::X86, &[0xcd, 0x80, 0x31, 0xc0, 0x40]));
        assert!(!exits(Arch::X86, &[0xb0, 60, 0x0f, 5]), "of x86-64");
        let signal = Some(SyntheticReturn::SignalReturn);
        let plain = [0x58, 0xb8, 119, 0, 0, 0, 0xcd, 0x80];
        assert_eq!(synthetic_return(Arch::X86, &[], &plain), signal);
        assert_eq!(synthetic_return(Arch::X86, &[], &plain[1..]), None);
        let with_info = [0xb8, 173, 0, 0, 0, 0xcd, 0x80];
        assert_eq!(synthetic_return(Arch::X86, &[], &with_info), signal);
        assert_eq!(synthetic_return(Arch::X86_64, &[], &with_info), None);
    }
}
