//! Runs the fuzz target of this crate over its committed inputs, without a fuzzer (see `fuzz/README.md`).

#[path = "../../../fuzz/targets/perf_event.rs"]
mod perf_event;

use rprof_testing::replay_fuzz_corpus;

#[test]
fn perf_event_over_its_corpus() {
    replay_fuzz_corpus("perf_event", perf_event::run);
}
