//! Runs this crate's fuzz targets on the stored inputs, without a fuzzer: see `fuzz/README.md`.

#[path = "../../../../fuzz/targets/replay.rs"]
mod replay;
#[path = "../../../../fuzz/targets/unwind.rs"]
mod unwind;

#[test]
fn unwind_over_its_corpus() {
    replay::replay("unwind", unwind::run);
}
