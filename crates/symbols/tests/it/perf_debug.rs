//! Compares names of stripped images with separate debug files with `perf script`.

use crate::debug_files::{split, symbolizer};
use crate::perf_tool::{BASE, Ours, ask_perf, excuse, perf_data, text_range};
use crate::tools::{Scratch, compiled_files, have, system_files};
use object::Object;
use rprof_symbols::{ElfSymbol, ElfSymbols, ImageKey, Symbolizer};
use rprof_testing::Random;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Differences by kind, and a description of unexplained ones.
#[derive(Default)]
struct Tally {
    total: usize,
    named: usize,
    excuses: BTreeMap<&'static str, u32>,
    wrong: Vec<String>,
}

impl Tally {
    /// With `root`, `perf` uses the file at `path` below it.
    fn compare(
        &mut self,
        scratch: &Path,
        path: &Path,
        debug: &Path,
        root: Option<&Path>,
        symbolizer: &Symbolizer,
    ) {
        let bytes = std::fs::read(path).unwrap();
        let len = bytes.len() as u64;
        let text = text_range(&bytes);
        let image = ElfSymbols::parse(bytes).unwrap();
        let symbols = ElfSymbols::parse(std::fs::read(debug).unwrap()).unwrap();
        assert!(symbols.has_symtab() && !image.has_symtab());

        // At random; at the start of every symbol, where aliases compete; and in the PLT.
        let mut random = Random::new(17);
        let mut offsets: Vec<u64> = (0..5000).map(|_| random.below(len)).collect();
        let mut offset_of = BTreeMap::new();
        for page in (0..len).step_by(4096) {
            if let Some(svma) = image.file_offset_to_svma(page) {
                offset_of.insert(svma & !4095, page.wrapping_sub(svma & 4095));
            }
        }
        let plt = image.iter().filter(ElfSymbol::is_plt);
        for symbol in symbols.iter().chain(plt) {
            for svma in [symbol.start(), symbol.start() + random.below(symbol.size())] {
                let page = offset_of.get(&(svma & !4095));
                offsets.extend(page.map(|page| page.wrapping_add(svma & 4095)));
            }
        }
        offsets.retain(|&offset| offset < len && image.file_offset_to_svma(offset).is_some());

        let ips: Vec<u64> = offsets.iter().map(|offset| BASE + offset).collect();
        let data = perf_data(path.to_str().unwrap(), len, &ips);
        let answers = ask_perf(scratch, &data, root);
        assert_eq!(answers.len(), offsets.len());
        let lookups = symbolizer.resolve_image(&ImageKey::file(path), &offsets);
        let (named, wrong) = (self.named, self.wrong.len());
        for ((&offset, theirs), lookup) in offsets.iter().zip(&answers).zip(lookups) {
            self.total += 1;
            self.named += usize::from(theirs.is_some());
            let ours = lookup.ok().map(|frames| {
                let symbol = frames.symbol();
                Ours {
                    name: symbol.name.to_string(),
                    within: frames.offset(),
                    start: symbol.start,
                    end: symbol.start + symbol.size,
                    plt: symbol.raw.ends_with("@plt") || &*symbol.raw == ".plt",
                }
            });
            let theirs = theirs.as_ref();
            if ours
                .as_ref()
                .map_or(theirs.is_none(), |ours| ours.is(theirs))
            {
                continue;
            }
            let svma = image.file_offset_to_svma(offset).unwrap();
            let name = theirs.map(|(name, _)| &**name);
            match excuse(&symbols, ours.as_ref(), name, svma, &text) {
                Some(excuse) => *self.excuses.entry(excuse).or_default() += 1,
                None => self.wrong.push(format!(
                    "{} {offset:#x}: {ours:x?}, perf {theirs:x?}",
                    path.display()
                )),
            }
        }
        eprintln!(
            "perf: {}: {} addresses, {} named, {} unlike",
            path.display(),
            offsets.len(),
            self.named - named,
            self.wrong.len() - wrong
        );
    }

    fn report(&self) {
        eprintln!(
            "perf: {} addresses, {} named, known differences {:?}, {} others",
            self.total,
            self.named,
            self.excuses,
            self.wrong.len()
        );
        for line in self.wrong.iter().step_by(1 + self.wrong.len() / 60) {
            eprintln!("{line}");
        }
        assert!(self.wrong.len() * 1000 <= self.total);
    }
}

#[test]
fn installed_debug_files() {
    if !have(&["perf"]) {
        return;
    }
    let scratch = Scratch::new();
    let symbolizer = Symbolizer::builder()
        .perf_cache(None)
        .tells_apart(false)
        .build();
    let mut tally = Tally::default();
    for path in system_files() {
        // perf compares the names of mappings with file names.
        let path = path.canonicalize().unwrap();
        let image = ElfSymbols::parse(std::fs::read(&path).unwrap()).unwrap();
        let Some(hex) = image.build_id().map(ToString::to_string) else {
            continue;
        };
        let debug = format!("/usr/lib/debug/.build-id/{}/{}.debug", &hex[..2], &hex[2..]);
        let debug = PathBuf::from(debug);
        if !image.has_symtab() && debug.exists() {
            tally.compare(scratch.path(), &path, &debug, None, &symbolizer);
        }
    }
    if tally.total == 0 {
        rprof_testing::inapplicable("needs debug files of the system, such as libc6-dbg");
        return;
    }
    tally.report();
}

/// Programs compiled for the purpose and split, in a separate root.
#[test]
fn split_files() {
    if !have(&["perf", "objcopy"]) {
        return;
    }
    let scratch = Scratch::new();
    let root = scratch.path().join("root");
    let dir = root.join("usr/lib/debug");
    let mut tally = Tally::default();
    for path in compiled_files(&scratch) {
        // perf uses the program headers of the debug file here, and names wrong functions.
        let bytes = std::fs::read(&path).unwrap();
        if object::File::parse(&*bytes)
            .unwrap()
            .dynamic_symbols()
            .next()
            .is_none()
        {
            eprintln!("perf: {}: left out, no .dynsym", path.display());
            continue;
        }
        let stripped = path.with_extension("stripped");
        let Some(debug) = split(&path, &stripped, &dir) else {
            continue;
        };
        // perf reads the build-id from the file outside, and all else from the file inside.
        let inside = root.join(stripped.strip_prefix("/").unwrap());
        std::fs::create_dir_all(inside.parent().unwrap()).unwrap();
        std::fs::copy(&stripped, inside).unwrap();
        tally.compare(
            scratch.path(),
            &stripped,
            &debug,
            Some(&root),
            &symbolizer(&dir),
        );
    }
    tally.report();
}
