//! Disk cache of results from debug information.

use crate::tools::{Scratch, have};
use rprof_output::PrivateCache;
use rprof_symbols::{ElfSymbols, ImageKey, Lookup, MemoryLimits, Symbolizer, SymbolizerBuilder};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A program with much debug information, addresses of it, and a private cache.
struct Kept {
    scratch: Scratch,
    program: PathBuf,
    offsets: Vec<u64>,
}

impl Kept {
    fn new(options: &[&str]) -> Self {
        let scratch = Scratch::new();
        let all = [&["-O2", "-g", "-Wl,--build-id"], options].concat();
        let program = scratch.compile("g++", "program.cpp", "kept", &all);
        let symbols = ElfSymbols::parse(fs::read(&program).unwrap()).unwrap();
        let len = fs::metadata(&program).unwrap().len();
        let is_loaded = |offset: &u64| symbols.file_offset_to_svma(*offset).is_some();
        let kept = Self {
            scratch,
            program,
            offsets: (0..len).step_by(7).filter(is_loaded).collect(),
        };
        kept.settle();
        kept
    }

    /// Waits until the next change of the program will change its version.
    fn settle(&self) {
        let metadata = fs::metadata(&self.program).unwrap();
        let changed = Duration::from_secs(metadata.ctime().unsigned_abs());
        let until = SystemTime::UNIX_EPOCH + changed + Duration::from_millis(3100);
        if let Ok(left) = until.duration_since(SystemTime::now()) {
            std::thread::sleep(left);
        }
    }

    fn builder(&self) -> SymbolizerBuilder {
        let base = self.scratch.path().as_os_str().to_owned();
        let get = |name| (name == "XDG_CACHE_HOME").then(|| base.clone());
        Symbolizer::builder().answer_cache(PrivateCache::from_variables(get))
    }

    fn resolve(&self, symbolizer: &Symbolizer, offsets: &[u64]) -> Vec<Lookup> {
        symbolizer.resolve_image(&ImageKey::file(&self.program), offsets)
    }

    fn again(&self, offsets: &[u64]) -> Vec<Lookup> {
        self.resolve(&self.builder().build(), offsets)
    }

    fn anew(&self, offsets: &[u64]) -> Vec<Lookup> {
        self.resolve(&Symbolizer::builder().build(), offsets)
    }

    fn files(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.scratch.path().join("rprof")) else {
            return Vec::new();
        };
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    fn file(&self) -> PathBuf {
        let files = self.files();
        assert_eq!(files.len(), 1, "{files:?}");
        files[0].clone()
    }
}

/// Replaces a name in a cache file, and updates the checksum.
fn rename(file: &Path, from: &[u8], to: &[u8]) {
    let mut bytes = fs::read(file).unwrap();
    let at = bytes.windows(from.len()).position(|window| window == from);
    let at = at.expect("the name is stored");
    bytes[at..at + from.len()].copy_from_slice(to);
    let crc = crc32fast::hash(&bytes[12..]);
    bytes[8..12].copy_from_slice(&crc.to_ne_bytes());
    fs::write(file, bytes).unwrap();
}

/// Returns the name of an inlined call, and another text of the same length.
fn inlined(lookups: &[Lookup]) -> (String, String) {
    let frames = lookups.iter().flatten();
    let names = frames.filter_map(|frames| Some(frames.iter().rfind(|frame| frame.inlined)?.raw));
    let name = names
        .max_by_key(|name| name.len())
        .expect("a call is inlined");
    (name.to_owned(), "x".repeat(name.len()))
}

fn has(lookups: &[Lookup], name: &str) -> bool {
    let mut frames = lookups.iter().flatten();
    frames.any(|frames| frames.iter().any(|frame| frame.raw == name))
}

#[test]
fn answers_are_kept_and_are_those_of_debug_information() {
    if !have(&["g++"]) {
        return;
    }
    for options in [&["-gz=zlib"][..], &["-gz=none", "-gdwarf-4"]] {
        let kept = Kept::new(options);
        let (all, half) = (&kept.offsets[..], &kept.offsets[kept.offsets.len() / 2..]);
        let expected = kept.anew(all);
        assert!(kept.files().is_empty());
        assert_eq!(kept.again(half), expected[all.len() - half.len()..]);
        let short = fs::metadata(kept.file()).unwrap().len();
        let mode = fs::metadata(kept.file()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(kept.again(all), expected);
        let long = fs::metadata(kept.file()).unwrap().len();
        assert!(short < long, "{short} {long}");
        assert_eq!(kept.again(all), expected);
        assert_eq!(kept.again(half), expected[all.len() - half.len()..]);
        let names = |lookups: Vec<Lookup>| {
            let names = |frames: &rprof_symbols::Frames| frames.names().map(Into::into).collect();
            let names = lookups.iter().map(|lookup| lookup.as_ref().map(names));
            names.map(Result::ok).collect::<Vec<Option<Vec<String>>>>()
        };
        let without = || kept.resolve(&kept.builder().lines(false).build(), all);
        assert!(
            without()
                .iter()
                .flatten()
                .all(|frames| frames.line().is_none())
        );
        assert_eq!(names(without()), names(expected));
        assert_eq!(kept.files().len(), 2);
    }
}

#[test]
fn kept_answers_are_used_until_the_file_changes() {
    if !have(&["g++"]) {
        return;
    }
    let kept = Kept::new(&["-gz=zlib"]);
    let expected = kept.again(&kept.offsets);
    let (name, other) = inlined(&expected);
    rename(&kept.file(), name.as_bytes(), other.as_bytes());
    assert!(has(&kept.again(&kept.offsets), &other), "it was not asked");
    // The contents are the same, but ctime has changed.
    fs::set_permissions(&kept.program, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(kept.again(&kept.offsets), expected);
    // A change within the timestamp resolution would go unnoticed, so nothing was stored.
    let stored = fs::read(kept.file()).unwrap();
    assert!(
        stored
            .windows(other.len())
            .any(|window| window == other.as_bytes())
    );
    kept.settle();
    assert_eq!(kept.again(&kept.offsets), expected);
    let stored = fs::read(kept.file()).unwrap();
    assert!(
        !stored
            .windows(other.len())
            .any(|window| window == other.as_bytes())
    );
}

#[test]
fn a_damaged_file_is_passed_over_and_replaced() {
    if !have(&["g++"]) {
        return;
    }
    let kept = Kept::new(&["-gz=zlib"]);
    let expected = kept.again(&kept.offsets);
    let whole = fs::read(kept.file()).unwrap();
    let middle = whole.len() / 2;
    let flipped = {
        let mut bytes = whole.clone();
        bytes[middle] ^= 4;
        bytes
    };
    let long = vec![0; 64 << 20];
    for damaged in [&flipped[..], &whole[..middle], b"", b"rprof", &long] {
        fs::write(kept.file(), damaged).unwrap();
        assert_eq!(kept.again(&kept.offsets), expected);
        assert_eq!(fs::read(kept.file()).unwrap(), whole);
    }
    fs::remove_file(kept.file()).unwrap();
    let folder = kept.scratch.path().join("rprof");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(kept.again(&kept.offsets), expected);
    assert!(kept.files().is_empty());
}

#[test]
fn answers_that_may_change_are_not_kept() {
    if !have(&["g++"]) {
        return;
    }
    let kept = Kept::new(&["-gsplit-dwarf", "-gz=none"]);
    assert_eq!(kept.again(&kept.offsets), kept.anew(&kept.offsets));
    assert!(kept.files().is_empty(), "parts of it are elsewhere");
    let kept = Kept::new(&["-gz=zlib"]);
    let little = kept.builder().memory(MemoryLimits::of_all(1000)).build();
    kept.resolve(&little, &kept.offsets);
    assert!(kept.files().is_empty(), "there was no memory");
}
