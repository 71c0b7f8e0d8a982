//! Runs `targets/debug_info_oracle.rs` under libFuzzer.
#![no_main]

#[path = "../../crates/symbols/tests/it/chains.rs"]
mod chains;
#[path = "../targets/debug_info_oracle.rs"]
mod debug_info_oracle;
#[path = "../../crates/symbols/tests/it/judge.rs"]
mod judge;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    debug_info_oracle::compare(data);
});
