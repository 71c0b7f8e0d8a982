//! Runs `targets/unwind.rs` under libFuzzer.
#![no_main]

#[path = "../targets/unwind.rs"]
mod unwind;

libfuzzer_sys::fuzz_target!(|data: &[u8]| unwind::run(data));
