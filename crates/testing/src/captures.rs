//! The corpus: files that others recorded, and names that others mangled. It is no part of the sources.

use std::path::PathBuf;

use crate::inapplicable;

/// Folder of the corpus, which `RPROF_CORPUS` names; `.ci/run` sets it where there is one. Without it
/// the calling test counts as skipped, and never as failed.
///
/// # Panics
/// If `RPROF_CORPUS` names what is no folder.
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

/// A file or folder of the corpus, by its path in there.
///
/// # Panics
/// If there is a corpus without it.
#[track_caller]
pub fn corpus_file(name: &str) -> Option<PathBuf> {
    let path = corpus()?.join(name);
    assert!(path.exists(), "{} is missing", path.display());
    Some(path)
}

/// All recordings of the corpus, sorted by path; none where there is no corpus.
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
