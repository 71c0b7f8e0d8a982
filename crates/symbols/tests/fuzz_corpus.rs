//! The fuzz targets of this crate over the inputs that were found, without a fuzzer: see
//! `fuzz/README.md`.

#[path = "../../../fuzz/targets/debug_info.rs"]
mod debug_info;
#[path = "../../../fuzz/targets/demangle.rs"]
mod demangle;
#[path = "../../../fuzz/targets/elf_symbols.rs"]
mod elf_symbols;
#[path = "../../../fuzz/targets/kallsyms.rs"]
mod kallsyms;
#[path = "../../../fuzz/targets/replay.rs"]
mod replay;

#[test]
fn elf_symbols_over_its_corpus() {
    replay::replay("elf_symbols", elf_symbols::run);
}

#[test]
fn debug_info_over_its_corpus() {
    replay::replay("debug_info", debug_info::run);
}

#[test]
fn kallsyms_over_its_corpus() {
    replay::replay("kallsyms", kallsyms::run);
}

#[test]
fn demangle_over_its_corpus() {
    replay::replay("demangle", demangle::run);
}
