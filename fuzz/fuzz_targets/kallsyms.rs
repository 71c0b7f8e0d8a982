//! Runs `targets/kallsyms.rs` under libFuzzer.
#![no_main]

#[path = "../targets/kallsyms.rs"]
mod kallsyms;

libfuzzer_sys::fuzz_target!(|data: &[u8]| kallsyms::run(data));
