//! Recordings that others made, and files made to break readers.
//!
//! They are not part of the sources. Where a checkout of them stands beside the workspace, or
//! `RPROF_CORPUS` names one, every file must be read without panic, hang or crash.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::support::{Here, Report};

const BESIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/corpus");

fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("RPROF_CORPUS").map_or_else(|| BESIDE.into(), PathBuf::from);
    folder.join("perfdata").canonicalize().ok()
}

/// Number of samples that `perf script` finds in a file, by its name, as `INDEX.tsv` has it.
fn known_counts(folder: &Path) -> BTreeMap<String, u64> {
    let index = std::fs::read_to_string(folder.join("INDEX.tsv")).unwrap_or_default();
    let mut lines = index
        .lines()
        .map(|line| line.split('\t').collect::<Vec<_>>());
    let headings = lines.next().unwrap_or_default();
    let column = |name| headings.iter().position(|h| *h == name);
    let columns = (
        column("file"),
        column("perf612_script_rc"),
        column("perf612_script_samples"),
    );
    let (Some(file), Some(status), Some(samples)) = columns else {
        return BTreeMap::new();
    };
    lines
        .filter(|line| line.get(status) == Some(&"0"))
        .filter_map(|line| {
            Some((
                (*line.get(file)?).to_owned(),
                line.get(samples)?.parse().ok()?,
            ))
        })
        .collect()
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
fn is_read_without_panic_or_hang() {
    let Some(folder) = folder() else {
        return;
    };
    let mut files = Vec::new();
    files_below(&folder, &mut files);
    files.retain(|path| path.extension().is_none_or(|e| e != "tsv" && e != "md"));
    files.sort();
    let known = known_counts(&folder);
    let here = Here::new();
    // Not kept back by the harness: this is for whoever reads it.
    let mut out = std::io::stderr();
    let (mut failed, mut compared, mut differ) = (Vec::new(), 0, 0);
    for path in files {
        let name = path
            .strip_prefix(&folder)
            .expect("below it")
            .to_string_lossy()
            .into_owned();
        let mut counted = None;
        for command in ["header", "report --format json", "collapse"] {
            let run = here.rprof(command).arg("-i").arg(&path).run();
            match run.code() {
                Some(0) => {
                    if command.starts_with("report") {
                        counted = Some(Report::parse(&run).samples());
                    }
                }
                // A refusal is one clear message.
                Some(1) if run.err().lines().count() == 1 => {}
                _ => failed.push(run.to_string()),
            }
            run.is_clean();
        }
        if let Some(known) = known.get(&name) {
            compared += 1;
            if counted != Some(*known) {
                differ += 1;
                let counted = counted.map_or("refused".into(), |n| n.to_string());
                writeln!(out, "corpus: {name}: {counted} samples, {known} by perf").ok();
            }
        }
    }
    writeln!(
        out,
        "corpus: {differ} of {compared} counts differ from perf's"
    )
    .ok();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
