//! Demangled names against c++filt.

use crate::tools::{Scratch, compiled_files, have, run, system_files};
use rprof_symbols::ElfSymbols;
use rprof_symbols::demangle::{Style, demangle};
use std::path::Path;
use std::process::Command;

/// Counts how many names c++filt writes in the same way, in both styles.
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
            // c++filt keeps hashes and disambiguators of Rust; data is not profiled.
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

/// A shared collection of difficult names, where it is at hand.
#[test]
fn collected_pairs() {
    let pairs =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus/demangle/pairs.tsv");
    let Ok(pairs) = std::fs::read_to_string(pairs) else {
        return;
    };
    let (mut all, mut full, mut short_all, mut short) = (0, 0, 0, 0);
    for line in pairs.lines().skip(1) {
        let columns: Vec<&str> = line.split('\t').collect();
        let &[_, _, raw, expected, no_parameters, "yes"] = &columns[..] else {
            continue;
        };
        all += 1;
        full += usize::from(demangle(raw, Style::Full) == expected);
        if !no_parameters.is_empty() {
            short_all += 1;
            short += usize::from(demangle(raw, Style::NoParameters) == no_parameters);
        }
    }
    eprintln!("pairs: {full} of {all} agree in full, {short} of {short_all} without parameters");
}
