//! Runs the fuzz targets of this crate over their committed inputs, without a fuzzer (see `fuzz/README.md`).

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

use std::sync::atomic::{AtomicUsize, Ordering};

use rprof_testing::replay_fuzz_corpus;

use crate::{chains, judge};

#[test]
fn elf_symbols_over_its_corpus() {
    replay_fuzz_corpus("elf_symbols", elf_symbols::run);
}

#[test]
fn debug_info_over_its_corpus() {
    replay_fuzz_corpus("debug_info", debug_info::run);
}

#[test]
fn debug_info_oracle_over_the_corpus_of_debug_info() {
    static SAME: AtomicUsize = AtomicUsize::new(0);
    replay_fuzz_corpus("debug_info", |data| {
        let same = debug_info_oracle::compare(data).unwrap_or(0);
        SAME.fetch_add(same, Ordering::Relaxed);
    });
    let same = SAME.load(Ordering::Relaxed);
    assert!(same > 100, "{same} addresses compared");
}

#[test]
fn kallsyms_over_its_corpus() {
    replay_fuzz_corpus("kallsyms", kallsyms::run);
}

#[test]
fn demangle_over_its_corpus() {
    replay_fuzz_corpus("demangle", demangle::run);
}
