//! Runs `targets/analyse.rs` under libFuzzer.
#![no_main]

#[path = "../targets/analyse.rs"]
mod analyse;

libfuzzer_sys::fuzz_target!(|data: &[u8]| analyse::run(data));
