//! Replays the committed fuzz corpus of this crate without a fuzzer: see `fuzz/README.md`.

#[path = "../../../../fuzz/targets/process_map.rs"]
mod process_map;
#[path = "../../../../fuzz/targets/replay.rs"]
mod replay;

#[test]
fn process_map_over_its_corpus() {
    replay::replay("process_map", process_map::run);
}
