//! Runs this crate's fuzz targets over their corpus: see `fuzz/README.md`.

#[path = "../../../../fuzz/targets/analyse.rs"]
mod analyse;
#[path = "../../../../fuzz/targets/replay.rs"]
mod replay;

#[test]
fn analyse_over_its_corpus() {
    replay::replay("analyse", analyse::run);
}
