//! Runs the fuzz targets of this crate over their committed inputs, without a fuzzer (see `fuzz/README.md`).

#[path = "../../../../fuzz/targets/analyse.rs"]
mod analyse;

use rprof_testing::replay_fuzz_corpus;

#[test]
fn analyse_over_its_corpus() {
    replay_fuzz_corpus("analyse", analyse::run);
}
