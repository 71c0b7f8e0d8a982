//! Finds calls that Go's runtime makes on another stack.
//!
//! `systemstack`, `mcall`, `morestack`, `asmcgocall`, `cgocallback` and vDSO calls load the stack
//! pointer and call at once. Their call frame information ignores the switch. The words above the
//! callee's frame are 0 or stale. The same holds for calls after an alignment of the stack pointer. The code after the call shows where the caller's stack is: see
//! [`Switch`].

use super::elf::part;
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register,
};
use object::ReadRef;
use rprof_image::Segments;
use std::ops::Range;

/// Maximum number of instructions from loading the stack pointer to the call; `asmcgocall` has 8.
const MAX_INSTRUCTIONS: usize = 12;
/// Maximum number of instructions from the call to the return; `cgocallback` has about 40.
const MAX_BEHIND: usize = 64;
/// Maximum number of calls on another stack; images have about 10.
const MAX_KEPT: usize = 256;
/// Maximum number of bytes of code to search. The largest Go programs have about 100 MB.
const MAX_SEARCHED: usize = 256 << 20;
/// Maximum number of call sites; images have about 200.
const MAX_SITES: usize = 4096;
/// Maximum distance in bytes from the start of a stack-switching function to its call.
const MAX_FUNCTION: u64 = 256;
/// Number of bytes before a call of `systemstack` to search for its argument.
const MAX_BEFORE: usize = 128;

/// Location of the caller's stack after a call on another stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Switch {
    /// A frameless function that restores its caller's stack pointer: `systemstack`, `asmcgocall`.
    Back,
    /// A function with a frame, found by frame pointer: `cgocallback`, vDSO calls.
    OwnFrame,
    /// Does not return: `mcall`, which suspends its goroutine.
    Never,
    /// Does not return, but resumes its caller: `morestack`.
    Again,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Site {
    /// SVMA after the call.
    pub(crate) address: u64,
    /// SVMA after the function's own call on the other stack.
    switch: u64,
    /// SVMA of the function to call on the other stack, if found in the code before.
    pub(crate) callee: Option<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct Switches {
    /// SVMAs after the calls on another stack, ascending.
    calls: Box<[(u64, Switch)]>,
    /// Call sites of the functions that contain these calls, ascending.
    sites: Box<[Site]>,
}

impl Switches {
    pub(crate) fn find<'data>(bytes: impl ReadRef<'data>, segments: &Segments) -> Self {
        let len = bytes.len().map_or(0, |len| len as usize);
        // Segments of a damaged file may overlap.
        let mut left = len.min(MAX_SEARCHED);
        let parts: Vec<(u64, &[u8])> = (segments.code())
            .map(|segment| {
                let (start, end) = (segment.svma, segment.svma.saturating_add(segment.file_size));
                let code = segments.offset_of_svma(start).and_then(|(offset, mapped)| {
                    part(bytes, offset, mapped.min(end.checked_sub(start)?))
                });
                let code = code.unwrap_or(&[]);
                let code = code.get(..left).unwrap_or(code);
                left -= code.len();
                (start, code)
            })
            .collect();
        let mut calls: Vec<(u64, Switch)> = Vec::new();
        for (start, code) in &parts {
            for (at, window) in code.windows(3).enumerate() {
                if calls.len() >= MAX_KEPT {
                    break;
                }
                if loads_sp(window)
                    && let Some(code) = code.get(at..)
                    && let Some((len, is_direct)) = to_call(code)
                {
                    let behind = code.get(len..).unwrap_or(&[]);
                    let (kind, address) = (kind(behind, is_direct), start + (at + len) as u64);
                    if is_alignment(window) && matches!(kind, Switch::Never | Switch::Again) {
                        continue;
                    }
                    calls.push((address, kind));
                    // `time.now` calls the vDSO twice.
                    let again = to_call_before_return(behind).filter(|_| kind == Switch::OwnFrame);
                    calls.extend(again.map(|len| (address + len as u64, kind)));
                }
            }
        }
        calls.sort_unstable_by_key(|(address, _)| *address);
        calls.dedup_by_key(|(address, _)| *address);
        let pointer = |svma: u64| -> Option<u64> {
            let (offset, left) = segments.offset_of_svma(svma)?;
            let word = part(bytes, offset, left.min(8))?.first_chunk()?;
            Some(u64::from_le_bytes(*word))
        };
        let mut sites = Vec::new();
        for (start, code) in &parts {
            find_sites(*start, code, &calls, &pointer, &mut sites);
        }
        sites.sort_unstable_by_key(|site: &Site| site.address);
        Self {
            calls: calls.into(),
            sites: sites.into(),
        }
    }

    pub(crate) fn at(&self, svma: u64) -> Option<Switch> {
        let at = self.calls.binary_search_by_key(&svma, |(at, _)| *at).ok()?;
        self.calls.get(at).map(|(_, switch)| *switch)
    }

    /// Returns the call sites in `range` of the function with the call before SVMA `switch`.
    pub(crate) fn sites(&self, switch: u64, range: Range<u64>) -> impl Iterator<Item = &Site> {
        let first = (self.sites).partition_point(|site| site.address <= range.start);
        let from = self.sites.get(first..).unwrap_or(&[]);
        let within = from
            .iter()
            .take_while(move |site| site.address <= range.end);
        within.filter(move |site| site.switch == switch)
    }

    pub(crate) fn size(&self) -> usize {
        size_of_val(&*self.calls) + size_of_val(&*self.sites)
    }
}

fn find_sites(
    start: u64,
    code: &[u8],
    calls: &[(u64, Switch)],
    pointer: &dyn Fn(u64) -> Option<u64>,
    sites: &mut Vec<Site>,
) {
    let back: Vec<u64> = (calls.iter())
        .filter(|(_, switch)| *switch == Switch::Back)
        .map(|(address, _)| *address)
        .collect();
    let (Some(first), Some(last)) = (back.first(), back.last()) else {
        return;
    };
    let all = first.saturating_sub(MAX_FUNCTION)..*last;
    let end = start.saturating_add(code.len() as u64);
    for (at, window) in code.windows(5).enumerate() {
        let [0xe8, offset @ ..] = window else {
            continue;
        };
        let behind = start + at as u64 + 5;
        let distance = offset.first_chunk().map_or(0, |o| i32::from_le_bytes(*o));
        let target = behind.wrapping_add_signed(distance.into());
        if !all.contains(&target) || sites.len() >= MAX_SITES {
            continue;
        }
        let switch = back.get(back.partition_point(|address| *address <= target));
        // Functions are aligned.
        let switch = switch.filter(|switch| **switch - target <= MAX_FUNCTION && target % 16 == 0);
        if let Some(switch) = switch {
            let before = code.get(at.saturating_sub(MAX_BEFORE)..at).unwrap_or(&[]);
            sites.push(Site {
                address: behind,
                switch: *switch,
                callee: callee(before, start + at as u64, start..end, pointer),
            });
        }
    }
}

/// Returns the function whose address the code before `end` loads last, by `lea REG, [rip+x]`,
/// directly or from a variable (a closure).
fn callee(
    before: &[u8],
    end: u64,
    text: Range<u64>,
    pointer: &dyn Fn(u64) -> Option<u64>,
) -> Option<u64> {
    let is_function = |svma: &u64| text.contains(svma) && svma.is_multiple_of(16);
    let from = end - before.len() as u64;
    let loads = before.windows(7).enumerate().rev();
    let mut functions = loads.filter_map(|(at, window)| {
        let [0x48 | 0x4c, 0x8d, modes, offset @ ..] = window else {
            return None;
        };
        let distance = i32::from_le_bytes(*offset.first_chunk()?);
        let to = (from + at as u64 + 7).wrapping_add_signed(distance.into());
        if modes & 0xc7 != 0x05 {
            return None;
        }
        let function = match text.contains(&to) {
            true => Some(to),
            false => pointer(to),
        };
        function.filter(is_function)
    });
    functions.next()
}

/// Returns true for `mov rsp, r` and `mov rsp, [r+x]`, unless r is rsp or rbp, which belong to this
/// stack, and for alignments.
fn loads_sp(code: &[u8]) -> bool {
    match *code {
        _ if is_alignment(code) => true,
        [0x48 | 0x4c, 0x89, modrm] => modrm & 0xc7 == 0xc4 && !matches!(modrm, 0xe4 | 0xec),
        [0x48 | 0x49, 0x8b, modrm] => modrm & 0xf8 == 0x60 && !matches!(modrm, 0x64 | 0x65),
        _ => false,
    }
}

/// Returns true for `and rsp, x`. The stack remains, but the distance to the caller's frame is unknown:
/// `asmcgocall` on the stack of a thread.
fn is_alignment(code: &[u8]) -> bool {
    matches!(code, [0x48, 0x83, 0xe4])
}

/// Returns the offset after the first call, and whether it is direct. `None` if a branch comes
/// first.
fn to_call(code: &[u8]) -> Option<(usize, bool)> {
    let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
    for _ in 0..MAX_INSTRUCTIONS {
        let instruction = decoder.decode();
        match instruction.flow_control() {
            _ if instruction.is_invalid() => return None,
            FlowControl::Next => {}
            // vDSO calls first check that there is a vDSO.
            FlowControl::ConditionalBranch
                if instruction.near_branch_target() > decoder.position() as u64 => {}
            FlowControl::Call => return Some((decoder.position(), true)),
            FlowControl::IndirectCall => return Some((decoder.position(), false)),
            _ => return None,
        }
    }
    None
}

/// Returns the offset after the next indirect call, if it precedes a load of the stack pointer.
fn to_call_before_return(behind: &[u8]) -> Option<usize> {
    let mut decoder = Decoder::new(64, behind, DecoderOptions::NONE);
    for _ in 0..MAX_INSTRUCTIONS {
        let instruction = decoder.decode();
        match instruction.flow_control() {
            _ if instruction.is_invalid() || sets_sp(&instruction) => return None,
            FlowControl::Next => {}
            FlowControl::IndirectCall => return Some(decoder.position()),
            _ => return None,
        }
    }
    None
}

/// Returns true for `mov rsp, ...`.
fn sets_sp(instruction: &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Mov
        && instruction.op0_kind() == OpKind::Register
        && instruction.op0_register() == Register::RSP
}

fn kind(behind: &[u8], is_direct: bool) -> Switch {
    let never = match is_direct {
        true => Switch::Again,
        false => Switch::Never,
    };
    let mut decoder = Decoder::new(64, behind, DecoderOptions::NONE);
    let mut has_switched_back = false;
    for _ in 0..MAX_BEHIND {
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            break;
        }
        if restores_frame_pointer(&instruction) {
            return Switch::OwnFrame;
        }
        match instruction.flow_control() {
            FlowControl::Next => has_switched_back |= sets_sp(&instruction),
            FlowControl::ConditionalBranch | FlowControl::IndirectCall => {}
            FlowControl::Call if has_switched_back => {}
            FlowControl::Return if has_switched_back => return Switch::Back,
            _ => break,
        }
    }
    never
}

/// Returns true for `mov rbp, [rsp+x]` and `pop rbp`, which end functions with a frame.
fn restores_frame_pointer(instruction: &Instruction) -> bool {
    let to =
        instruction.op0_kind() == OpKind::Register && instruction.op0_register() == Register::RBP;
    match instruction.code() {
        Code::Pop_r64 => to,
        Code::Mov_r64_rm64 => to && instruction.memory_base() == Register::RSP,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_image::Segment;

    /// `mov rsp, rbx; mov rdx, rdi; mov rdi, [rdi]; call rdi`
    const SYSTEMSTACK: [u8; 11] = [
        0x48, 0x89, 0xdc, 0x48, 0x89, 0xfa, 0x48, 0x8b, 0x3f, 0xff, 0xd7,
    ];
    /// `mov rax, fs:-8; mov rbx, [rax+48]; mov rax, [rbx+192]; mov fs:-8, rax; mov rsp, [rax+56];
    /// mov qword [rax+56], 0; ret`
    const BEHIND_SYSTEMSTACK: [u8; 42] = [
        0x64, 0x48, 0x8b, 0x04, 0x25, 0xf8, 0xff, 0xff, 0xff, 0x48, 0x8b, 0x58, 0x30, 0x48, 0x8b,
        0x83, 0xc0, 0, 0, 0, 0x64, 0x48, 0x89, 0x04, 0x25, 0xf8, 0xff, 0xff, 0xff, 0x48, 0x8b,
        0x60, 0x38, 0x48, 0xc7, 0x40, 0x38, 0, 0, 0, 0, 0xc3,
    ];

    #[test]
    fn systemstack_and_others() {
        assert!(loads_sp(&SYSTEMSTACK[..3]));
        assert_eq!(to_call(&SYSTEMSTACK), Some((11, false)));
        assert!(loads_sp(&[0x49, 0x8b, 0x66]), "mov rsp, [r14+x]");
        assert!(!loads_sp(&[0x48, 0x89, 0xec]), "mov rsp, rbp");
        assert!(!loads_sp(&[0x48, 0x8b, 0x65]), "mov rsp, [rbp+x]");
        // mov rsp, rbx; jmp rbx
        assert_eq!(to_call(&[0x48, 0x89, 0xdc, 0xff, 0xe3]), None);
        // mov rsp, rdx; cmp rax, 0; je; call rax: where there may be no vDSO
        let vdso = [
            0x48, 0x89, 0xd4, 0x48, 0x83, 0xf8, 0, 0x74, 0x20, 0xff, 0xd0,
        ];
        assert_eq!(to_call(&vdso), Some((11, false)));
    }

    /// `asmcgocall` on the stack of a thread, where nothing switches: `sub rsp, 16; and rsp, -16;
    /// mov qword [rsp+8], 0; mov [rsp], rdi; mov rdi, rbx; mov rcx, rbx; call rax`, then
    /// `mov rdi, [rsp]; mov rsp, rdi; mov [rsp+24], eax; ret`.
    #[test]
    fn calls_after_an_alignment_are_found_if_the_old_stack_pointer_comes_back() {
        let before = [
            0x48, 0x83, 0xec, 0x10, 0x48, 0x83, 0xe4, 0xf0, 0x48, 0xc7, 0x44, 0x24, 8, 0, 0, 0, 0,
            0x48, 0x89, 0x3c, 0x24, 0x48, 0x89, 0xdf, 0x48, 0x89, 0xd9, 0xff, 0xd0,
        ];
        let back = [
            0x48, 0x8b, 0x3c, 0x24, 0x48, 0x89, 0xfc, 0x89, 0x44, 0x24, 0x18, 0xc3,
        ];
        // Or an exit of the process, as in `rt0_go`: int3.
        for (behind, expected) in [(&back[..], Some(Switch::Back)), (&[0xcc; 12], None)] {
            let code = [&before[..], behind].concat();
            let len = code.len() as u64;
            let segment = Segment {
                offset: 0,
                svma: 0x1000,
                file_size: len,
                memory_size: len,
                align: 0,
                executable: true,
            };
            let found = Switches::find(&*code, &Segments::new(vec![segment]));
            assert_eq!(found.at(0x1000 + before.len() as u64), expected);
        }
    }

    #[test]
    fn code_behind_the_call_tells_what_becomes_of_the_stack() {
        assert_eq!(kind(&BEHIND_SYSTEMSTACK, false), Switch::Back);
        // mov rdi, [rsp+48]; mov rsi, [rdi+8]; sub rsi, [rsp+40]; mov fs:-8, rdi; mov rsp, rsi; mov
        // [rsp+24], eax; ret
        let asmcgocall = [
            0x48, 0x8b, 0x7c, 0x24, 0x30, 0x48, 0x8b, 0x77, 0x08, 0x48, 0x2b, 0x74, 0x24, 0x28,
            0x64, 0x48, 0x89, 0x3c, 0x25, 0xf8, 0xff, 0xff, 0xff, 0x48, 0x89, 0xf4, 0x89, 0x44,
            0x24, 0x18, 0xc3,
        ];
        assert_eq!(kind(&asmcgocall, false), Switch::Back);
        // mov rax, [rsp]; mov rsp, r12; mov [rsp+32], rax; mov rbp, [rsp+16]; add rsp, 24; ret
        let nanotime = [
            0x48, 0x8b, 0x04, 0x24, 0x4c, 0x89, 0xe4, 0x48, 0x89, 0x44, 0x24, 0x20, 0x48, 0x8b,
            0x6c, 0x24, 0x10, 0x48, 0x83, 0xc4, 0x18, 0xc3,
        ];
        assert_eq!(kind(&nanotime, false), Switch::OwnFrame);
        assert_eq!(to_call_before_return(&nanotime), None);
        // mov edi, 1; call rax; mov rsp, r12
        let twice = [0xbf, 1, 0, 0, 0, 0xff, 0xd0, 0x4c, 0x89, 0xe4];
        assert_eq!(to_call_before_return(&twice), Some(7));
        assert_eq!(
            kind(&[&twice[..], &nanotime[7..]].concat(), false),
            Switch::OwnFrame
        );
        // mov rsp, r12; add rsp, 16; pop rbp; ret: since Go 1.21
        let newer = [0x4c, 0x89, 0xe4, 0x48, 0x83, 0xc4, 0x10, 0x5d, 0xc3];
        assert_eq!(kind(&newer, false), Switch::OwnFrame);
        // pop rax; jmp
        assert_eq!(kind(&[0x58, 0xe9, 1, 2, 0, 0], false), Switch::Never);
        // call
        assert_eq!(kind(&[0xe8, 1, 2, 0, 0], true), Switch::Again);
        assert_eq!(kind(&[], false), Switch::Never);
    }

    /// The argument is a function, a variable with its address, or unknown.
    #[test]
    fn calls_of_systemstack_are_found_with_what_it_is_to_call() {
        const TEXT: u64 = 0x1000;
        let mut file = vec![0xcc; 0x400];
        let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
        put(0x40, &SYSTEMSTACK);
        put(0x40 + SYSTEMSTACK.len(), &BEHIND_SYSTEMSTACK);
        let switch = TEXT + 0x40 + SYSTEMSTACK.len() as u64;
        let call = |from: usize| {
            let offset = (0x40_i32 - (from as i32 + 5)).to_le_bytes();
            [0xe8, offset[0], offset[1], offset[2], offset[3]]
        };
        let lea = |from: usize, to: usize| {
            let offset = (to as i32 - (from as i32 + 7)).to_le_bytes();
            [0x48, 0x8d, 0x05, offset[0], offset[1], offset[2], offset[3]]
        };
        // The function at 0x300, and a variable with the address of the one at 0x310.
        put(0x100, &lea(0x100, 0x300));
        put(0x110, &call(0x110));
        put(0x1a0, &lea(0x1a0, 0x380));
        put(0x1a7, &call(0x1a7));
        put(0x2f0, &call(0x2f0));
        put(0x380, &(TEXT + 0x310).to_le_bytes());
        let segment = |offset: u64, len: u64, executable| Segment {
            offset,
            svma: TEXT + offset,
            file_size: len,
            memory_size: len,
            align: 0,
            executable,
        };
        let segments = Segments::new(vec![segment(0, 0x320, true), segment(0x320, 0xe0, false)]);
        let found = Switches::find(&*file, &segments);
        assert_eq!(found.at(switch), Some(Switch::Back));
        assert_eq!(found.at(switch - 1), None);
        let sites: Vec<_> = (found.sites(switch, 0..u64::MAX))
            .map(|site| (site.address - TEXT, site.callee.map(|callee| callee - TEXT)))
            .collect();
        let expected = [(0x115, Some(0x300)), (0x1ac, Some(0x310)), (0x2f5, None)];
        assert_eq!(sites, expected);
        assert_eq!(found.sites(switch, TEXT + 0x115..TEXT + 0x1ac).count(), 1);
    }

    #[test]
    fn any_bytes_do_no_harm() {
        let mut state = 1_u32;
        let bytes: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .take(1 << 16)
        .collect();
        let segment = Segment {
            offset: 0,
            svma: u64::MAX - (1 << 15),
            file_size: u64::MAX,
            memory_size: u64::MAX,
            align: 0,
            executable: true,
        };
        let found = Switches::find(&*bytes, &Segments::new(vec![segment]));
        assert!(found.size() < bytes.len());
    }
}
