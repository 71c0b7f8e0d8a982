//! Folders of recordings, each of one run.

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::input::named_input::is_recording;
use crate::wording::messages::Failure;

/// Lists the recordings of a folder, ordered by number. Skips hidden files and replaced ones
/// (`.old`).
///
/// # Errors
/// The folder cannot be read.
pub(crate) fn recordings_in(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let cannot = || format!("cannot read {}", folder.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(cannot)? {
        let path = entry.with_context(cannot)?.path();
        let name = path.file_name().map(|name| name.to_string_lossy());
        let counts = name.is_some_and(|name| !name.starts_with('.') && !name.ends_with(".old"));
        if counts && is_recording(path.as_os_str()) {
            files.push(path);
        }
    }
    files.sort_by_key(|path| (number_of(path), path.clone()));
    Ok(files)
}

/// Replaces folders by their recordings.
///
/// # Errors
/// A folder cannot be read, or has no recording.
pub(crate) fn with_recordings_of_folders(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::with_capacity(paths.len());
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let found = recordings_in(path)?;
        if found.is_empty() {
            let folder = path.display();
            let message = format!(
                "no recordings in {folder}: make some with `rprof record --runs 5 -o {folder}/ -- \
                 COMMAND`"
            );
            return Err(anyhow::anyhow!(message).into());
        }
        files.extend(found);
    }
    Ok(files)
}

/// Returns the number in a file name, so that run 10 follows run 9.
fn number_of(path: &Path) -> u64 {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let digits: String = name.chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_stand_in_the_order_of_their_numbers() {
        let mut paths: Vec<PathBuf> = ["10.data", "9.data", "perf.data.2", "x.data"]
            .map(PathBuf::from)
            .into();
        paths.sort_by_key(|path| (number_of(path), path.clone()));
        assert_eq!(
            paths,
            ["perf.data.2", "9.data", "10.data", "x.data"].map(PathBuf::from)
        );
    }
}
