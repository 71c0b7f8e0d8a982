//! Starts, sizes and names compared with `nm`, PLT entries compared with `objdump`.

use crate::tools::{Scratch, compiled_files, have, run, system_files};
use rprof_symbols::{ElfSymbol, ElfSymbols, Style};
use rprof_testing::{Need, has};
use std::collections::{HashMap, HashSet};
use std::process::Command;

/// Every sized function of `nm` must be found at its start and its last byte, under one of `nm`'s
/// names for that address.
#[test]
fn functions_as_nm_lists_them() {
    if !have(&["nm"]) {
        return;
    }
    let scratch = Scratch::new();
    let mut checked = 0;
    for path in compiled_files(&scratch).into_iter().chain(system_files()) {
        let symbols = ElfSymbols::parse(std::fs::read(&path).unwrap()).unwrap();
        let mut command = Command::new("nm");
        command.args(["-S", "--defined-only", "--without-symbol-versions"]);
        if !symbols.has_symtab() {
            command.arg("-D");
        }
        let listing = run(command.arg(&path), "");
        let mut by_start: HashMap<u64, HashSet<&str>> = HashMap::new();
        let mut functions = Vec::new();
        for line in listing.lines() {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let Some(start) = words
                .first()
                .and_then(|word| u64::from_str_radix(word, 16).ok())
            else {
                continue;
            };
            by_start
                .entry(start)
                .or_default()
                .insert(words[words.len() - 1]);
            if let [_, size, "t" | "T" | "w" | "W" | "i", _] = words[..] {
                functions.push((start, u64::from_str_radix(size, 16).unwrap()));
            }
        }
        for (start, size) in functions {
            let found = symbols
                .lookup_svma(start)
                .unwrap_or_else(|| panic!("{} {start:#x}", path.display()));
            assert_eq!(found.start(), start, "{}", path.display());
            let raw = String::from_utf8_lossy(found.raw());
            let name = raw.split('@').next().unwrap();
            assert!(
                by_start[&start].contains(name),
                "{} {start:#x}: {name} of {:?}",
                path.display(),
                by_start[&start]
            );
            // The last byte may belong to a function that started later.
            let last = symbols
                .lookup_svma(start + found.size().max(1) - 1)
                .unwrap();
            assert!(last.start() >= start);
            // Aliases may differ in size. Without aliases, the size must match.
            assert!(
                by_start[&start].len() > 1 || size == 0 || found.size() == size,
                "{} {start:#x}",
                path.display()
            );
            checked += 1;
        }
    }
    eprintln!("nm: {checked} functions agree");
}

#[test]
fn plt_as_objdump_has_it() {
    if !has(Need::X86_64) || !have(&["objdump"]) {
        return;
    }
    let scratch = Scratch::new();
    let (mut checked, mut nameless) = (0, 0);
    for path in compiled_files(&scratch).into_iter().chain(system_files()) {
        let symbols = ElfSymbols::parse(std::fs::read(&path).unwrap()).unwrap();
        let mut command = Command::new("objdump");
        command.args([
            "-d",
            "--no-show-raw-insn",
            "-j",
            ".plt",
            "-j",
            ".plt.sec",
            "-j",
            ".plt.got",
        ]);
        let Ok(output) = command.arg(&path).output() else {
            continue;
        };
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            // 0000000000001030 <abs@plt>:
            let Some((start, name)) = line
                .strip_suffix(">:")
                .and_then(|line| line.split_once(" <"))
            else {
                continue;
            };
            // Indirect functions are *ABS*+0x1234@plt, or *ABS*+0x1234@plt with a name of ours.
            let Some(name) = name
                .strip_suffix("@plt")
                .filter(|name| !name.starts_with('*'))
            else {
                continue;
            };
            let start = u64::from_str_radix(start, 16).unwrap();
            let name = name.split('@').next().unwrap();
            let Some(found) = symbols.lookup_svma(start).filter(ElfSymbol::is_plt) else {
                nameless += 1;
                continue;
            };
            assert_eq!(
                String::from_utf8_lossy(found.raw()),
                name,
                "{} {start:#x}",
                path.display()
            );
            assert!(found.name(Style::Full).ends_with("@plt"));
            checked += 1;
        }
    }
    eprintln!("objdump: {checked} PLT entries agree, {nameless} have no name here");
    assert!(nameless * 100 <= checked);
}
