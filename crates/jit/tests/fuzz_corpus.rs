//! Runs the fuzz targets of this crate on their corpus, without a fuzzer: see `fuzz/README.md`.

#[path = "../../../fuzz/targets/jitdump.rs"]
mod jitdump;
#[path = "../../../fuzz/targets/perf_map.rs"]
mod perf_map;
#[path = "../../../fuzz/targets/replay.rs"]
mod replay;

#[test]
fn perf_map_over_its_corpus() {
    replay::replay("perf_map", perf_map::run);
}

#[test]
fn jitdump_over_its_corpus() {
    replay::replay("jitdump", jitdump::run);
}
