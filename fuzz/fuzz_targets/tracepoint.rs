//! Runs `targets/tracepoint.rs` under libFuzzer.
#![no_main]

#[path = "../targets/tracepoint.rs"]
mod tracepoint;

libfuzzer_sys::fuzz_target!(|data: &[u8]| tracepoint::run(data));
