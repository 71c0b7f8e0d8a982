//! Runs `targets/jitdump.rs` under libFuzzer.
#![no_main]

#[path = "../targets/jitdump.rs"]
mod jitdump;

libfuzzer_sys::fuzz_target!(|data: &[u8]| jitdump::run(data));
