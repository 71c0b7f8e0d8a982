//! Runs `targets/elf_symbols.rs` under libFuzzer.
#![no_main]

#[path = "../targets/elf_symbols.rs"]
mod elf_symbols;

libfuzzer_sys::fuzz_target!(|data: &[u8]| elf_symbols::run(data));
