//! Runs `targets/pipe_reader.rs` under libFuzzer.
#![no_main]

#[path = "../targets/file_reader.rs"]
mod file_reader;
#[path = "../targets/pipe_reader.rs"]
mod pipe_reader;
#[path = "../targets/readers.rs"]
mod readers;

libfuzzer_sys::fuzz_target!(|data: &[u8]| pipe_reader::run(data));
