//! The inputs of fuzz targets: `fuzz/corpus/TARGET.tar`, and `fuzz/regressions/TARGET/`.

use std::fs::{self, File};
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Input of a fuzz target, with its name for messages.
#[derive(Debug)]
pub struct FuzzInput {
    /// Name of the archive member or of the file.
    pub name: String,
    /// The bytes that the target reads.
    pub bytes: Vec<u8>,
}

/// Runs a fuzz target over its corpus and its regressions, without a fuzzer.
///
/// # Panics
/// If the target panics on an input, or if there is no corpus. The message lists the inputs by name.
pub fn replay_fuzz_corpus(target: &str, run: fn(&[u8])) {
    let mut inputs = fuzz_corpus(target);
    inputs.extend(regressions(target));
    let failed: Vec<String> = inputs
        .into_iter()
        .filter(|input| catch_unwind(AssertUnwindSafe(|| run(&input.bytes))).is_err())
        .map(|input| input.name)
        .collect();
    assert!(failed.is_empty(), "{target} fails on {failed:#?}");
}

/// Returns the inputs in `fuzz/corpus/TARGET.tar`, in the order of the archive.
///
/// # Panics
/// If the archive is missing, damaged or empty.
#[must_use]
pub fn fuzz_corpus(target: &str) -> Vec<FuzzInput> {
    let path = fuzz_folder().join("corpus").join(format!("{target}.tar"));
    let archive = File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let inputs: Vec<FuzzInput> = tar::Archive::new(archive)
        .entries()
        .expect("a tar archive")
        .map(|entry| {
            let mut entry = entry.expect("an archive member");
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).expect("a whole member");
            let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            FuzzInput { name, bytes }
        })
        .collect();
    assert!(!inputs.is_empty(), "{} is empty", path.display());
    inputs
}

fn regressions(target: &str) -> Vec<FuzzInput> {
    let folder = fuzz_folder().join("regressions").join(target);
    let mut inputs: Vec<FuzzInput> = (fs::read_dir(folder).into_iter().flatten())
        .map(|entry| {
            let path = entry.expect("a readable folder").path();
            let bytes = fs::read(&path).expect("a readable file");
            let name = path.display().to_string();
            FuzzInput { name, bytes }
        })
        .collect();
    inputs.sort_by(|a, b| a.name.cmp(&b.name));
    inputs
}

fn fuzz_folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz"))
}
