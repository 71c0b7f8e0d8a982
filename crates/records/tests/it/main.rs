//! Synthetic records, and records found by a fuzzer.

mod fuzz_corpus;
mod round_trip;
