//! `perf script` names addresses in made-up samples; so do we.
//!
//! Known differences, where `perf` 6.1 is wrong (see the `elf` module), are told apart and
//! excused only under their exact conditions.

use crate::tools::{Random, Scratch, compiled_files, have, run, system_files};
use object::{Object, ObjectSection};
use rprof_symbols::{ElfSymbol, ElfSymbols, KernelSymbols, Style};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const BASE: u64 = 0x100_0000_0000;

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

/// A perf.data file in which one process runs `path`, mapped whole, through every one of `ips`.
fn perf_data(path: &str, len: u64, ips: &[u64]) -> Vec<u8> {
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
    // Header; attribute: software event 0, IP | TID | TIME, mmap records, no ids.
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

/// What `perf script` prints for each address: name and offset, or nothing.
fn ask_perf(scratch: &Path, data: &[u8], symfs: bool) -> Vec<Option<(String, u64)>> {
    let file = scratch.join("perf.data");
    std::fs::write(&file, data).unwrap();
    let mut command = Command::new("perf");
    // An empty build-id cache, and a file system without debug files in it.
    command
        .arg("--buildid-dir")
        .arg(scratch.join("cache"))
        .args(["script", "-f", "-F", "ip,sym,symoff", "-i"]);
    command.arg(&file);
    if symfs {
        command.arg("--symfs").arg(scratch);
    }
    let line = |line: &str| {
        let (_, name) = line.trim_start().split_once(' ').unwrap();
        let (name, offset) = name.rsplit_once("+0x")?;
        let name = name.split_once("@GLIBC").map_or(name, |(name, _)| name);
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

/// Which of the differences that `elf` documents this is, if any.
fn excuse(
    symbols: &ElfSymbols<Vec<u8>>,
    ours: Option<ElfSymbol<'_>>,
    theirs: Option<&str>,
    in_text: bool,
) -> Option<&'static str> {
    let named = |symbol: &ElfSymbol<'_>| Some(&*symbol.name(Style::NoParameters)) == theirs;
    match ours {
        Some(symbol) if symbol.is_plt() || symbol.raw() == b".plt" => Some("PLT"),
        Some(symbol) => {
            let next = symbols.iter().find(|next| next.start() > symbol.start());
            let nested = next.is_some_and(|next| next.start() < symbol.start() + symbol.size());
            (nested && !named(&symbol)).then_some("behind a nested symbol")
        }
        None => {
            let known = symbols
                .iter()
                .any(|symbol| !symbol.is_plt() && named(&symbol));
            (known && !in_text).then_some("past the section")
        }
    }
}

/// Where `.text` lies, as another reader sees it: in there, nothing is excused for being in no section.
fn text_range(bytes: &[u8]) -> std::ops::Range<u64> {
    let file = object::File::parse(bytes).unwrap();
    let text = file.section_by_name(".text").unwrap();
    text.address()..text.address() + text.size()
}

#[test]
fn names_of_files() {
    if !have(&["perf"]) {
        return;
    }
    let scratch = Scratch::new();
    let mut random = Random(7);
    let mut total = 0;
    let mut excuses: BTreeMap<&str, u32> = BTreeMap::new();
    let mut wrong = Vec::new();
    for path in compiled_files(&scratch).into_iter().chain(system_files()) {
        let bytes = std::fs::read(&path).unwrap();
        let len = bytes.len() as u64;
        let text = text_range(&bytes);
        let symbols = ElfSymbols::parse(bytes).unwrap();
        let mut offsets: Vec<u64> = (0..3000).map(|_| random.below(len)).collect();
        let starts: Vec<u64> = symbols.iter().map(|symbol| symbol.start()).collect();
        // Only code: data is never sampled, and .bss has no offset.
        let to_offset = |svma: u64| {
            (0..len).step_by(4096).find_map(|page| {
                let at = symbols.file_offset_to_svma(page)?;
                (at & !4095 == svma & !4095).then(|| page + (svma & 4095) - (at & 4095))
            })
        };
        for _ in 0..1000 {
            let svma = starts[random.below(starts.len() as u64) as usize];
            offsets.extend(to_offset(svma + random.below(3)).filter(|&offset| offset < len));
        }
        offsets.retain(|&offset| symbols.file_offset_to_svma(offset).is_some());
        let copy = scratch.path().join("image");
        std::fs::copy(&path, &copy).unwrap();
        let ips: Vec<u64> = offsets.iter().map(|offset| BASE + offset).collect();
        let answers = ask_perf(scratch.path(), &perf_data("/image", len, &ips), true);
        assert_eq!(answers.len(), offsets.len());
        let wrong_before = wrong.len();
        for (&offset, theirs) in offsets.iter().zip(&answers) {
            total += 1;
            let ours = symbols.lookup_offset(offset);
            let name = ours.map(|symbol| {
                let within = symbols.file_offset_to_svma(offset).unwrap() - symbol.start();
                (symbol.name(Style::NoParameters).into_owned(), within)
            });
            if name == *theirs {
                continue;
            }
            if let Some(excuse) = excuse(
                &symbols,
                ours,
                theirs.as_ref().map(|(name, _)| &**name),
                text.contains(&symbols.file_offset_to_svma(offset).unwrap()),
            ) {
                *excuses.entry(excuse).or_default() += 1;
            } else {
                wrong.push(format!(
                    "{} {offset:#x}: {name:?}, perf {theirs:?}",
                    path.display()
                ));
            }
        }
        let named = answers.iter().flatten().count();
        eprintln!(
            "perf: {}: {named} named, {} unlike",
            path.display(),
            wrong.len() - wrong_before
        );
    }
    eprintln!(
        "perf: {total} addresses, known differences {excuses:?}, {} others",
        wrong.len()
    );
    for line in wrong.iter().step_by(1 + wrong.len() / 60) {
        eprintln!("{line}");
    }
    // Names that two demanglers write differently are counted in `demangling`.
    assert!(wrong.len() * 1000 <= total, "{} of {total}", wrong.len());
}

#[test]
fn names_in_the_kernel() {
    let Ok(symbols) = KernelSymbols::load_running() else {
        return;
    };
    if !have(&["perf"]) {
        return;
    }
    let scratch = Scratch::new();
    let text = symbols.text_range().unwrap();
    let mut random = Random(9);
    let mut ips: Vec<u64> = (0..5000)
        .map(|_| text.start + random.below(text.end - text.start))
        .collect();
    ips.extend(
        symbols
            .iter()
            .map(|symbol| symbol.start)
            .filter(|start| text.contains(start))
            .step_by(11),
    );
    let answers = ask_perf(
        scratch.path(),
        &perf_data("[kernel.kallsyms]_text", text.start, &ips),
        false,
    );
    let differ: Vec<_> = ips
        .iter()
        .zip(&answers)
        .map(|(&ip, theirs)| {
            (
                ip,
                symbols
                    .lookup(ip)
                    .map(|found| (found.name.to_owned(), ip - found.start)),
                theirs,
            )
        })
        .filter(|(_, ours, theirs)| ours != *theirs)
        .collect();
    eprintln!(
        "perf: {} kernel addresses, {} differ",
        ips.len(),
        differ.len()
    );
    assert!(differ.is_empty(), "{:#x?}", &differ[..differ.len().min(10)]);
}
