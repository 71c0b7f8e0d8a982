//! Results of llvm-symbolizer and eu-addr2line.

use crate::chains::{Aliases, Chain, Frame, chain, plain, stem};
use object::{Object, ObjectSection, ObjectSegment};
use rprof_symbols::{ImageKey, Symbolizer};
use rprof_testing::Random;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Files of a comparison.
#[derive(Debug, Clone, Default)]
pub(crate) struct Places {
    /// Debug folder that replaces the defaults.
    pub(crate) dir: Option<PathBuf>,
    /// File with the same code for the other tools.
    pub(crate) reference: Option<PathBuf>,
}

/// Returns random addresses in `.text`, sorted: SVMA and file offset.
pub(crate) fn addresses(path: &Path, count: usize, seed: u64) -> Vec<(u64, u64)> {
    let bytes = std::fs::read(path).unwrap();
    let file = object::File::parse(&bytes[..]).unwrap();
    let text = file.section_by_name(".text").unwrap();
    let mut random = Random::new(seed);
    let mut found: Vec<(u64, u64)> = (0..count)
        .filter_map(|_| {
            let svma = text.address() + random.below(text.size());
            let segment = file
                .segments()
                .find(|s| (s.address()..s.address() + s.size()).contains(&svma))?;
            Some((svma, svma - segment.address() + segment.file_range().0))
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

pub(crate) fn ours(path: &Path, places: &Places, addresses: &[(u64, u64)]) -> Vec<Chain> {
    let mut builder = Symbolizer::builder();
    if let Some(dir) = &places.dir {
        builder = builder.debug_dirs(vec![dir.clone()]);
    }
    let offsets: Vec<u64> = addresses.iter().map(|&(_, offset)| offset).collect();
    let lookups = builder
        .build()
        .resolve_image(&ImageKey::file(path), &offsets);
    lookups
        .into_iter()
        .map(|lookup| lookup.map(|frames| chain(&frames)).unwrap_or_default())
        .collect()
}

pub(crate) fn llvm(path: &Path, places: &Places, addresses: &[(u64, u64)]) -> Vec<Chain> {
    let mut command = Command::new("llvm-symbolizer");
    command.args(["--inlines", "--functions=linkage", "--no-demangle"]);
    command.arg(format!("--obj={}", path.display()));
    if let Some(dir) = &places.dir {
        command.arg(format!("--debug-file-directory={}", dir.display()));
    }
    let text = answer(&mut command, addresses);
    let blocks = text.split("\n\n").filter(|block| !block.trim().is_empty());
    blocks.map(|block| frames(block.trim().lines())).collect()
}

pub(crate) fn elfutils(path: &Path, places: &Places, addresses: &[(u64, u64)]) -> Vec<Chain> {
    let mut command = Command::new("eu-addr2line");
    command.args(["-a", "-i", "-f", "-e"]).arg(path);
    if let Some(dir) = &places.dir {
        command.arg(format!("--debuginfo-path=:.debug:{}", dir.display()));
    }
    command.env_remove("DEBUGINFOD_URLS");
    let text = answer(&mut command, addresses);
    let mut chains: Vec<Vec<&str>> = Vec::new();
    for line in text.lines() {
        match line.starts_with("0x") {
            true => chains.push(Vec::new()),
            false => chains.last_mut().unwrap().push(line),
        }
    }
    chains
        .into_iter()
        .map(|lines| frames(lines.into_iter()))
        .collect()
}

fn answer(command: &mut Command, addresses: &[(u64, u64)]) -> String {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input: String = addresses
        .iter()
        .map(|(svma, _)| format!("{svma:#x}\n"))
        .collect();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Parses pairs of lines: a name, and its location.
fn frames<'a>(mut lines: impl Iterator<Item = &'a str>) -> Chain {
    let mut chain = Vec::new();
    while let (Some(name), Some(place)) = (lines.next(), lines.next()) {
        // Suffixes of elfutils, by the source of the call site.
        let name = name.split(" inlined at ").next().unwrap();
        let name = name.split(" inlined from ").next().unwrap();
        let mut parts = place.rsplitn(3, ':');
        let (last, middle, first) = (parts.next().unwrap(), parts.next(), parts.next());
        let number = |text: &str| text.split(' ').next().unwrap().parse().unwrap_or(0);
        // elfutils omits a column of 0.
        let (file, line, column) = match (first, middle) {
            (Some(file), Some(line)) => (file, number(line), number(last)),
            (_, Some(file)) => (file, number(last), 0),
            _ => ("", 0, 0),
        };
        chain.push(Frame {
            name: if name.starts_with("??") {
                String::new()
            } else {
                name.to_owned()
            },
            file: if file.starts_with("??") {
                String::new()
            } else {
                plain(file)
            },
            line,
            column,
        });
    }
    // Lines without any name are no result.
    if chain.iter().all(|frame| frame.name.is_empty()) {
        chain.clear();
    }
    chain
}

pub(crate) fn debug_file(path: &Path, places: &Places) -> Option<PathBuf> {
    let bytes = std::fs::read(path).ok()?;
    let id = object::File::parse(&bytes[..])
        .ok()?
        .build_id()
        .ok()??
        .to_vec();
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let dir = places.dir.as_deref().unwrap_or(Path::new("/usr/lib/debug"));
    let (folder, name) = hex.split_at_checked(2)?;
    Some(
        dir.join(".build-id")
            .join(folder)
            .join(format!("{name}.debug")),
    )
}

/// Statistics of a comparison.
#[derive(Debug, Default)]
pub(crate) struct Agreement {
    pub(crate) all: usize,
    pub(crate) with_llvm: usize,
    pub(crate) with_elfutils: usize,
    /// Addresses at which the other two agree, and those at which this crate agrees too.
    pub(crate) both: usize,
    pub(crate) with_both: usize,
    /// Differences by kind.
    pub(crate) classes: BTreeMap<String, usize>,
    pub(crate) examples: Vec<String>,
}

impl Agreement {
    pub(crate) fn of(path: &Path, places: &Places, count: usize, seed: u64) -> Self {
        let addresses = addresses(path, count, seed);
        let theirs = places.reference.as_deref().unwrap_or(path);
        let ours = ours(path, places, &addresses);
        let llvm = llvm(theirs, places, &addresses);
        let eu = elfutils(theirs, places, &addresses);
        assert_eq!(llvm.len(), addresses.len(), "{}", path.display());
        assert_eq!(eu.len(), addresses.len(), "{}", path.display());
        let mut with_symbols = vec![path.to_path_buf(), theirs.to_path_buf()];
        with_symbols.extend(debug_file(path, places));
        let files = with_symbols
            .iter()
            .filter_map(|path| std::fs::read(path).ok());
        let files: Vec<_> = files.collect();
        let aliases = Aliases::of(files.iter().map(Vec::as_slice));
        let alike = |a, b| aliases.alike(a, b);
        let mut sum = Self {
            all: addresses.len(),
            ..Self::default()
        };
        for (i, (svma, _)) in addresses.iter().enumerate() {
            let (o, l, e) = (&ours[i], &llvm[i], &eu[i]);
            let (as_llvm, as_eu, same) = (alike(o, l), alike(o, e), alike(l, e));
            sum.with_llvm += usize::from(as_llvm);
            sum.with_elfutils += usize::from(as_eu);
            sum.both += usize::from(same);
            sum.with_both += usize::from(same && as_llvm);
            if !as_llvm || !as_eu {
                let class = class(&aliases, o, l, e);
                let seen = sum.classes.entry(class.clone()).or_default();
                *seen += 1;
                if *seen == 1 {
                    let show = |chain: &Chain| {
                        chain
                            .iter()
                            .map(|f| format!("\n      {f}"))
                            .collect::<String>()
                    };
                    sum.examples.push(format!(
                        "{svma:#x} {class}\n    ours{}\n    llvm{}\n    elfutils{}",
                        show(o),
                        show(l),
                        show(e)
                    ));
                }
            }
        }
        sum
    }
}

fn class(aliases: &Aliases, ours: &Chain, llvm: &Chain, eu: &Chain) -> String {
    let what = |other: &Chain| -> &'static str {
        if aliases.alike(ours, other) {
            return "=";
        }
        if ours.is_empty() {
            return "we know nothing";
        }
        if other.is_empty() {
            return "it knows nothing";
        }
        if ours.len() != other.len() {
            return "length";
        }
        let names = ours
            .iter()
            .zip(other)
            .all(|(a, b)| stem(&a.name) == stem(&b.name));
        let lines = ours
            .iter()
            .zip(other)
            .all(|(a, b)| a.line == b.line && (a.file == b.file || a.line == 0));
        let outermost = ours
            .last()
            .zip(other.last())
            .is_some_and(|(a, b)| stem(&a.name) != stem(&b.name));
        let inner = ours
            .iter()
            .zip(other)
            .rev()
            .skip(1)
            .all(|(a, b)| stem(&a.name) == stem(&b.name));
        match (names, lines) {
            (true, true) => "column",
            (true, false) => {
                if ours.iter().zip(other).all(|(a, b)| a.line == b.line) {
                    "file"
                } else {
                    "line"
                }
            }
            (false, true) if outermost && inner => "outermost name",
            (false, true) => "name",
            (false, false) => "name and line",
        }
    };
    let same = if aliases.alike(llvm, eu) {
        " (they agree)"
    } else {
        ""
    };
    format!("llvm: {}, elfutils: {}{same}", what(llvm), what(eu))
}
