//! Records made up, and those that a fuzzer found.

mod fuzz_corpus;
mod round_trip;
