//! Replays the inputs of this crate's fuzz targets, without a fuzzer: see `fuzz/README.md`.

#[path = "../../../../fuzz/targets/record_decode.rs"]
mod record_decode;
#[path = "../../../../fuzz/targets/replay.rs"]
mod replay;

#[test]
fn record_decode_over_its_corpus() {
    replay::replay("record_decode", record_decode::run);
}
