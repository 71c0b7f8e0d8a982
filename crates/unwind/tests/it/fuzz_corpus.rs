//! Runs the fuzz targets of this crate over their committed inputs, without a fuzzer (see `fuzz/README.md`).

#[path = "../../../../fuzz/targets/unwind.rs"]
mod unwind;

use rprof_testing::replay_fuzz_corpus;

#[test]
fn unwind_over_its_corpus() {
    replay_fuzz_corpus("unwind", unwind::run);
}
