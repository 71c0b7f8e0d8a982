//! Parses bytes as an ELF file with debug information, and looks up many addresses at once.
//!
//! Input: the bytes of the file.

use rprof_symbols::{Lookup, Symbolizer};
use std::path::{Path, PathBuf};

/// Maximum number of inlined calls at one address, plus the function.
const MAX_FRAMES: usize = 257;

pub(crate) fn run(data: &[u8]) {
    let nowhere = PathBuf::from("/nowhere");
    let ask = |lines: bool| -> Vec<Lookup> {
        // Reads only the input: there are no files in the search folders.
        let symbolizer = Symbolizer::builder()
            .root(Some(nowhere.clone()))
            .debug_dirs(Vec::new())
            .perf_cache(None)
            .lines(lines)
            .threads(1)
            .build();
        let step = 1 + data.len() / 512;
        let offsets: Vec<u64> = (0..data.len() as u64).step_by(step).collect();
        symbolizer.resolve_copy(data.to_vec(), Path::new("/image"), &offsets)
    };
    let (with, without) = (ask(true), ask(false));
    assert_eq!(with.len(), without.len());
    for (with, without) in with.iter().zip(&without) {
        match (with, without) {
            (Ok(with), Ok(without)) => {
                assert_eq!(with.symbol(), without.symbol());
                assert!((1..=MAX_FRAMES).contains(&with.iter().len()));
                assert!(with.names().eq(without.names()));
                assert!(without.line().is_none());
            }
            (Err(with), Err(without)) => assert_eq!(with, without),
            _ => panic!("lines decide whether there is a function"),
        }
    }
}
