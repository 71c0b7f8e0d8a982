//! Runs the fuzz target of this crate over its committed inputs, without a fuzzer (see `fuzz/README.md`).

#[path = "../../../fuzz/targets/import.rs"]
mod import;

use rprof_testing::replay_fuzz_corpus;

#[test]
fn imports_over_their_corpus() {
    replay_fuzz_corpus("import", import::run);
}
