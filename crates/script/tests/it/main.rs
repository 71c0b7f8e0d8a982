//! Tests of the text output: against `perf script`, with synthetic samples, and with fuzzed input.

mod fields;
mod fuzz_corpus;
mod perf_script;
mod words;
