//! Runs the fuzz targets of this crate over their committed inputs, without a fuzzer (see `fuzz/README.md`).

#[path = "../../../fuzz/targets/jitdump.rs"]
mod jitdump;
#[path = "../../../fuzz/targets/perf_map.rs"]
mod perf_map;

use rprof_testing::replay_fuzz_corpus;

#[test]
fn perf_map_over_its_corpus() {
    replay_fuzz_corpus("perf_map", perf_map::run);
}

#[test]
fn jitdump_over_its_corpus() {
    replay_fuzz_corpus("jitdump", jitdump::run);
}
