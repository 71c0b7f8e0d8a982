//! Runs `perf` to name addresses, and classifies known differences.

use crate::tools::run;
use object::{Object, ObjectSection};
use rprof_symbols::{ElfSymbol, ElfSymbols, Style};
use std::path::Path;
use std::process::Command;

pub(crate) const BASE: u64 = 0x100_0000_0000;

fn padded(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize((bytes.len() + 1).next_multiple_of(8), 0);
    bytes
}

fn words32(words: [u32; 2]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn record(out: &mut Vec<u8>, kind: u32, misc: u16, body: &[Vec<u8>]) {
    let body = body.concat();
    out.extend(kind.to_le_bytes());
    out.extend(misc.to_le_bytes());
    out.extend((body.len() as u16 + 8).to_le_bytes());
    out.extend(body);
}

/// Builds a perf.data file in which one process runs `path`, mapped whole, with a sample for each
/// of `ips`.
pub(crate) fn perf_data(path: &str, len: u64, ips: &[u64]) -> Vec<u8> {
    let kernel = path.starts_with('[');
    let (mode, pid) = if kernel { (1, u32::MAX) } else { (2, 77) };
    let mut records = Vec::new();
    record(&mut records, 3, 2, &[words32([77, 77]), padded("x")]);
    let (start, offset) = if kernel { (len, len) } else { (BASE, 0) };
    let size = if kernel {
        0x4000_0000
    } else {
        len.next_multiple_of(4096)
    };
    record(
        &mut records,
        1,
        mode,
        &[
            words32([pid, pid]),
            words(&[start, size, offset]),
            padded(path),
        ],
    );
    for (time, &ip) in ips.iter().enumerate() {
        record(
            &mut records,
            9,
            mode,
            &[words(&[ip]), words32([77, 77]), words(&[time as u64 + 1])],
        );
    }
    // Software event 0, IP | TID | TIME, mmap records, no ids.
    let mut file = b"PERFILE2".to_vec();
    file.extend(words(&[
        104,
        128,
        104,
        128,
        232,
        records.len() as u64,
        0,
        0,
        0,
        0,
        0,
        0,
    ]));
    let mut attribute = words(&[1 | 112 << 32, 0, 1, 7, 0, 1 << 8]);
    attribute.resize(128, 0);
    file.extend(attribute);
    file.extend(records);
    file
}

/// Returns the output of `perf script` for each address: name and offset, or nothing.
pub(crate) fn ask_perf(
    scratch: &Path,
    data: &[u8],
    symfs: Option<&Path>,
) -> Vec<Option<(String, u64)>> {
    let file = scratch.join("perf.data");
    std::fs::write(&file, data).unwrap();
    let mut command = Command::new("perf");
    command
        .arg("--buildid-dir")
        .arg(scratch.join("cache"))
        .args(["script", "-f", "-F", "ip,sym,symoff", "-i"]);
    command.arg(&file);
    command.env_remove("DEBUGINFOD_URLS");
    if let Some(root) = symfs {
        command.arg("--symfs").arg(root);
    }
    let line = |line: &str| {
        let (_, name) = line.trim_start().split_once(' ').unwrap();
        let (name, offset) = name.rsplit_once("+0x")?;
        let name = name
            .split_once("@GLIBC")
            .map_or(name, |(name, _)| name.trim_end_matches('@'));
        Some((
            name.to_owned(),
            u64::from_str_radix(offset.trim(), 16).unwrap(),
        ))
    };
    run(&mut command, "")
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(line)
        .collect()
}

/// Result of this crate.
#[derive(Debug)]
pub(crate) struct Ours {
    pub(crate) name: String,
    pub(crate) within: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) plt: bool,
}

impl Ours {
    pub(crate) fn new(symbol: &ElfSymbol<'_>, svma: u64) -> Self {
        Self {
            name: symbol.name(Style::NoParameters).into_owned(),
            within: svma - symbol.start(),
            start: symbol.start(),
            end: symbol.start() + symbol.size(),
            plt: symbol.is_plt() || symbol.raw() == b".plt",
        }
    }

    pub(crate) fn is(&self, theirs: Option<&(String, u64)>) -> bool {
        theirs.is_some_and(|(name, within)| *name == self.name && *within == self.within)
    }
}

/// Returns the difference documented in `elf` that applies, if any.
pub(crate) fn excuse(
    symbols: &ElfSymbols<Vec<u8>>,
    ours: Option<&Ours>,
    theirs: Option<&str>,
    svma: u64,
    text: &std::ops::Range<u64>,
) -> Option<&'static str> {
    match ours {
        Some(ours) if ours.plt => Some("PLT"),
        Some(ours) => {
            let next = symbols.iter().find(|next| next.start() > ours.start);
            let nested = next.is_some_and(|next| next.start() < ours.end);
            if nested && theirs != Some(&*ours.name) {
                return Some("behind a nested symbol");
            }
            // Not in code: there, such symbols are no accident of merged strings.
            let overlap = symbols.iter().any(|symbol| {
                let end = symbol.start() + symbol.size();
                symbol.start() < ours.start
                    && svma < end
                    && Some(symbol.raw()) == theirs.map(str::as_bytes)
            });
            (overlap && !text.contains(&svma)).then_some("two that overlap")
        }
        None => {
            let known = symbols.iter().any(|symbol| {
                !symbol.is_plt() && Some(&*symbol.name(Style::NoParameters)) == theirs
            });
            (known && !text.contains(&svma)).then_some("past the section")
        }
    }
}

/// Returns the range of `.text`, parsed by another reader. Addresses in it are never excused for
/// being in no section.
pub(crate) fn text_range(bytes: &[u8]) -> std::ops::Range<u64> {
    let file = object::File::parse(bytes).unwrap();
    let text = file.section_by_name(".text").unwrap();
    text.address()..text.address() + text.size()
}
