//! Runs a target over its committed corpus, without a fuzzer.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Runs `target` on `fuzz/corpus/NAME`, and on `fuzz/regressions/NAME` if it exists.
pub(crate) fn replay(name: &str, target: fn(&[u8])) {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let mut files = list(&fuzz.join("corpus").join(name));
    assert!(!files.is_empty(), "the corpus of {name} is missing");
    files.extend(list(&fuzz.join("regressions").join(name)));
    let failed: Vec<_> = (files.into_iter())
        .filter(|file| {
            let bytes = fs::read(file).expect("a readable file");
            catch_unwind(AssertUnwindSafe(|| target(&bytes))).is_err()
        })
        .collect();
    assert!(failed.is_empty(), "inputs that fail: {failed:#?}");
}

fn list(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = (fs::read_dir(folder).into_iter().flatten())
        .map(|entry| entry.expect("a readable folder").path())
        .collect();
    files.sort();
    files
}
