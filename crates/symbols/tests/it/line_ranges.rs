//! Rows of the line table compared with the lines of single addresses: addr2line's reader of line
//! programs and this crate's.

use crate::tools::{Scratch, compiled_files, have};
use rprof_symbols::{ElfSymbols, ImageKey, Symbolizer};
use std::path::Path;

/// Compares the line of every byte of a program's functions. Returns the number of bytes with a
/// line.
fn check(path: &Path) -> usize {
    let bytes = std::fs::read(path).unwrap();
    let elf = ElfSymbols::parse(&bytes[..]).unwrap();
    let symbolizer = Symbolizer::builder().lines(true).build();
    let key = ImageKey::file(path);
    let name = path.file_name().unwrap().display();
    let mut lines = 0;
    for symbol in elf
        .iter()
        .filter(|symbol| (1..100_000).contains(&symbol.size()))
    {
        let (start, end) = (symbol.start(), symbol.start() + symbol.size());
        // In these programs, file offsets of code are SVMAs minus a constant.
        let Some(offset) = (0..0x10_0000u64)
            .step_by(0x1000)
            .map(|distance| start.wrapping_sub(distance))
            .find(|offset| elf.file_offset_to_svma(*offset) == Some(start))
        else {
            continue;
        };
        // Data without bytes in the file.
        let Ok(code) = symbolizer.code(&key, offset..offset + symbol.size()) else {
            continue;
        };
        assert_eq!(
            (code.svma, code.machine),
            (start, elf_machine(&bytes)),
            "{name}"
        );
        let rows = symbolizer.line_ranges(&key, start..end);
        let offsets: Vec<u64> = (offset..offset + symbol.size()).collect();
        let lookups = symbolizer.resolve_image(&key, &offsets);
        for (svma, lookup) in (start..end).zip(lookups) {
            let row = rows.iter().rev().find(|row| row.svmas.contains(&svma));
            let by_row = row.and_then(|row| row.line.clone());
            let by_address = lookup.ok().and_then(|frames| frames.line().cloned());
            let by_address = by_address.filter(|line| line.line > 0);
            assert_eq!(by_row, by_address, "{name} at {svma:x}");
            lines += usize::from(by_row.is_some());
        }
    }
    lines
}

fn elf_machine(bytes: &[u8]) -> u16 {
    u16::from_le_bytes([bytes[18], bytes[19]])
}

#[test]
fn rows_for_a_range_are_the_lines_of_its_addresses() {
    if !have(&["gcc", "g++"]) {
        return;
    }
    let scratch = Scratch::new();
    let mut files = compiled_files(&scratch);
    for (compiler, source, name, options) in [
        ("gcc", "program.c", "c-5", &["-g", "-O2"][..]),
        ("gcc", "program.c", "c-4", &["-gdwarf-4", "-O2"]),
        ("gcc", "program.c", "c-2", &["-gdwarf-2", "-O1"]),
        ("g++", "program.cpp", "cpp-5", &["-g", "-O2"]),
        ("g++", "program.cpp", "cpp-lto", &["-g", "-O2", "-flto"]),
        (
            "g++",
            "program.cpp",
            "cpp-split",
            &["-g", "-O2", "-gsplit-dwarf"],
        ),
    ] {
        files.push(scratch.compile(compiler, source, name, options));
    }
    let lines: Vec<usize> = files.iter().map(|path| check(path)).collect();
    assert!(
        lines.iter().filter(|lines| **lines > 300).count() >= 6,
        "{lines:?}"
    );
    assert!(lines.contains(&0), "{lines:?}");
}
