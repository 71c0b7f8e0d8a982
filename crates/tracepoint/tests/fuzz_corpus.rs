//! Runs the fuzz targets of this crate over their committed inputs, without a fuzzer (see `fuzz/README.md`).

#[path = "../../../fuzz/targets/tracepoint.rs"]
mod tracepoint;

use rprof_testing::replay_fuzz_corpus;

#[test]
fn tracepoint_over_its_corpus() {
    replay_fuzz_corpus("tracepoint", tracepoint::run);
}
