//! Writes files atomically to a folder.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::Builder;

use crate::{FleetTableError, TableFile};

/// Writes a table file below a fleet's folder. If the file exists already, it has the same content
/// and is kept. Returns whether the file is new.
///
/// The write is atomic: it uses a temporary name that readers ignore, followed by a rename. A crash
/// leaves no partial file.
///
/// # Errors
/// A folder or the file cannot be created.
pub fn put(folder: &Path, file: &TableFile) -> Result<bool, FleetTableError> {
    let path = folder.join(&file.path);
    let failed = |error: io::Error| FleetTableError::Write {
        path: path.clone(),
        error,
    };
    if path.try_exists().map_err(failed)? {
        return Ok(false);
    }
    let parent = path.parent().unwrap_or(folder);
    fs::create_dir_all(parent).map_err(failed)?;
    let mut pending = Builder::new()
        .prefix(".rprof-")
        .suffix(".tmp")
        // The default mode of new files, so that other users can read the tables. The umask
        // applies.
        .permissions(fs::Permissions::from_mode(0o666))
        .tempfile_in(parent)
        .map_err(failed)?;
    pending.write_all(&file.bytes).map_err(failed)?;
    pending.as_file().sync_data().map_err(failed)?;
    pending
        .persist(&path)
        .map_err(|error| failed(error.error))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_put_once_and_leaves_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = TableFile {
            path: "samples/date=2023-11-14/hour=22/a.parquet".into(),
            bytes: b"x".to_vec(),
        };
        assert!(put(folder.path(), &file).unwrap());
        assert!(!put(folder.path(), &file).unwrap());
        let at = folder.path().join(&file.path);
        assert_eq!(fs::read(&at).unwrap(), b"x");
        assert_eq!(fs::read_dir(at.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_that_is_a_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("samples"), "").unwrap();
        let file = TableFile {
            path: "samples/date=x/a.parquet".into(),
            bytes: Vec::new(),
        };
        let error = put(folder.path(), &file).unwrap_err().to_string();
        assert!(error.contains("samples/date=x/a.parquet"), "{error}");
    }
}
