//! Starts, sizes and names compared with `nm`, PLT entries compared with `objdump`.

use crate::tools::{Scratch, compiled_files, have, run, system_files, without_section_headers};
use rprof_symbols::{ElfSymbol, ElfSymbols, ImageKey, Style, Symbolizer};
use rprof_testing::{Need, has};
use std::collections::{HashMap, HashSet};
use std::path::Path;
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
    let (mut checked_bare, mut nameless_bare) = (0, 0);
    for path in compiled_files(&scratch).into_iter().chain(system_files()) {
        let bytes = std::fs::read(&path).unwrap();
        let bare = ElfSymbols::parse(without_section_headers(bytes.clone())).unwrap();
        let symbols = ElfSymbols::parse(bytes).unwrap();
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
            let Some(found) = bare.lookup_svma(start).filter(ElfSymbol::is_plt) else {
                nameless_bare += 1;
                continue;
            };
            let place = format!("{} {start:#x}", path.display());
            assert_eq!(String::from_utf8_lossy(found.raw()), name, "{place}");
            checked_bare += 1;
        }
    }
    eprintln!("objdump: {checked} PLT entries agree, {nameless} have no name here");
    eprintln!("without section headers: {checked_bare} agree, {nameless_bare} have no name");
    assert!(nameless * 100 <= checked);
    // A file whose table has no header.
    assert!(nameless_bare * 10 <= checked_bare);
}

/// A stripped Go program names its Go functions as before, and no C functions.
#[test]
fn go_functions_of_stripped_programs() {
    rprof_testing::needs!(Go, Tool("nm"), Tool("strip"));
    let scratch = Scratch::new();
    let without_abi = |name: &[u8]| {
        let name = String::from_utf8_lossy(name).into_owned();
        name.trim_end_matches(".abi0").to_owned()
    };
    // GNU ld merges the table into another section in position-independent programs with C.
    let pie = &["-buildmode=pie"][..];
    for (program, flags) in [("plain", &[][..]), ("plain", pie), ("c", &[])] {
        let path = scratch.path().join("whole");
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/go");
        rprof_testing::build_go(&sources.join(program), &path, flags);
        let stripped = scratch.path().join("stripped");
        run(
            Command::new("strip").arg(&path).arg("-o").arg(&stripped),
            "",
        );
        let read =
            |path| ElfSymbols::parse(std::fs::read(path).expect("a program")).expect("an image");
        let (whole, stripped) = (read(&path), read(&stripped));
        let is_function = |line: &str| {
            let (start, rest) = line.split_once(' ')?;
            let is_code = rest.starts_with(['t', 'T']);
            u64::from_str_radix(start, 16).ok().filter(|_| is_code)
        };
        let listing = run(Command::new("nm").arg(&path), "");
        let functions: HashSet<u64> = listing.lines().filter_map(is_function).collect();
        let (mut same, mut others) = (0, Vec::new());
        for symbol in whole
            .iter()
            .filter(|symbol| functions.contains(&symbol.start()) && symbol.size() > 0)
        {
            let raw = symbol.raw();
            let is_c = raw.starts_with(b"c_");
            for svma in [symbol.start(), symbol.start() + symbol.size() - 1] {
                match stripped.lookup_svma(svma) {
                    Some(found) if without_abi(found.raw()) == without_abi(raw) => same += 1,
                    Some(found) if is_c => {
                        let (whole, found) = (without_abi(raw), without_abi(found.raw()));
                        panic!("{program} {flags:?} {svma:#x}: {found} instead of {whole}")
                    }
                    Some(found) => others.push((without_abi(raw), without_abi(found.raw()))),
                    None => assert!(is_c || !raw.starts_with(b"main."), "{}", without_abi(raw)),
                }
            }
        }
        assert!(same > 2000, "{program} {flags:?}: {same} {others:?}");
        assert!(
            others.len() * 100 < same,
            "{program} {flags:?}: {same} {others:?}"
        );
    }
}

/// Static functions of two files and a global one, of one name and without debug information.
#[test]
fn static_functions_of_one_name_have_their_files() {
    rprof_testing::needs!(Tool("cc"), Tool("nm"));
    let scratch = Scratch::new();
    let mut build = Command::new("cc");
    for (file, scope) in [("one.c", "static"), ("two.c", "static"), ("three.c", "")] {
        let name = file.trim_end_matches(".c");
        let text = format!(
            "{scope} __attribute__((noinline, used)) int step(int n) {{ return n * {}; }}\n\
             int {name}(int n) {{ return step(n); }}\n",
            name.len()
        );
        std::fs::write(scratch.path().join(file), text).expect("a source");
        build.arg(file);
    }
    std::fs::write(
        scratch.path().join("main.c"),
        "int main(void) { return 0; }\n",
    )
    .expect("a source");
    run(
        build
            .args(["main.c", "-o", "program"])
            .current_dir(scratch.path()),
        "",
    );
    let program = scratch.path().join("program");
    let symbols = ElfSymbols::parse(std::fs::read(&program).expect("a program")).expect("an image");
    let mut starts: Vec<u64> = Vec::new();
    for name in ["one", "two", "three"] {
        // The compiler puts `step` before its caller.
        let caller = symbols
            .iter()
            .find(|symbol| symbol.raw() == name.as_bytes());
        let caller = caller.expect("a caller").start();
        let step = symbols.iter().filter(|symbol| symbol.raw() == b"step");
        starts.extend(
            step.map(|symbol| symbol.start())
                .filter(|start| *start < caller)
                .max(),
        );
    }
    let symbolizer = Symbolizer::builder().build();
    let image = ImageKey::file(&program);
    // The linker maps the code of a small program at equal offsets and SVMAs.
    let found = symbolizer.resolve_image(&image, &starts);
    let names: Vec<String> = found
        .iter()
        .flatten()
        .map(|frames| frames.symbol().name.to_string())
        .collect();
    assert_eq!(names, ["step (one.c)", "step (two.c)", "step"]);
}

/// Two versions of a function without debug information, in a library with and without `.symtab`.
#[test]
fn versions_of_one_function_have_names_of_their_own() {
    rprof_testing::needs!(Tool("cc"), Tool("nm"));
    let scratch = Scratch::new();
    let write = |name: &str, text: &str| {
        std::fs::write(scratch.path().join(name), text).expect("a source");
    };
    write(
        "foo.c",
        "__attribute__((noinline)) int f_old(int n) { return 3 * n + 1; }\n\
         __attribute__((noinline)) int f_new(int n) { return 5 * n + 2; }\n\
         __asm__(\".symver f_old,foo@V1\");\n\
         __asm__(\".symver f_new,foo@@V2\");\n",
    );
    write(
        "foo.map",
        "V1 { global: foo; local: *; };\nV2 { global: foo; } V1;\n",
    );
    let script = "-Wl,--version-script=foo.map";
    for strip in ["", "-s"] {
        let mut build = Command::new("cc");
        build.args([
            "-O1",
            "-shared",
            "-fPIC",
            "foo.c",
            "-o",
            "libfoo.so",
            script,
        ]);
        build.args(Some(strip).filter(|strip| !strip.is_empty()));
        run(build.current_dir(scratch.path()), "");
        let library = scratch.path().join("libfoo.so");
        let symbols = ElfSymbols::parse(std::fs::read(&library).expect("it was built"));
        let symbols = symbols.expect("an image");
        let starts: Vec<u64> = (symbols.iter())
            .filter(|symbol| symbol.raw().starts_with(b"foo"))
            .map(|symbol| symbol.start())
            .collect();
        let symbolizer = Symbolizer::builder().build();
        let found = symbolizer.resolve_image(&ImageKey::file(&library), &starts);
        let names: Vec<String> = (found.iter().flatten())
            .map(|frames| frames.symbol().name.to_string())
            .collect();
        assert_eq!(names, ["foo (V1)", "foo"], "{strip}");
    }
}
