//! Parts of a function that the compiler split off.
//!
//! GCC moves the less frequent code of a large function elsewhere, as `NAME.cold`. A stripped image
//! has no symbol for this part, which may be most of the function: of `_PyEval_EvalFrameDefault` in
//! Debian's CPython 3.13.18 and 3.14.10, 84 of 85 KiB. In 3.11.2 it is the code for traced programs.

use std::collections::BTreeMap;
use std::ops::Range;

use object::LittleEndian;
use object::elf::{FileHeader64, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};
use rprof_unwind::FunctionRanges;

/// Maximum bytes of a function with searched parts.
pub(crate) const MAX_SPLIT: u64 = 256 << 10;

/// Minimum number of jumps into a part. Not all bytes that look like a jump are one.
const MIN_JUMPS: u32 = 2;

/// Bytes of the displacement of a near jump.
const DISPLACEMENT: usize = 4;

/// Returns the ranges (SVMA) of other functions by their unwind information into whose middle an
/// x86-64 function jumps. Those are its parts: jumps to other functions lead to their start.
pub(crate) fn split_parts(bytes: &[u8], function: &Range<u64>) -> Vec<Range<u64>> {
    let code = code(bytes, function).unwrap_or_default();
    let Ok(functions) = FunctionRanges::parse(bytes) else {
        return Vec::new();
    };
    let mut jumps: BTreeMap<u64, (u64, u32)> = BTreeMap::new();
    for (at, window) in code.windows(DISPLACEMENT + 2).enumerate() {
        let len = match window {
            [0xe9, ..] => 1,
            [0x0f, 0x80..=0x8f, ..] => 2,
            _ => continue,
        };
        let Some(displacement) = window.get(len..).and_then(|rest| rest.first_chunk()) else {
            continue;
        };
        let next = function
            .start
            .wrapping_add((at + len + DISPLACEMENT) as u64);
        let target = next.wrapping_add_signed(i32::from_le_bytes(*displacement).into());
        let part = functions.at(bytes, target).filter(|part| {
            part.start != target && (part.end <= function.start || function.end <= part.start)
        });
        if let Some(part) = part {
            jumps.entry(part.start).or_insert((part.end, 0)).1 += 1;
        }
    }
    let parts = jumps
        .into_iter()
        .filter(|(_, (_, jumps))| *jumps >= MIN_JUMPS);
    parts.map(|(start, (end, _))| start..end).collect()
}

/// Returns the bytes of a function.
fn code<'data>(bytes: &'data [u8], function: &Range<u64>) -> Option<&'data [u8]> {
    let len = function.end.checked_sub(function.start)?;
    let header = FileHeader64::<LittleEndian>::parse(bytes).ok()?;
    let segments = header.program_headers(LittleEndian, bytes).ok()?;
    let segment = segments.iter().find(|segment| {
        let within = function.start.checked_sub(segment.p_vaddr(LittleEndian));
        segment.p_type(LittleEndian) == PT_LOAD
            && within.is_some_and(|within| within < segment.p_filesz(LittleEndian))
    })?;
    let within = function.start - segment.p_vaddr(LittleEndian);
    let start = segment.p_offset(LittleEndian).checked_add(within)?;
    let start = usize::try_from(start).ok()?;
    let code = bytes.get(start..)?;
    (len <= MAX_SPLIT).then(|| code.get(..len as usize))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// `work` in two parts, without symbol for the second: `.cold` has unwind information only.
    const SOURCE: &str = r#"
        .text
        .globl work
        .type work, @function
    other: .cfi_startproc
        nop
        ret
        .cfi_endproc
    work: .cfi_startproc
        test %edi, %edi
        je .Lfirst
        js .Lsecond
        je other
        jmp other
        .cfi_endproc
        .size work, . - work
        .section .text.unlikely, "ax"
        .cfi_startproc
        nop
    .Lfirst: nop
    .Lsecond: ret
        .cfi_endproc
        .section .note.GNU-stack, "", @progbits
    "#;

    #[test]
    fn a_part_without_symbol_is_found_by_the_jumps_into_it() {
        if !cfg!(target_arch = "x86_64") {
            return;
        }
        let folder = std::env::temp_dir().join(format!("split-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (source, library) = (folder.join("a.s"), folder.join("a.so"));
        std::fs::write(&source, SOURCE).unwrap();
        let mut command = Command::new("cc");
        command.args(["-shared", "-nostdlib", "-o"]).arg(&library);
        assert!(command.arg(&source).status().unwrap().success());
        let bytes = std::fs::read(&library).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        let symbols = crate::ImageSymbols::read(&*bytes, |name| name == b"work", |_| false);
        let work = symbols.get("work").unwrap();
        let parts = split_parts(&bytes, &(work.svma..work.svma + work.size));
        assert_eq!(parts.len(), 1, "{parts:x?}");
        assert_eq!(parts[0].end - parts[0].start, 3);
    }
}
