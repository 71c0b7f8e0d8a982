//! Runs `targets/demangle.rs` under libFuzzer.
#![no_main]

#[path = "../targets/demangle.rs"]
mod demangle;

libfuzzer_sys::fuzz_target!(|data: &[u8]| demangle::run(data));
