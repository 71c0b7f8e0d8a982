//! Functions of Go programs, from the table that the runtime uses (`.gopclntab`). Stripped programs
//! have it too.
//!
//! Source: `debug/gosym/pclntab.go` and `runtime/symtab.go` of Go 1.18 to 1.23.

/// First words of the tables of Go 1.18 and of 1.20.
const MAGIC: [u32; 2] = [0xffff_fff0, 0xffff_fff1];

/// Offset of the start of the code in the table. In position-independent programs, the dynamic linker
/// writes it.
pub(crate) const TEXT_START: u64 = 24;

/// Returns the table within a section, with its address. The C compiler as linker puts it among other
/// data of `.data.rel.ro`.
pub(crate) fn find(section: &[u8], start: u64) -> Option<(u64, &[u8])> {
    const ALIGNMENT: usize = 32;
    let is_table = |at: &usize| half(section, *at).is_some_and(|magic| MAGIC.contains(&magic));
    let at = (0..section.len()).step_by(ALIGNMENT).find(is_table)?;
    Some((start + at as u64, &section[at..]))
}

/// Returns the functions of a table, with their addresses. Position-independent
/// programs have no start of the code in the table; it is the start of `.text`.
pub(crate) fn functions(table: &[u8], text: Option<u64>) -> Vec<(u64, Box<str>)> {
    read(table, text).unwrap_or_default()
}

fn read(table: &[u8], text: Option<u64>) -> Option<Vec<(u64, Box<str>)>> {
    if !MAGIC.contains(&half(table, 0)?) {
        return None;
    }
    let count = usize::try_from(word(table, 8)?).ok()?;
    let start = word(table, TEXT_START as usize)
        .filter(|start| *start != 0)
        .or(text)?;
    let names = table.get(usize::try_from(word(table, 32)?).ok()?..)?;
    let functions = table.get(usize::try_from(word(table, 64)?).ok()?..)?;
    let function = |index: usize| {
        let distance = half(functions, index * 8)?;
        let description = half(functions, index * 8 + 4)?;
        let name = names.get(half(functions, description as usize + 4)? as usize..)?;
        let name = name.split(|byte| *byte == 0).next()?;
        let address = start.wrapping_add(u64::from(distance));
        Some((address, String::from_utf8_lossy(name).into()))
    };
    let count = count.min(functions.len() / 8);
    Some((0..count).map_while(function).collect())
}

fn half(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::Path;
    use std::process::Command;

    use crate::elf;

    #[test]
    fn a_table_among_other_data_is_found() {
        let table = [0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8];
        let section = [&[0; 64][..], &table].concat();
        assert_eq!(super::find(&section, 0x1000), Some((0x1040, &table[..])));
        assert_eq!(super::find(&section[1..], 0x1000), None);
    }

    #[test]
    fn functions_of_a_stripped_program_are_those_of_nm() {
        rprof_testing::needs!(Go, Tool("nm"));
        let folder = tempfile::tempdir().expect("a folder");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/go/plain");
        let build = |name: &str, flags: &str| {
            let program = folder.path().join(name);
            rprof_testing::build_go(&source, &program, &[flags]);
            program
        };
        let nm = Command::new("nm").arg(build("whole", "-ldflags=")).output();
        let nm = String::from_utf8(nm.expect("a program to run").stdout).expect("text");
        let plain = |name: &str| name.trim_end_matches(".abi0").to_owned();
        let line = |line: &str| {
            let (address, name) = line.split_at_checked(16)?;
            let address = u64::from_str_radix(address, 16).ok()?;
            // Behind the letter of its section.
            Some((address, plain(name.get(3..)?)))
        };
        let expected: HashSet<(u64, String)> = nm.lines().filter_map(line).collect();
        let bytes = std::fs::read(build("stripped", "-ldflags=-s")).expect("a program");
        let image = elf::parse("stripped", bytes).expect("an image");
        let found = image
            .symbols
            .iter()
            .map(|(address, name)| (*address, plain(name)));
        let (right, wrong): (Vec<_>, Vec<_>) = found.partition(|one| expected.contains(one));
        assert!(
            right.len() > 1000,
            "{} functions, others {wrong:?}",
            right.len()
        );
        assert!(wrong.len() * 100 < right.len(), "{wrong:?}");
    }
}
