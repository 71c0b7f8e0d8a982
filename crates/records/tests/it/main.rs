//! Synthetic records, and records found by a fuzzer: the fuzz target runs over its committed inputs
//! without a fuzzer (see `fuzz/README.md`).

#[path = "../../../../fuzz/targets/record_decode.rs"]
mod record_decode;
mod round_trip;

use rprof_testing::replay_fuzz_corpus;

#[test]
fn record_decode_over_its_corpus() {
    replay_fuzz_corpus("record_decode", record_decode::run);
}
