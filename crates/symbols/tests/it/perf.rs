//! Compares names with `perf script`, for synthetic samples.
//!
//! Known errors of `perf` 6.1 (see the `elf` module) are classified, and accepted only under their
//! exact conditions.

use crate::perf_tool::{BASE, Ours, ask_perf, excuse, perf_data, text_range};
use crate::tools::{Scratch, compiled_files, have, system_files};
use rprof_symbols::{ElfSymbols, KernelSymbols};
use rprof_testing::Random;
use std::collections::BTreeMap;

#[test]
fn names_of_files() {
    if !have(&["perf"]) {
        return;
    }
    let scratch = Scratch::new();
    let mut random = Random::new(7);
    let mut total = 0;
    let mut excuses: BTreeMap<&str, u32> = BTreeMap::new();
    let mut wrong = Vec::new();
    for path in compiled_files(&scratch).into_iter().chain(system_files()) {
        let bytes = std::fs::read(&path).unwrap();
        let len = bytes.len() as u64;
        let text = text_range(&bytes);
        let symbols = ElfSymbols::parse(bytes).unwrap();
        let mut offsets: Vec<u64> = (0..3000).map(|_| random.below(len)).collect();
        let starts: Vec<u64> = symbols.iter().map(|symbol| symbol.start()).collect();
        // Only code: data is never sampled, and .bss has no offset.
        let to_offset = |svma: u64| {
            (0..len).step_by(4096).find_map(|page| {
                let at = symbols.file_offset_to_svma(page)?;
                (at & !4095 == svma & !4095).then(|| page + (svma & 4095) - (at & 4095))
            })
        };
        for _ in 0..1000 {
            let svma = starts[random.below(starts.len() as u64) as usize];
            offsets.extend(to_offset(svma + random.below(3)).filter(|&offset| offset < len));
        }
        offsets.retain(|&offset| symbols.file_offset_to_svma(offset).is_some());
        let copy = scratch.path().join("image");
        std::fs::copy(&path, &copy).unwrap();
        let ips: Vec<u64> = offsets.iter().map(|offset| BASE + offset).collect();
        let answers = ask_perf(
            scratch.path(),
            &perf_data("/image", len, &ips),
            Some(scratch.path()),
        );
        assert_eq!(answers.len(), offsets.len());
        let wrong_before = wrong.len();
        for (&offset, theirs) in offsets.iter().zip(&answers) {
            total += 1;
            let svma = symbols.file_offset_to_svma(offset).unwrap();
            let ours = symbols.lookup_svma(svma);
            let ours = ours.map(|symbol| Ours::new(&symbol, svma));
            let theirs = theirs.as_ref();
            if ours
                .as_ref()
                .map_or(theirs.is_none(), |ours| ours.is(theirs))
            {
                continue;
            }
            let name = theirs.map(|(name, _)| &**name);
            if let Some(excuse) = excuse(&symbols, ours.as_ref(), name, svma, &text) {
                *excuses.entry(excuse).or_default() += 1;
            } else {
                wrong.push(format!(
                    "{} {offset:#x}: {ours:x?}, perf {theirs:x?}",
                    path.display()
                ));
            }
        }
        let named = answers.iter().flatten().count();
        eprintln!(
            "perf: {}: {named} named, {} unlike",
            path.display(),
            wrong.len() - wrong_before
        );
    }
    eprintln!(
        "perf: {total} addresses, known differences {excuses:?}, {} others",
        wrong.len()
    );
    for line in wrong.iter().step_by(1 + wrong.len() / 60) {
        eprintln!("{line}");
    }
    assert!(wrong.len() * 1000 <= total, "{} of {total}", wrong.len());
}

#[test]
fn names_in_the_kernel() {
    let Ok(symbols) = KernelSymbols::load_running() else {
        return rprof_testing::skip("needs /proc/kallsyms with addresses (kernel.kptr_restrict)");
    };
    if !have(&["perf"]) {
        return;
    }
    let scratch = Scratch::new();
    let text = symbols.text_range().unwrap();
    let mut random = Random::new(9);
    let mut ips: Vec<u64> = (0..5000)
        .map(|_| text.start + random.below(text.end - text.start))
        .collect();
    ips.extend(
        symbols
            .iter()
            .map(|symbol| symbol.start)
            .filter(|start| text.contains(start))
            .step_by(11),
    );
    let answers = ask_perf(
        scratch.path(),
        &perf_data("[kernel.kallsyms]_text", text.start, &ips),
        None,
    );
    let differ: Vec<_> = ips
        .iter()
        .zip(&answers)
        .map(|(&ip, theirs)| {
            (
                ip,
                symbols
                    .lookup(ip)
                    .map(|found| (found.name.to_owned(), ip - found.start)),
                theirs,
            )
        })
        .filter(|(_, ours, theirs)| ours != *theirs)
        .collect();
    eprintln!(
        "perf: {} kernel addresses, {} differ",
        ips.len(),
        differ.len()
    );
    assert!(differ.is_empty(), "{:#x?}", &differ[..differ.len().min(10)]);
}
