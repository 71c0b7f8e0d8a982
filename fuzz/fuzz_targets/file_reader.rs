//! Runs `targets/file_reader.rs` under libFuzzer.
#![no_main]

#[path = "../targets/file_reader.rs"]
mod file_reader;
#[path = "../targets/readers.rs"]
mod readers;

libfuzzer_sys::fuzz_target!(|data: &[u8]| file_reader::run(data));
