//! Runs the fuzz targets of this crate over their committed inputs, without a fuzzer (see `fuzz/README.md`).

#[path = "../../../../fuzz/targets/process_map.rs"]
mod process_map;

use rprof_testing::replay_fuzz_corpus;

#[test]
fn process_map_over_its_corpus() {
    replay_fuzz_corpus("process_map", process_map::run);
}
