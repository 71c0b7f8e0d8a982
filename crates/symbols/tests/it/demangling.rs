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

/// Checked with `c++filt -s dlang` of binutils 2.40, but for the names in the second list: it does
/// not know `return scope` in this order, `noreturn` and functions as arguments in templates.
#[test]
fn functions_of_d() {
    for (raw, expected) in [
        (
            "_D3std5stdio4File6__ctorMFAyaZS3std5stdio4File",
            "std.stdio.File.this(immutable(char)[])",
        ),
        (
            "_D1a1bFPFNaNbNiNfwZbZv",
            "a.b(bool(dchar) pure nothrow @nogc @safe function)",
        ),
        (
            "_D1a1bFDxFNaNbwZbZv",
            "a.b(bool(dchar) pure nothrow delegate const)",
        ),
        ("_D1a1bFPUiZvZv", "a.b(extern(C) void(int) function)"),
        ("_D1a1bFHAyaiZv", "a.b(int[immutable(char)[]])"),
        ("_D1a1bFG4iZv", "a.b(int[4])"),
        ("_D1a1bFNhG4fZv", "a.b(__vector(float[4]))"),
        (
            "_D1a1bFOPixAyaZv",
            "a.b(shared(int*), const(immutable(char)[]))",
        ),
        ("_D1a1bFAiXv", "a.b(int[]...)"),
        ("_D1a1bFiYv", "a.b(int, ...)"),
        ("_D1a1bMOxFiZv", "a.b(int) shared const"),
        ("_D1a10__postblitMFZv", "a.this(this)"),
        ("_D1a6__dtorMFZv", "a.~this()"),
        ("_D1a3fooMxFiZ3barFiZv", "a.foo(int) const.bar(int)"),
        (
            "_D1a__T1bVii5Vki5Vli5Vmi5Z1bFZv",
            "a.b!(5, 5u, 5L, 5uL).b()",
        ),
        (
            "_D1a__T1bVai65Vai10Vbi1Z1bFZv",
            "a.b!('A', '\\x0a', true).b()",
        ),
        ("_D1a__T1bVAyaa3_616263Z1bFZv", "a.b!(\"abc\").b()"),
        ("_D1a__T1bVHiiA2i1i2i3i4Z1bFZv", "a.b!([1:2, 3:4]).b()"),
        ("_D1a__T1bVS1a1SS2i1i2Z1bFZv", "a.b!(a.S(1, 2)).b()"),
        ("_D1a__T1bVdeA8PN6VdeNINFZ1bFZv", "a.b!(0xA.8p-6, -Inf).b()"),
        ("_D1a__T1bS_D1a1cFiZvZ1bFZv", "a.b!(a.c(int)).b()"),
        ("_D1a8__T1bTiZ1bFZv", "a.b!(int).b()"),
        (
            "_D4core8internal7convert__T5parseVbi0HTeZQoFNaNbNiNfeZSQCbQBzQBt5Float",
            "core.internal.convert.parse!(false, real).parse(real)",
        ),
        ("_D10TypeInfo_b6__initZ", "initializer for TypeInfo_b"),
        ("_Dmain", "D main"),
        ("_D1a1bFiZv.part.0", "a.b(int) [clone .part.0]"),
    ] {
        assert_eq!(demangle(raw, Style::Full), expected, "{raw}");
    }
    for (raw, expected) in [
        ("_D1a1bFiZv.part.0", "a.b"),
        ("_D1a3fooMxFiZ3barFiZv", "a.foo(int) const.bar"),
        ("_D1a1bMOxFiZv", "a.b"),
        (
            "_D2rt8lifetime12__arrayStartFNaNbNkMS4core6memory8BlkInfo_ZPv",
            "rt.lifetime.__arrayStart",
        ),
        ("_D1a__T1bTNnZ1bFZv", "a.b!(noreturn).b"),
        ("_DTi16_D1a1bFiZv", "non-virtual thunk to a.b(int)"),
        ("_DThn16_1a1bFiZv", "non-virtual thunk to a.b(int)"),
        ("_D1a1bFPFiZvZ1cQh", "a.b(void(int) function).c"),
        ("_D1a10__postblitMFZv", "a.this(this)"),
    ] {
        assert_eq!(demangle(raw, Style::NoParameters), expected, "{raw}");
    }
    for other in [
        "_D",
        "_Dx",
        "_D1aF",
        "_D3fooiX",
        "_D99fooZ",
        "_D3a b1cFZv",
        "_D1aFQbZv",
        "_DTi16_",
        "_D1a__T1bZ",
        "_D0Z",
    ] {
        assert_eq!(demangle(other, Style::Full), other);
    }
    // Each type refers to the previous one twice.
    let doubling = format!("_D1aF{}Zv", "HiQb".to_owned() + &"HQdQf".repeat(40));
    let _ = demangle(&doubling, Style::Full);
    let deep = format!("_D1aF{}iZv", "P".repeat(10_000));
    assert_eq!(demangle(&deep, Style::Full), deep);
    let endless = "_D1aFPQbZv";
    assert_eq!(demangle(endless, Style::Full), endless);
}

/// Compares the exported names of the installed libraries of D with c++filt.
#[test]
fn libraries_of_d() {
    if !have(&["c++filt"]) {
        return;
    }
    let names = exported_names(&[
        "libphobos2-ldc-shared.so",
        "libdruntime-ldc-shared.so",
        "libgphobos.so",
        "libgdruntime.so",
    ]);
    let names: Vec<&String> = names.iter().filter(|raw| raw.starts_with("_D")).collect();
    let input = names
        .iter()
        .map(|raw| format!("{raw}\n"))
        .collect::<String>();
    let full = run(Command::new("c++filt").args(["-s", "dlang"]), &input);
    let (mut unknown, mut longer) = (0, 0);
    for (raw, expected) in names.iter().zip(full.lines()) {
        let ours = demangle(raw, Style::Full);
        // It leaves names that it cannot read.
        match expected == **raw {
            true => unknown += usize::from(ours == expected),
            // It shows no parameters of functions whose type occurred before.
            false if ours.len() > expected.len() => longer += 1,
            false => assert_eq!(ours, expected, "{raw}"),
        }
    }
    eprintln!(
        "D: {} names, {unknown} unknown to both, {longer} longer",
        names.len()
    );
    assert!(unknown * 1000 <= names.len() && longer * 500 <= names.len());
}

/// Names of the exported symbols of libraries, if these are installed.
fn exported_names(libraries: &[&str]) -> Vec<String> {
    let entries = std::fs::read_dir("/usr/lib/x86_64-linux-gnu")
        .into_iter()
        .flatten();
    let mut names = Vec::new();
    for path in entries.map(|entry| entry.unwrap().path()) {
        let file = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if !libraries.iter().any(|library| file.starts_with(library)) {
            continue;
        }
        let Ok(Ok(symbols)) = std::fs::read(&path).map(ElfSymbols::parse) else {
            continue;
        };
        let raw = symbols
            .iter()
            .map(|symbol| String::from_utf8_lossy(symbol.raw()).into_owned());
        names.extend(raw);
    }
    names.sort();
    names.dedup();
    names
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
