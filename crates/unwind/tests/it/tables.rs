//! Sources of call frame information: with and without section headers, `.eh_frame_hdr`,
//! compression.

use crate::image::{eh_frame, image};
use crate::tools;
use rprof_unwind::table::{CfaRule, RegisterRule};
use rprof_unwind::{FunctionRanges, TableError, UnwindTable};
use std::process::Command;

/// CFA rsp+8, return address below it.
const X86_64: [u8; 5] = [0x0c, 7, 8, 0x90, 1];

/// Removes the section headers of a 64-bit or 32-bit file.
fn remove_section_headers(bytes: &mut [u8]) {
    // e_shoff, then e_shnum and e_shstrndx.
    let (offset, numbers) = match bytes[4] {
        1 => (0x20..0x24, 0x30..0x34),
        _ => (0x28..0x30, 0x3c..0x40),
    };
    bytes[offset].fill(0);
    bytes[numbers].fill(0);
}

#[test]
fn section_headers_are_not_needed() {
    for path in tools::system_images() {
        let mut bytes = std::fs::read(&path).unwrap();
        if bytes.len() > 16 << 20 {
            continue;
        }
        let with = UnwindTable::parse(&bytes).unwrap();
        remove_section_headers(&mut bytes);
        let without = UnwindTable::parse(&bytes).unwrap();
        assert_eq!(
            with.stats().fdes,
            without.stats().fdes,
            "{}",
            path.display()
        );
        assert!(with.rows().eq(without.rows()), "{}", path.display());
    }
}

/// Both by the index in `.eh_frame_hdr` and by the list without it.
#[test]
fn ranges_of_functions_are_those_of_the_table() {
    for path in tools::system_images() {
        let mut bytes = std::fs::read(&path).unwrap();
        if bytes.len() > 16 << 20 {
            continue;
        }
        let name = path.display();
        let table = UnwindTable::parse(&bytes).unwrap();
        let ranges = FunctionRanges::parse(&bytes).unwrap();
        let bounds = ranges.bounds(&bytes);
        let mut asked: Vec<u64> = bounds
            .iter()
            .flat_map(|at| [at.wrapping_sub(1), *at])
            .collect();
        asked.sort_unstable();
        asked.dedup();
        let step = asked.len() / 2000 + 1;
        let asked: Vec<u64> = asked.into_iter().step_by(step).collect();
        let answers = |ranges: &FunctionRanges, bytes: &[u8]| -> Vec<_> {
            asked.iter().map(|svma| ranges.at(bytes, *svma)).collect()
        };
        let found = answers(&ranges, &bytes);
        for (svma, found) in asked.iter().zip(&found) {
            let expected = table.function_start(*svma);
            let start = found.as_ref().map(|range| range.start);
            // PLTs have call frame information, but are no functions.
            if start.is_some() {
                assert_eq!(start, expected, "{svma:#x} in {name}");
                assert!(bounds.contains(&found.as_ref().unwrap().end), "{name}");
            }
        }
        let located = found.iter().flatten().count();
        assert!(bounds.is_empty() || located > 0, "{name}");
        // Without section headers the PLTs are unknown.
        remove_section_headers(&mut bytes);
        let without = FunctionRanges::parse(&bytes).unwrap();
        for (with, without) in found.iter().zip(answers(&without, &bytes)) {
            assert!(with.is_none() || *with == without, "{name}");
        }
    }
}

#[test]
fn compressed_sections() {
    if !tools::present("gcc") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let plain = ["-O2", "-g", "-fno-asynchronous-unwind-tables"];
    let table = |extra: &[&str]| {
        let flags = [&plain, extra].concat();
        let program = tools::compile("gcc", "calls.c", &flags, directory.path()).unwrap();
        let bytes = std::fs::read(program).unwrap();
        UnwindTable::parse(&bytes).unwrap()
    };
    let one = table(&["-gz=none"]);
    assert!(one.rows().count() > 40);
    for form in ["-gz=zlib", "-gz=zlib-gnu", "-gz=zstd"] {
        let supported = Command::new("gcc")
            .args([form, "-x", "c", "-c", "/dev/null", "-o"])
            .arg(directory.path().join("nothing.o"))
            .output()
            .unwrap();
        if !supported.status.success() {
            rprof_testing::inapplicable(format!("needs a gcc with {form}"));
            continue;
        }
        assert!(one.rows().eq(table(&[form]).rows()), "{form}");
    }
}

#[test]
fn gaps_overlaps_and_removed_functions() {
    let section = eh_frame(
        "",
        16,
        &X86_64,
        &[
            (0x3000, 0x10, &[]),
            (0x2000, 0x100, &[0x48, 0x0e, 16]),
            // Within the preceding one.
            (0x2080, 0x10, &[0x0e, 24]),
            // A duplicate for the same code.
            (0x3000, 0x80, &[0x0e, 32]),
            // FDEs of functions removed by the linker.
            (0, 0x5000, &[]),
            (u64::MAX - 1, 0x10, &[]),
            (0x4000, 0, &[]),
        ],
    );
    let table = UnwindTable::parse(&image(62, &[(".eh_frame", 0x8000, &section)])).unwrap();
    let rows: Vec<(u64, u64, CfaRule<'_>)> = table
        .rows()
        .map(|row| (row.start, row.end, row.rule.unwrap().cfa))
        .collect();
    let sp = |offset| CfaRule::Register(7, offset);
    assert_eq!(
        rows,
        [
            (0x2000, 0x2008, sp(8)),
            (0x2008, 0x2080, sp(16)),
            (0x2080, 0x2090, sp(24)),
            (0x3000, 0x3010, sp(8)),
        ]
    );
    for (svma, covered) in [
        (0x1fff, false),
        (0x2000, true),
        (0x208f, true),
        (0x3010, false),
    ] {
        assert_eq!(table.covers(svma), covered, "{svma:#x}");
    }
}

/// The linker's terminator in the middle, and `.debug_frame` for code outside `.eh_frame`.
#[test]
fn both_sections() {
    let fde = |start| eh_frame("", 16, &X86_64, &[(start, 0x10, &[])]);
    let mut eh = fde(0x2000);
    eh.extend([0; 4]);
    // The reference to the CIE is relative, so it stays correct.
    eh.extend(fde(0x3000));
    let mut debug = eh_frame("", 16, &[0x0c, 7, 64, 0x90, 1], &[(0x2000, 0x8000, &[])]);
    debug[4..8].fill(0xff);
    let pointer_at = u32::from_le_bytes(debug[..4].try_into().unwrap()) as usize + 8;
    debug[pointer_at..pointer_at + 4].fill(0);
    let image = image(
        62,
        &[(".eh_frame", 0x8000, &eh), (".debug_frame", 0, &debug)],
    );
    let table = UnwindTable::parse(&image).unwrap();
    assert_eq!(table.stats().fdes, 3);
    let rows: Vec<_> = table.rows().collect();
    assert_eq!(rows.len(), 3);
    let rule = rows[2].rule.as_ref().unwrap();
    assert_eq!(rule.return_address, RegisterRule::AtCfa(-8));
    assert_eq!(rule.cfa, CfaRule::Register(7, 64));
}

#[test]
fn no_image() {
    let error = |bytes: &[u8]| UnwindTable::parse(bytes).map(drop).unwrap_err();
    assert_eq!(error(b""), TableError::NotAnElf);
    assert_eq!(error(b"#!/bin/sh\n"), TableError::NotAnElf);
    assert_eq!(error(b"\x7fELF\x01\x01"), TableError::NotAnElf, "cut off");
    // A 64-bit file of i386.
    assert_eq!(error(&image(3, &[])), TableError::WrongClass);
    assert_eq!(error(b"\x7fELF\x02\x02"), TableError::WrongClass);
    assert_eq!(error(&image(40, &[])), TableError::WrongMachine(40));
    let empty = UnwindTable::parse(&image(62, &[])).unwrap();
    assert!(!empty.has_cfi());
    assert_eq!(empty.bias(0x7000, 0x1000), Some(0x6000));
}

/// A JIT table's entries for code of others are dropped.
#[test]
fn made_code_has_its_own_rows_only() {
    let at = 0x7f00_0000_2000;
    let section = eh_frame(
        "",
        16,
        &X86_64,
        &[
            (at, 0x10, &[0x41, 0x0e, 16]),
            (at + 0x10, 0x10, &[]),
            (at + 0x20, 0x10, &[]),
            (0x40_0000, 0x10, &[]),
        ],
    );
    let code = at..at + 0x20;
    let table = UnwindTable::of_jit_code(rprof_unwind::Arch::X86_64, &section, at + 0x20, code);
    let rows: Vec<_> = (table.rows())
        .filter_map(|row| Some((row.start, row.end, row.rule?.cfa)))
        .collect();
    let rsp = |offset| CfaRule::Register(7, offset);
    assert_eq!(
        rows,
        [
            (at, at + 1, rsp(8)),
            (at + 1, at + 0x10, rsp(16)),
            (at + 0x10, at + 0x20, rsp(8)),
        ]
    );
    assert!(table.covers(at + 0x1f) && !table.covers(at + 0x20) && !table.covers(0x40_0000));
    let nothing = UnwindTable::of_jit_code(rprof_unwind::Arch::X86_64, &section, 0, 8..8);
    assert!(!nothing.has_cfi());
}
