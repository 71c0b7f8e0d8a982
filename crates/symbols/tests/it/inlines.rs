//! Inlined calls and lines compared with llvm-symbolizer and eu-addr2line: all frames by name,
//! file, line and column, at random addresses of programs with many build options.

use crate::debug_files::debug_path;
use crate::others::{Agreement, Places};
use crate::tools::{Scratch, have, run};
use std::path::{Path, PathBuf};
use std::process::Command;

const TOOLS: &[&str] = &["gcc", "g++", "objcopy", "llvm-symbolizer", "eu-addr2line"];

/// Looks up random addresses of `path`, and in the other tools of `reference`. Where those agree,
/// this crate must agree too. Returns the number of such addresses.
fn check(path: &Path, reference: &Path, dir: Option<&Path>) -> usize {
    let places = Places {
        dir: dir.map(Path::to_path_buf),
        reference: Some(reference.to_path_buf()),
    };
    let sum = Agreement::of(path, &places, 400, 11);
    let name = path.file_name().unwrap().display();
    eprintln!(
        "{name}: {} addresses, {} as llvm, {} as elfutils, {} of {} as both",
        sum.all, sum.with_llvm, sum.with_elfutils, sum.with_both, sum.both
    );
    assert_eq!(
        sum.with_both,
        sum.both,
        "{name}: {:#?}\n{}",
        sum.classes,
        sum.examples.join("\n")
    );
    // elfutils is occasionally wrong (it treats overlapping calls as nested); llvm rarely.
    assert!(
        sum.with_llvm * 100 >= sum.all * 99,
        "{name}: {:#?}",
        sum.classes
    );
    sum.both
}

fn build(scratch: &Scratch, compiler: &str, name: &str, options: &[&str]) -> PathBuf {
    let mut all = vec!["-O2", "-g", "-Wl,--build-id"];
    all.extend(options);
    let source = if compiler == "gcc" {
        "program.c"
    } else {
        "program.cpp"
    };
    scratch.compile(compiler, source, name, &all)
}

fn objcopy(arguments: &[&str], from: &Path, to: &Path) {
    run(
        Command::new("objcopy").args(arguments).arg(from).arg(to),
        "",
    );
}

#[test]
fn versions_and_compilers() {
    if !have(TOOLS) {
        return;
    }
    let scratch = Scratch::new();
    let mut both = 0;
    for version in ["2", "3", "4", "5"] {
        let option = format!("-gdwarf-{version}");
        for compiler in ["gcc", "g++"] {
            let name = format!("{compiler}-{version}");
            let path = build(&scratch, compiler, &name, &[&option]);
            both += check(&path, &path, None);
        }
    }
    let lto = build(&scratch, "g++", "lto", &["-flto"]);
    both += check(&lto, &lto, None);
    let wide = build(&scratch, "g++", "dwarf64", &["-gdwarf64"]);
    both += check(&wide, &wide, None);
    assert!(both > 1000, "{both}");
}

#[test]
fn rust() {
    if !have(TOOLS) || !have(&["rustc"]) {
        return;
    }
    let scratch = Scratch::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/program.rs");
    for (name, options) in [
        ("legacy", &["-Csymbol-mangling-version=legacy"][..]),
        (
            "v0-lto",
            &[
                "-Csymbol-mangling-version=v0",
                "-Clto=fat",
                "-Ccodegen-units=1",
            ],
        ),
    ] {
        // The scheme was unstable on old compilers.
        let common = ["--edition=2024", "-O", "-g", "-Zunstable-options"];
        let options = [&common, options].concat();
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let program = rprof_testing::compile(folder, "rustc", &source, &options);
        let path = scratch.path().join(name);
        std::fs::copy(program, &path).unwrap();
        check(&path, &path, None);
    }
}

#[test]
fn compressed_sections() {
    if !have(TOOLS) {
        return;
    }
    let scratch = Scratch::new();
    let path = build(&scratch, "g++", "plain", &[]);
    for form in ["zlib", "zlib-gnu", "zstd"] {
        let to = scratch.path().join(form);
        objcopy(&[&format!("--compress-debug-sections={form}")], &path, &to);
        check(&to, &path, None);
    }
}

#[test]
fn debug_files_by_every_way() {
    if !have(TOOLS) {
        return;
    }
    let scratch = Scratch::new();
    let path = build(&scratch, "g++", "whole", &[]);
    let nowhere = scratch.path().join("nowhere");
    let dir = scratch.path().join("debug");
    let hex = run(Command::new("readelf").arg("-n").arg(&path), "");
    let hex = hex
        .split("Build ID: ")
        .nth(1)
        .unwrap()
        .lines()
        .next()
        .unwrap()
        .trim();
    let build_id = rprof_symbols::BuildId::from_hex(hex).unwrap();
    objcopy(&["--only-keep-debug"], &path, &debug_path(&dir, &build_id));
    let stripped = scratch.path().join("by-build-id");
    objcopy(&["--strip-all"], &path, &stripped);
    check(&stripped, &path, Some(&dir));

    // By the name in .gnu_debuglink. Without a build-id the CRC decides.
    for has_id in [true, false] {
        let without = ["--remove-section=.note.gnu.build-id"];
        let remove = if has_id { &[][..] } else { &without };
        for place in ["linked", ".debug/linked", "global"] {
            let folder = scratch
                .path()
                .join(format!("{}-{has_id}", place.replace('/', "-")));
            let global = scratch.path().join("global-debug");
            let debug = match place {
                "global" => global
                    .join(folder.strip_prefix("/").unwrap())
                    .join("linked.debug"),
                _ => folder.join(place).with_extension("debug"),
            };
            std::fs::create_dir_all(debug.parent().unwrap()).unwrap();
            std::fs::create_dir_all(&folder).unwrap();
            objcopy(&[&["--only-keep-debug"], remove].concat(), &path, &debug);
            let image = folder.join("linked");
            let link = format!("--add-gnu-debuglink={}", debug.display());
            objcopy(&[&["--strip-all", &link], remove].concat(), &path, &image);
            let dir = if place == "global" { &global } else { &nowhere };
            check(&image, &path, Some(dir));
            if !has_id {
                let mut bytes = std::fs::read(&debug).unwrap();
                bytes.push(0);
                std::fs::write(&debug, bytes).unwrap();
                let found = crate::others::ours(
                    &image,
                    &Places {
                        dir: Some(dir.clone()),
                        reference: None,
                    },
                    &crate::others::addresses(&path, 50, 1),
                );
                assert!(
                    found.iter().flatten().all(|frame| frame.line == 0),
                    "wrong CRC: {found:?}"
                );
            }
        }
    }
}

#[test]
fn split_units() {
    if !have(TOOLS) {
        return;
    }
    let scratch = Scratch::new();
    for version in ["4", "5"] {
        let dwarf = format!("-gdwarf-{version}");
        // In two steps: the compiler's folder contains the .dwo file.
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/program.cpp");
        let make = |name: &str, split: &[&str]| {
            let folder = scratch.path().join(format!("{name}-{version}"));
            std::fs::create_dir_all(&folder).unwrap();
            let mut command = Command::new("g++");
            command
                .current_dir(&folder)
                .args(["-O2", "-g", &dwarf])
                .args(split);
            run(command.arg("-c").arg(&source), "");
            let mut command = Command::new("g++");
            run(
                command.current_dir(&folder).args(["program.o", "-o", name]),
                "",
            );
            folder.join(name)
        };
        let whole = make("whole", &[]);
        let split = make("split", &["-gsplit-dwarf"]);
        check(&split, &whole, None);
        if version == "4" && have(&["dwp"]) {
            let package = split.with_extension("dwp");
            let mut command = Command::new("dwp");
            command
                .current_dir(split.parent().unwrap())
                .arg("-e")
                .arg(&split);
            run(command.arg("-o").arg(&package), "");
            std::fs::remove_file(split.with_file_name("program.dwo")).unwrap();
            check(&split, &whole, None);
        }
        if version == "5" {
            let other = scratch.path().join("split-4/program.dwo");
            let own = split.with_file_name("program.dwo");
            if other.exists() {
                std::fs::copy(&other, &own).unwrap();
            } else {
                std::fs::remove_file(&own).unwrap();
            }
            let addresses = crate::others::addresses(&split, 100, 1);
            let found = crate::others::ours(&split, &Places::default(), &addresses);
            assert!(found.iter().all(|chain| chain.len() <= 1), "not its own");
        }
    }
}

#[test]
fn shared_by_dwz() {
    if !have(TOOLS) || !have(&["dwz"]) {
        return;
    }
    let scratch = Scratch::new();
    let path = build(&scratch, "g++", "alone", &["-gdwarf-4"]);
    let alone = scratch.path().join("alone-dwz");
    std::fs::copy(&path, &alone).unwrap();
    run(Command::new("dwz").arg(&alone), "");
    check(&alone, &path, None);
    let (a, b) = (scratch.path().join("a"), scratch.path().join("b"));
    let other = build(&scratch, "g++", "other", &["-gdwarf-4", "-O1"]);
    std::fs::copy(&path, &a).unwrap();
    std::fs::copy(&other, &b).unwrap();
    let mut command = Command::new("dwz");
    command
        .current_dir(scratch.path())
        .args(["-m", "common.debug", "-r", "a", "b"]);
    run(&mut command, "");
    assert!(scratch.path().join("common.debug").exists());
    check(&a, &path, None);
    check(&b, &other, None);
}

#[test]
fn shared_by_the_standard() {
    if !have(TOOLS) || !have(&["dwz", "readelf"]) {
        return;
    }
    let scratch = Scratch::new();
    let one = build(&scratch, "g++", "one", &["-gdwarf-5"]);
    let two = build(&scratch, "g++", "two", &["-gdwarf-5", "-O1"]);
    for (from, to) in [(&one, "a"), (&two, "b")] {
        std::fs::copy(from, scratch.path().join(to)).unwrap();
    }
    let mut command = Command::new("dwz");
    command.current_dir(scratch.path());
    run(
        command.args(["-5", "-m", "common.debug", "-r", "a", "b"]),
        "",
    );
    for (name, whole) in [("a", &one), ("b", &two)] {
        let path = scratch.path().join(name);
        let sections = run(Command::new("readelf").arg("-SW").arg(&path), "");
        assert!(sections.contains(".debug_sup"), "{sections}");
        check(&path, whole, None);
    }
    // No other file replaces the supplementary one, and its absence yields no wrong names.
    let a = scratch.path().join("a");
    let addresses = crate::others::addresses(&one, 300, 5);
    let whole = crate::others::ours(&a, &Places::default(), &addresses);
    std::fs::copy(&two, scratch.path().join("common.debug")).unwrap();
    let without = crate::others::ours(&a, &Places::default(), &addresses);
    assert!(whole != without, "nothing was moved out");
    for (whole, without) in whole.iter().zip(&without) {
        for frame in without
            .iter()
            .filter(|frame| !frame.name.is_empty() && frame.name != "??")
        {
            assert!(
                whole.iter().any(|known| known.name == frame.name),
                "{frame}"
            );
        }
    }
}

#[test]
fn mini_debug_information() {
    if !have(TOOLS) || !have(&["xz"]) {
        return;
    }
    let scratch = Scratch::new();
    let path = build(&scratch, "g++", "whole", &[]);
    let table = scratch.path().join("table");
    objcopy(&["--only-keep-debug"], &path, &scratch.path().join("debug"));
    objcopy(&["--strip-debug"], &scratch.path().join("debug"), &table);
    run(Command::new("xz").arg(&table), "");
    let image = scratch.path().join("image");
    let add = format!("--add-section=.gnu_debugdata={}.xz", table.display());
    objcopy(&["--strip-all", &add], &path, &image);
    let addresses = crate::others::addresses(&path, 300, 5);
    let nowhere = Places {
        dir: Some("/nowhere".into()),
        reference: None,
    };
    let whole = crate::others::ours(&path, &nowhere, &addresses);
    let mini = crate::others::ours(&image, &nowhere, &addresses);
    let mut named = 0;
    for (whole, mini) in whole.iter().zip(&mini) {
        let outermost =
            |chain: &[crate::chains::Frame]| chain.last().map(|frame| frame.name.clone());
        assert_eq!(outermost(whole), outermost(mini));
        assert!(mini.len() <= 1);
        named += mini.len();
    }
    assert!(named > 200, "{named}");
}
