//! Replays the inputs of this crate's fuzz targets, without a fuzzer: see `fuzz/README.md`.

#[path = "../../../../fuzz/targets/feature_sections.rs"]
mod feature_sections;
#[path = "../../../../fuzz/targets/file_reader.rs"]
mod file_reader;
#[path = "../../../../fuzz/targets/pipe_reader.rs"]
mod pipe_reader;
#[path = "../../../../fuzz/targets/readers.rs"]
mod readers;
#[path = "../../../../fuzz/targets/replay.rs"]
mod replay;

#[test]
fn file_reader_over_its_corpus() {
    replay::replay("file_reader", file_reader::run);
}

#[test]
fn pipe_reader_over_its_corpus() {
    replay::replay("pipe_reader", pipe_reader::run);
}

#[test]
fn feature_sections_over_its_corpus() {
    replay::replay("feature_sections", feature_sections::run);
}
