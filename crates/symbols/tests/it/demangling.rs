//! Demangled names compared with c++filt.

use crate::tools::{Scratch, compiled_files, have, run, system_files};
use rprof_symbols::ElfSymbols;
use rprof_symbols::demangle::{Style, demangle};
use std::collections::BTreeMap;
use std::process::Command;

/// Counts the names that c++filt writes in the same way, in both styles.
fn compare(names: &[String]) -> (usize, usize, Vec<String>) {
    let input = names.join("\n") + "\n";
    let full = run(Command::new("c++filt").arg("-i"), &input);
    let short = run(Command::new("c++filt").args(["-i", "-p"]), &input);
    let (mut full_agree, mut short_agree) = (0, 0);
    let mut differ = Vec::new();
    for ((raw, full), short) in names.iter().zip(full.lines()).zip(short.lines()) {
        full_agree += usize::from(demangle(raw, Style::Full) == full);
        let ours = demangle(raw, Style::NoParameters);
        if ours == short {
            short_agree += 1;
        } else {
            differ.push(format!("{ours}\n    c++filt: {short}"));
        }
    }
    (full_agree, short_agree, differ)
}

#[test]
fn functions_of_real_programs() {
    if !have(&["c++filt"]) {
        return;
    }
    let scratch = Scratch::new();
    let mut names = Vec::new();
    for path in compiled_files(&scratch).into_iter().chain(system_files()) {
        let symbols = ElfSymbols::parse(std::fs::read(&path).unwrap()).unwrap();
        names.extend(symbols.iter().filter_map(|symbol| {
            let raw = str::from_utf8(symbol.raw()).ok()?;
            // c++filt keeps hashes and disambiguators of Rust.
            let rust = raw.contains("17h") || raw.starts_with("_R");
            let function = !raw.starts_with("_ZT") && !raw.starts_with("_ZGV");
            (raw.starts_with("_Z") && function && !rust && !raw.contains('@'))
                .then(|| raw.to_owned())
        }));
    }
    names.sort();
    names.dedup();
    let (full, short, differ) = compare(&names);
    eprintln!(
        "c++filt: of {} C++ names {full} agree in full, {short} without parameters",
        names.len()
    );
    for line in differ.iter().take(25) {
        eprintln!("{line}");
    }
    assert!(short * 1000 >= names.len() * 995);
}

/// The corpus of difficult names. Skips rows with a form that `c++filt` disagrees with, and rows
/// for options that rprof lacks (Java, trailing return types).
#[test]
fn collected_pairs() {
    let Some(pairs) = rprof_testing::corpus_file("demangle/pairs.tsv") else {
        return;
    };
    let pairs = std::fs::read_to_string(pairs).unwrap();
    let mut tallies: BTreeMap<(&str, &str), (usize, usize)> = BTreeMap::new();
    for line in pairs.lines().skip(1) {
        let columns: Vec<&str> = line.split('\t').collect();
        let &[source, options, raw, full, short, agreed] = &columns[..] else {
            continue;
        };
        let source = source.split(':').next().unwrap();
        // Rust's own demangler is the reference for its names, without hashes and crate numbers.
        let is_rust = source == "rustc-demangle";
        let foreign = ["java", "ret-postfix", "ret-drop"];
        let other_options = foreign.iter().any(|option| options.contains(option));
        if other_options || (is_rust && options != "t_nohash") || (!is_rust && agreed != "yes") {
            continue;
        }
        let mut judge = |style, kind, expected: &str| {
            let (all, alike) = tallies.entry((source, kind)).or_default();
            *all += 1;
            let ours = demangle(raw, style);
            match ours == expected {
                true => *alike += 1,
                false => eprintln!("{source}, {kind}: {raw}\n    {ours}\n    {expected}"),
            }
        };
        judge(Style::Full, "full", full);
        if !short.is_empty() {
            judge(Style::NoParameters, "short", short);
        }
    }
    assert!(tallies.len() > 3, "{tallies:?}");
    for ((source, kind), (all, alike)) in &tallies {
        let percent = 100.0 * *alike as f64 / *all as f64;
        eprintln!("{source}, {kind}: {alike} of {all} names agree, {percent:.1} %");
        // The full form differs for types that are rare in function names (returned pointers to
        // functions, expressions).
        let least = if *kind == "short" { 95 } else { 80 };
        assert!(*alike * 100 >= *all * least, "{source}, {kind}");
    }
}
