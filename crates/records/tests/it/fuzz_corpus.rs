//! Runs the fuzz targets of this crate over their committed inputs, without a fuzzer (see `fuzz/README.md`).

#[path = "../../../../fuzz/targets/record_decode.rs"]
mod record_decode;

use rprof_testing::replay_fuzz_corpus;

#[test]
fn record_decode_over_its_corpus() {
    replay_fuzz_corpus("record_decode", record_decode::run);
}
