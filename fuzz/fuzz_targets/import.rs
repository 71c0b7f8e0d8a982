//! Runs `targets/import.rs` under libFuzzer.
#![no_main]

#[path = "../targets/import.rs"]
mod import;

libfuzzer_sys::fuzz_target!(|data: &[u8]| import::run(data));
