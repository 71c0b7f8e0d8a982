//! Runs `targets/record_decode.rs` under libFuzzer.
#![no_main]

#[path = "../targets/record_decode.rs"]
mod record_decode;

libfuzzer_sys::fuzz_target!(|data: &[u8]| record_decode::run(data));
