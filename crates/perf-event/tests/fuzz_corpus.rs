//! Replays the inputs of this crate's fuzz target, without a fuzzer: see `fuzz/README.md`.

#[path = "../../../fuzz/targets/perf_event.rs"]
mod perf_event;
#[path = "../../../fuzz/targets/replay.rs"]
mod replay;

#[test]
fn perf_event_over_its_corpus() {
    replay::replay("perf_event", perf_event::run);
}
