//! Runs `targets/perf_map.rs` under libFuzzer.
#![no_main]

#[path = "../targets/perf_map.rs"]
mod perf_map;

libfuzzer_sys::fuzz_target!(|data: &[u8]| perf_map::run(data));
