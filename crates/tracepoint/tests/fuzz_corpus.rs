//! Replays the inputs of this crate's fuzz targets, without a fuzzer: see `fuzz/README.md`.

#[path = "../../../fuzz/targets/replay.rs"]
mod replay;
#[path = "../../../fuzz/targets/tracepoint.rs"]
mod tracepoint;

#[test]
fn tracepoint_over_its_corpus() {
    replay::replay("tracepoint", tracepoint::run);
}
