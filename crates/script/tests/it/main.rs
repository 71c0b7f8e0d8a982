//! The text of samples: beside `perf script`, of made-up samples, and of what a fuzzer found.

mod fields;
mod fuzz_corpus;
mod perf_script;
mod words;
