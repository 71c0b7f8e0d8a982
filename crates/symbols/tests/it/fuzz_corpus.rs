//! Runs the fuzz targets of this crate on their corpus, without a fuzzer: see `fuzz/README.md`.

#[path = "../../../../fuzz/targets/debug_info.rs"]
mod debug_info;
#[path = "../../../../fuzz/targets/debug_info_oracle.rs"]
mod debug_info_oracle;
#[path = "../../../../fuzz/targets/demangle.rs"]
mod demangle;
#[path = "../../../../fuzz/targets/elf_symbols.rs"]
mod elf_symbols;
#[path = "../../../../fuzz/targets/kallsyms.rs"]
mod kallsyms;
#[path = "../../../../fuzz/targets/replay.rs"]
mod replay;

use std::sync::atomic::{AtomicUsize, Ordering};

// Needed by `debug_info_oracle`.
use crate::{chains, judge};

#[test]
fn elf_symbols_over_its_corpus() {
    replay::replay("elf_symbols", elf_symbols::run);
}

#[test]
fn debug_info_over_its_corpus() {
    replay::replay("debug_info", debug_info::run);
}

/// The same inputs serve both targets.
#[test]
fn debug_info_oracle_over_the_corpus_of_debug_info() {
    static SAME: AtomicUsize = AtomicUsize::new(0);
    replay::replay("debug_info", |data| {
        let same = debug_info_oracle::compare(data).unwrap_or(0);
        SAME.fetch_add(same, Ordering::Relaxed);
    });
    let same = SAME.load(Ordering::Relaxed);
    assert!(same > 100, "{same} addresses compared");
}

#[test]
fn kallsyms_over_its_corpus() {
    replay::replay("kallsyms", kallsyms::run);
}

#[test]
fn demangle_over_its_corpus() {
    replay::replay("demangle", demangle::run);
}
