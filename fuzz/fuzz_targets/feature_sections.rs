//! Runs `targets/feature_sections.rs` under libFuzzer.
#![no_main]

#[path = "../targets/feature_sections.rs"]
mod feature_sections;
#[path = "../targets/readers.rs"]
mod readers;

libfuzzer_sys::fuzz_target!(|data: &[u8]| feature_sections::run(data));
