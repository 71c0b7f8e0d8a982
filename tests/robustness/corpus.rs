//! Recordings of other tools, and malformed files.
//!
//! They are not part of the sources. rprof must read every file in `RPROF_CORPUS` without a panic,
//! hang or crash, and agree with perf: see `corpus_counts.rs`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rprof_testing::corpus_file;

use crate::support::Here;

/// Line of `INDEX.tsv`.
pub(crate) struct Capture {
    pub(crate) file: String,
    pub(crate) path: PathBuf,
    /// Samples of `perf script` 6.12; `None` if it failed.
    pub(crate) by_perf: Option<u64>,
    /// SAMPLE records outside of compressed ones, by a minimal independent reader.
    pub(crate) samples: u64,
    pub(crate) is_compressed: bool,
    pub(crate) has_dumps: bool,
}

pub(crate) fn captures(folder: &Path) -> Vec<Capture> {
    let index = std::fs::read_to_string(folder.join("INDEX.tsv")).expect("an index");
    let mut lines = index.lines();
    let headings: Vec<_> = lines.next().unwrap_or_default().split('\t').collect();
    let capture = |line: &str| {
        let row: BTreeMap<_, _> = headings.iter().copied().zip(line.split('\t')).collect();
        let number = |name| row[name].parse().expect("a number");
        Capture {
            file: row["file"].into(),
            path: folder.join(row["file"]),
            by_perf: (row["perf612_script_rc"] == "0").then(|| number("perf612_script_samples")),
            samples: number("samples_raw"),
            is_compressed: row["compressed"] == "yes",
            has_dumps: row["sample_type"].contains("STACK_USER"),
        }
    };
    lines.map(capture).collect()
}

fn files_below(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => files_below(&path, files),
            false => files.push(path),
        }
    }
}

#[test]
fn every_capture_is_read_without_panic_or_hang() {
    let Some(folder) = corpus_file("perfdata") else {
        return;
    };
    let mut files = Vec::new();
    files_below(&folder, &mut files);
    files.retain(|path| path.extension().is_none_or(|e| e != "tsv" && e != "md"));
    files.sort();
    let here = Here::new();
    let mut failed = Vec::new();
    for path in files {
        for command in ["header", "report --format json", "collapse"] {
            let run = here.rprof(command).arg("-i").arg(&path).run();
            match run.code() {
                Some(0) => {}
                // A rejection is one clear message.
                Some(1) if run.err().lines().count() == 1 => {}
                Some(1) if run.err().contains(" has no samples: ") => {}
                _ => failed.push(run.to_string()),
            }
            run.is_clean();
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
