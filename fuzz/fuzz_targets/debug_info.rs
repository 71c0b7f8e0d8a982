//! Runs `targets/debug_info.rs` under libFuzzer.
#![no_main]

#[path = "../targets/debug_info.rs"]
mod debug_info;

libfuzzer_sys::fuzz_target!(|data: &[u8]| debug_info::run(data));
