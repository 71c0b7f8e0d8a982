//! The corpus: files from other recorders, and mangled names. It is not part of the sources.

use std::path::PathBuf;

use crate::inapplicable;

/// Returns the corpus folder, from `RPROF_CORPUS`, which `.ci/run` sets if a corpus exists. Without
/// a corpus, the calling test counts as skipped.
///
/// # Panics
/// If `RPROF_CORPUS` does not name a folder.
#[track_caller]
pub fn corpus() -> Option<PathBuf> {
    let Some(folder) = std::env::var_os("RPROF_CORPUS").filter(|v| !v.is_empty()) else {
        inapplicable("needs the corpus (RPROF_CORPUS is not set)");
        return None;
    };
    let folder = PathBuf::from(folder);
    let found = folder.canonicalize().ok().filter(|path| path.is_dir());
    assert!(
        found.is_some(),
        "RPROF_CORPUS names {}, which is no folder (the path must be absolute)",
        folder.display()
    );
    found
}

/// Returns a file or folder of the corpus, by its path there.
///
/// # Panics
/// If the corpus lacks it.
#[track_caller]
pub fn corpus_file(name: &str) -> Option<PathBuf> {
    let path = corpus()?.join(name);
    assert!(path.exists(), "{} is missing", path.display());
    Some(path)
}

/// Returns all recordings of the corpus, sorted by path. Empty without a corpus.
///
/// # Panics
/// If the corpus has no folder `perfdata`.
#[track_caller]
pub fn recordings() -> Vec<PathBuf> {
    let corpus = corpus_file("perfdata");
    let origins = corpus.map(|corpus| std::fs::read_dir(corpus).expect("a folder"));
    let mut files: Vec<PathBuf> = (origins.into_iter().flatten())
        .filter_map(|origin| std::fs::read_dir(origin.ok()?.path()).ok())
        .flatten()
        .filter_map(|file| Some(file.ok()?.path()))
        .collect();
    files.sort();
    files
}
