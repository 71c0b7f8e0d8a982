//! Runs the crate's fuzz target on its committed inputs, without a fuzzer: see `fuzz/README.md`.

#[path = "../../../fuzz/targets/import.rs"]
mod import;
#[path = "../../../fuzz/targets/replay.rs"]
mod replay;

#[test]
fn imports_over_their_corpus() {
    replay::replay("import", import::run);
}
