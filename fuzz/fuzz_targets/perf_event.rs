//! Runs `targets/perf_event.rs` under libFuzzer.
#![no_main]

#[path = "../targets/perf_event.rs"]
mod perf_event;

libfuzzer_sys::fuzz_target!(|data: &[u8]| perf_event::run(data));
