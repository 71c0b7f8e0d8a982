//! Stripped images with separate debug files.

use crate::tools::{Scratch, compiled_files, have, run};
use rprof_symbols::{BuildId, ElfSymbols, ImageKey, Reason, Style, Symbolizer};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the path for the debug file of this build-id in a debug folder. Creates the folder.
pub(crate) fn debug_path(dir: &Path, build_id: &BuildId) -> PathBuf {
    let hex = build_id.to_string();
    let folder = dir.join(".build-id").join(&hex[..2]);
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(format!("{}.debug", &hex[2..]))
}

/// Splits `path` into a stripped image and its debug file below `dir`. `None` without a build-id.
pub(crate) fn split(path: &Path, stripped: &Path, dir: &Path) -> Option<PathBuf> {
    let symbols = ElfSymbols::parse(std::fs::read(path).unwrap()).unwrap();
    let debug = debug_path(dir, symbols.build_id()?);
    let objcopy = |option: &str, output: &Path| {
        run(
            Command::new("objcopy").arg(option).arg(path).arg(output),
            "",
        );
    };
    objcopy("--only-keep-debug", &debug);
    objcopy("--strip-all", stripped);
    Some(debug)
}

/// Creates a symbolizer that uses only the debug files in this folder. Names do not depend on the
/// other functions of the image.
pub(crate) fn symbolizer(dir: &Path) -> Symbolizer {
    Symbolizer::builder()
        .debug_dirs(vec![dir.to_owned()])
        .perf_cache(None)
        .tells_apart(false)
        .build()
}

/// Returns loaded offsets throughout the file.
fn offsets(symbols: &ElfSymbols<Vec<u8>>, len: u64) -> Vec<u64> {
    (0..len)
        .step_by(3)
        .filter(|&offset| symbols.file_offset_to_svma(offset).is_some())
        .collect()
}

#[test]
fn a_split_image_has_the_names_of_the_whole() {
    if !have(&["gcc", "g++", "objcopy"]) {
        return;
    }
    let scratch = Scratch::new();
    let dir = scratch.path().join("debug");
    let (mut files, mut named) = (0, 0);
    for path in compiled_files(&scratch) {
        let stripped = path.with_extension("stripped");
        if split(&path, &stripped, &dir).is_none() {
            continue;
        }
        files += 1;
        let whole = ElfSymbols::parse(std::fs::read(&path).unwrap()).unwrap();
        let len = std::fs::metadata(&stripped).unwrap().len();
        let offsets = offsets(&whole, len);
        let results = symbolizer(&dir).resolve_image(&ImageKey::file(&stripped), &offsets);
        for (&offset, result) in offsets.iter().zip(results) {
            let ours = result.as_ref().ok().map(|frames| {
                let symbol = frames.symbol();
                (symbol.name.to_string(), symbol.start, symbol.size)
            });
            let expected = whole.lookup_offset(offset).map(|symbol| {
                let name = symbol.name(Style::NoParameters).into_owned();
                (name, symbol.start(), symbol.size())
            });
            assert_eq!(ours, expected, "{} {offset:#x}", path.display());
            named += u32::from(ours.is_some());
            if let Err(reason) = result {
                assert_ne!(reason, Reason::Stripped);
            }
        }
    }
    assert!(files > 0 && named > 0, "{files} files, {named} names");
    eprintln!("split: {files} files, {named} offsets have the name of the whole file");
}

#[test]
fn only_the_right_file_counts() {
    if !have(&["gcc", "objcopy"]) {
        return;
    }
    let scratch = Scratch::new();
    let options = ["-O2", "-g0", "-Wl,--build-id"];
    let path = scratch.compile("gcc", "program.c", "whole", &options);
    let other = ["-O1", "-Wl,--build-id=0x0102030405060708"];
    let other = scratch.compile("gcc", "program.c", "other", &other);
    let stripped = scratch.path().join("stripped");
    let dir = scratch.path().join("debug");
    let debug = split(&path, &stripped, &dir).unwrap();

    let whole = ElfSymbols::parse(std::fs::read(&path).unwrap()).unwrap();
    let exported = |name: &[u8]| whole.iter().find(|symbol| symbol.raw() == name);
    let main = exported(b"main").unwrap().start();
    let len = std::fs::metadata(&stripped).unwrap().len();
    let offset = (0..len).find(|&at| whole.file_offset_to_svma(at) == Some(main));
    let ask = || {
        let image = ImageKey::file(&stripped);
        symbolizer(&dir).resolve_image(&image, &[offset.unwrap()])[0].clone()
    };
    assert_eq!(&*ask().unwrap().symbol().name, "main");

    let good = std::fs::read(&debug).unwrap();
    let another = std::fs::read(other).unwrap();
    let stripped_bytes = std::fs::read(&stripped).unwrap();
    for bad in [
        &another[..],
        &good[..100],
        b"#!/bin/sh",
        b"",
        &stripped_bytes,
    ] {
        std::fs::write(&debug, bad).unwrap();
        assert_eq!(ask(), Err(Reason::Stripped), "{} bytes", bad.len());
    }
    std::fs::remove_file(&debug).unwrap();
    assert_eq!(ask(), Err(Reason::Stripped), "none");
    std::fs::create_dir(&debug).unwrap();
    assert_eq!(ask(), Err(Reason::Stripped), "a folder");
    std::fs::remove_dir(&debug).unwrap();
    if have(&["mkfifo"]) {
        run(Command::new("mkfifo").arg(&debug), "");
        assert_eq!(ask(), Err(Reason::Stripped), "a FIFO");
        std::fs::remove_file(&debug).unwrap();
    }
    let elsewhere = scratch.path().join("elsewhere");
    std::fs::write(&elsewhere, &good).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &debug).unwrap();
    assert!(ask().is_ok());
}

#[test]
fn the_cache_of_perf() {
    if !have(&["gcc"]) {
        return;
    }
    let scratch = Scratch::new();
    let options = ["-O2", "-Wl,--build-id"];
    let path = scratch.compile("gcc", "program.c", "whole", &options);
    let whole = ElfSymbols::parse(std::fs::read(&path).unwrap()).unwrap();
    let build_id = *whole.build_id().unwrap();
    let hex = build_id.to_string();
    let cache = scratch.path().join("cache");
    let folder = cache.join(".build-id").join(&hex[..2]).join(&hex[2..]);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::rename(&path, folder.join("elf")).unwrap();

    let ask = |image: ImageKey, cache: Option<PathBuf>| {
        let symbolizer = Symbolizer::builder().perf_cache(cache).build();
        symbolizer.resolve_image(&image, &[u64::MAX])[0].clone()
    };
    let gone = ImageKey::file(&path);
    let known = gone.clone().with_build_id(Some(build_id));
    assert_eq!(ask(known.clone(), None), Err(Reason::NoSuchFile));
    assert_eq!(ask(gone, Some(cache.clone())), Err(Reason::NoSuchFile));
    assert_eq!(ask(known, Some(cache)), Err(Reason::OutsideImage), "found");
}
