//! The fuzz targets of this crate over the inputs that were found, without a fuzzer: see
//! `fuzz/README.md`.

#[path = "../../../fuzz/targets/replay.rs"]
mod replay;
#[path = "../../../fuzz/targets/tracepoint.rs"]
mod tracepoint;

#[test]
fn tracepoint_over_its_corpus() {
    replay::replay("tracepoint", tracepoint::run);
}
