//! Runs `targets/process_map.rs` under libFuzzer.
#![no_main]

#[path = "../targets/process_map.rs"]
mod process_map;

libfuzzer_sys::fuzz_target!(|data: &[u8]| process_map::run(data));
