//! The fuzz target of this crate over the inputs that were found, without a fuzzer: see
//! `fuzz/README.md`.

#[path = "../../../fuzz/targets/import.rs"]
mod import;
#[path = "../../../fuzz/targets/replay.rs"]
mod replay;

#[test]
fn imports_over_their_corpus() {
    replay::replay("import", import::run);
}
