//! Debug information where a few bytes refer to much data: lookups are bounded, and symbol table
//! names remain.

use super::bomb::{reads, record_with_debug_info};
use crate::support::{Here, needs};

/// RPROF_BOMB_MIB overrides the default of 48 MiB.
fn size() -> usize {
    let mib = std::env::var("RPROF_BOMB_MIB").ok();
    mib.and_then(|n| n.parse().ok()).unwrap_or(48) << 20
}

#[derive(Clone, Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn u8(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    fn u16(mut self, value: u16) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn u32(mut self, value: usize) -> Self {
        self.0.extend((value as u32).to_le_bytes());
        self
    }

    fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn leb(mut self, mut value: u64) -> Self {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.u8(value as u8)
    }

    fn all(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn fill(self, bytes: &[u8], size: usize) -> Self {
        let many = bytes.repeat(size / bytes.len());
        self.all(&many)
    }
}

/// Code, tag, has-children flag, and attributes with their forms.
fn abbreviation(code: u64, tag: u64, children: bool, attributes: &[(u64, u64)]) -> Vec<u8> {
    let start = Bytes::default().leb(code).leb(tag).u8(children.into());
    let all = attributes
        .iter()
        .fold(start, |bytes, (name, form)| bytes.leb(*name).leb(*form));
    all.u16(0).0
}

/// Encodes a unit with its abbreviations at an offset.
fn unit(abbreviations: usize, entries: &[u8]) -> Vec<u8> {
    let start = Bytes::default().u32(entries.len() + 7).u16(4);
    start.u32(abbreviations).u8(8).all(entries).0
}

const COMPILE_UNIT: u64 = 0x11;
const SUBPROGRAM: u64 = 0x2e;
const INLINED: u64 = 0x1d;
/// DW_AT_low_pc as an address, DW_AT_high_pc as a length of 8 bytes.
const PCS: [(u64, u64); 2] = [(0x11, 1), (0x12, 7)];
/// DW_AT_stmt_list, DW_AT_ranges, DW_AT_linkage_name, DW_AT_abstract_origin.
const LINES: (u64, u64) = (0x10, 0x17);
const RANGES: (u64, u64) = (0x55, 0x17);
const NAME: (u64, u64) = (0x6e, 0x0e);
const ORIGIN: (u64, u64) = (0x31, 0x10);

fn everywhere(code: u64) -> Bytes {
    Bytes::default().leb(code).u64(1).u64(1 << 46)
}

/// Returns the output, which has the names of the symbol table.
fn explodes(sections: &[(&str, &[u8])]) -> String {
    let here = Here::new();
    record_with_debug_info(&here, sections);
    // Lines are looked up only if they are displayed.
    let said = reads(&here, "report --sort symbol,srcline -i bomb.data");
    for name in ["burn_seventy", "burn_twenty"] {
        assert!(said.contains(name), "{said}");
    }
    said
}

/// rprof must report that the recording exceeds the limits.
fn is_told(sections: &[(&str, &[u8])]) {
    let said = explodes(sections);
    assert!(
        said.contains("would take too much memory or time"),
        "{said}"
    );
}

#[test]
fn units_without_number() {
    needs!(PerfEvents);
    let abbreviations = [abbreviation(1, COMPILE_UNIT, false, &[]), vec![0]].concat();
    let info = Bytes::default().fill(&unit(0, &[1]), 4 * size());
    explodes(&[(".debug_info", &info.0), (".debug_abbrev", &abbreviations)]);
}

#[test]
fn a_table_of_abbreviations_without_end() {
    needs!(PerfEvents);
    let mut table = Bytes::default().all(&abbreviation(1, COMPILE_UNIT, true, &PCS));
    let mut code = 2;
    while table.0.len() < size() {
        table = table.all(&abbreviation(code, SUBPROGRAM, false, &[PCS[0]; 100]));
        code += 1;
    }
    let table = table.u8(0);
    let info = unit(0, &everywhere(1).u8(0).0);
    is_told(&[(".debug_info", &info), (".debug_abbrev", &table.0)]);
}

#[test]
fn a_table_of_abbreviations_for_each_unit() {
    needs!(PerfEvents);
    // Each unit starts at another offset of one abbreviation table, nearly as long as the limit.
    let own = abbreviation(1, COMPILE_UNIT, true, &PCS);
    let mut table = Bytes::default();
    let mut starts = Vec::new();
    for code in 0..1000 {
        starts.push(table.0.len());
        table = table.all(&own);
        table = table.all(&abbreviation(code + 2, SUBPROGRAM, false, &[PCS[0]; 400]));
    }
    let table = table.u8(0);
    let entries = everywhere(1).u8(0);
    let units: Vec<Vec<u8>> = starts.iter().map(|at| unit(*at, &entries.0)).collect();
    let info = Bytes::default().fill(&units.concat(), size());
    explodes(&[(".debug_info", &info.0), (".debug_abbrev", &table.0)]);
}

#[test]
fn attributes_without_length() {
    needs!(PerfEvents);
    // DW_AT_external as DW_FORM_flag_present, and addresses as implicit constants.
    let many = vec![(0x3f, 0x19); 100_000];
    let table = [
        abbreviation(1, COMPILE_UNIT, true, &PCS),
        abbreviation(2, SUBPROGRAM, false, &[&PCS[..], &many].concat()),
        vec![0],
    ];
    let entries = everywhere(1).fill(&everywhere(2).0, 1 << 20).u8(0);
    let info = Bytes::default().fill(&unit(0, &entries.0), size());
    explodes(&[(".debug_info", &info.0), (".debug_abbrev", &table.concat())]);
}

fn line_program(files: &[u8], program: &[u8]) -> Vec<u8> {
    let parameters = Bytes::default().u8(1).u8(1).u8(1).u8(0xfb).u8(14).u8(13);
    let lengths = parameters.all(&[0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1]);
    let header = lengths.u8(0).all(files).u8(0);
    let body = Bytes::default().u16(4).u32(header.0.len()).all(&header.0);
    let body = body.all(program);
    Bytes::default().u32(body.0.len()).all(&body.0).0
}

#[test]
fn one_line_program_for_all_units() {
    needs!(PerfEvents);
    let start = Bytes::default().all(&[0, 9, 2]).u64(1);
    let rows = start.fill(&[0x0d + 14], size());
    let lines = line_program(&[], &rows.0);
    let root = [&PCS[..], &[LINES]].concat();
    let abbreviations = [abbreviation(1, COMPILE_UNIT, true, &root), vec![0]].concat();
    let units = Bytes::default().fill(&unit(0, &everywhere(1).u32(0).u8(0).0), 1 << 20);
    explodes(&[
        (".debug_info", &units.0),
        (".debug_abbrev", &abbreviations),
        (".debug_line", &lines),
    ]);
}

#[test]
fn a_line_program_of_files_without_number() {
    needs!(PerfEvents);
    let files = Bytes::default().fill(b"a\0\0\0\0", size());
    let lines = line_program(&files.0, &[]);
    let root = [&PCS[..], &[LINES]].concat();
    let abbreviations = [abbreviation(1, COMPILE_UNIT, true, &root), vec![0]].concat();
    let info = unit(0, &everywhere(1).u32(0).u8(0).0);
    is_told(&[
        (".debug_info", &info),
        (".debug_abbrev", &abbreviations),
        (".debug_line", &lines),
    ]);
}

#[test]
fn calls_inlined_without_end() {
    needs!(PerfEvents);
    let table = [
        abbreviation(1, COMPILE_UNIT, true, &PCS),
        abbreviation(2, SUBPROGRAM, true, &PCS),
        abbreviation(3, INLINED, true, &PCS),
        vec![0],
    ];
    let call = everywhere(3);
    let start = everywhere(1).all(&everywhere(2).0);
    let nested = start.fill(&call.0, size() / 2);
    let beside = nested.fill(&call.clone().u8(0).0, size() / 2);
    let info = unit(0, &beside.0);
    explodes(&[(".debug_info", &info), (".debug_abbrev", &table.concat())]);
}

#[test]
fn references_in_a_ring() {
    needs!(PerfEvents);
    let table = [
        abbreviation(1, COMPILE_UNIT, true, &PCS),
        abbreviation(2, SUBPROGRAM, false, &[&PCS[..], &[ORIGIN]].concat()),
        vec![0],
    ];
    // Each abstract origin is in the previous unit.
    let entries = |at: usize| everywhere(1).all(&everywhere(2).u32(at).0).u8(0);
    let (len, first) = (unit(0, &entries(0).0).len(), 11 + everywhere(1).0.len());
    let count = size() / len;
    let mut info = Bytes::default();
    for n in 0..count {
        let before = (n + count - 1) % count;
        info = info.all(&unit(0, &entries(before * len + first).0));
    }
    explodes(&[(".debug_info", &info.0), (".debug_abbrev", &table.concat())]);
}

#[test]
fn one_list_of_ranges_for_all_functions() {
    needs!(PerfEvents);
    let table = [
        abbreviation(1, COMPILE_UNIT, true, &[RANGES]),
        abbreviation(2, SUBPROGRAM, false, &[RANGES]),
        vec![0],
    ];
    let entry = |code: u64| Bytes::default().leb(code).u32(0);
    let entries = entry(1).fill(&entry(2).0, 1 << 20).u8(0);
    let info = Bytes::default().fill(&unit(0, &entries.0), 8 << 20);
    let ranges = Bytes::default().fill(&Bytes::default().u64(1).u64(1 << 46).0, size());
    let ranges = ranges.u64(0).u64(0);
    explodes(&[
        (".debug_info", &info.0),
        (".debug_abbrev", &table.concat()),
        (".debug_ranges", &ranges.0),
    ]);
}

#[test]
fn names_as_long_as_their_section() {
    needs!(PerfEvents);
    let table = [
        abbreviation(1, COMPILE_UNIT, true, &PCS),
        abbreviation(2, SUBPROGRAM, true, &[&PCS[..], &[NAME]].concat()),
        abbreviation(3, INLINED, true, &[&PCS[..], &[ORIGIN]].concat()),
        abbreviation(4, SUBPROGRAM, false, &[NAME]),
        vec![0],
    ];
    // Each name starts one byte later in one unterminated string.
    let mut named = everywhere(1);
    let mut origins = Vec::new();
    for n in 0..200 {
        origins.push(11 + named.0.len());
        named = named.leb(4).u32(n);
    }
    let mut calls = named.all(&everywhere(2).u32(0).0);
    for at in origins {
        calls = calls.all(&everywhere(3).u32(at).0);
    }
    let info = unit(0, &calls.0);
    let text = vec![b'x'; size()];
    explodes(&[
        (".debug_info", &info),
        (".debug_abbrev", &table.concat()),
        (".debug_str", &text),
    ]);
}
