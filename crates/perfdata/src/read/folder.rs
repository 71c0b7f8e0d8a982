//! Recordings in a folder. `perf record --threads` writes one file for each of its threads.

use std::fs;
use std::path::Path;

use crate::contents::Contents;
use crate::error::Error;

/// Holds the header and all records outside the per-thread files.
pub(crate) const MAIN: &str = "data";

/// perf writes at most one for each CPU.
const MAX_FILES: usize = 4096;

pub(crate) type Named = Vec<(String, Contents)>;

/// Opens the other files, in numerical order. Also returns warnings about skipped files.
pub(crate) fn record_files(folder: &Path) -> Result<(Named, Vec<String>), Error> {
    let read = |source| Error::Read {
        path: folder.to_owned(),
        source,
    };
    let (mut numbers, mut warnings) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(folder).map_err(read)? {
        let name = entry.map_err(read)?.file_name();
        let number = (name.to_str())
            .and_then(|name| name.strip_prefix("data."))
            .filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
            .and_then(|digits| digits.parse::<u32>().ok());
        numbers.extend(number.filter(|n| name.to_str() == Some(&file_name(*n))));
    }
    numbers.sort_unstable();
    if numbers.len() > MAX_FILES {
        warnings.push(format!(
            "the folder has {} record files, too many: {} and later files are not read",
            numbers.len(),
            file_name(numbers[MAX_FILES])
        ));
        numbers.truncate(MAX_FILES);
    }
    let mut files = Vec::new();
    for name in numbers.into_iter().map(file_name) {
        // A link may lead anywhere.
        match Contents::open_no_link(&folder.join(&name)) {
            Ok(contents) => files.push((name, contents)),
            // A thread without records.
            Err(Error::Empty { .. }) => {}
            Err(error) => warnings.push(format!("{name} was skipped: {error}")),
        }
    }
    Ok((files, warnings))
}

fn file_name(number: u32) -> String {
    format!("data.{number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbered_regular_files_are_taken_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path();
        for name in [
            "data",
            "data.10",
            "data.2",
            "data.02",
            "data.x",
            "data.3.old",
        ] {
            fs::write(path.join(name), name).unwrap();
        }
        fs::write(path.join("data.4"), "").unwrap();
        fs::create_dir(path.join("data.5")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", path.join("data.6")).unwrap();
        let (files, warnings) = record_files(path).unwrap();
        let names: Vec<_> = files.iter().map(|(name, _)| &name[..]).collect();
        assert_eq!(names, ["data.2", "data.10"]);
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(warnings[0].contains("directory") && warnings[1].contains("symbolic link"));
    }
}
