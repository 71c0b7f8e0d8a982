//! Writing of results: to a file that is whole or not there, or to standard output.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::messages::Failure;

/// Writes to a file, or to standard output for `-`. The file appears under its name only once it is whole;
/// devices and pipes are written to directly.
pub(crate) fn write_to(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if path == Path::new("-") {
        let what = || "cannot write to standard output".to_owned();
        let mut out = BufWriter::new(io::stdout().lock());
        write(&mut out).map_err(|failure| failure.context(what()))?;
        return Ok(out.flush().with_context(what)?);
    }
    let what = || format!("cannot write {}", path.display());
    let cannot = |e: io::Error| anyhow::Error::new(e).context(what());
    // A device such as /dev/null, or a pipe, is written to as it stands.
    if std::fs::metadata(path).is_ok_and(|m| !m.is_file() && !m.is_dir()) {
        let file = (std::fs::File::options().write(true))
            .open(path)
            .map_err(cannot)?;
        let mut out = BufWriter::new(file);
        write(&mut out).map_err(|failure| failure.context(what()))?;
        return Ok(out.flush().map_err(cannot)?);
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    let mut builder = tempfile::Builder::new();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    let file = builder
        .permissions(mode)
        .prefix(".rprof")
        .tempfile_in(folder)
        .map_err(cannot)?;
    let mut out = BufWriter::new(file);
    write(&mut out).map_err(|failure| failure.context(what()))?;
    let file = out.into_inner().map_err(|e| cannot(e.into_error()))?;
    file.persist(path).map_err(|e| cannot(e.error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_finished_leaves_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        std::fs::write(&path, "old").unwrap();
        let failed = write_to(&path, |out| {
            out.write_all(b"half")?;
            Err(Failure::from(io::Error::other("no more")))
        });
        assert!(failed.is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(write_to(&path, |out| Ok(out.write_all(b"new")?)).is_ok());
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert!(write_to(Path::new("/no/such/folder/out"), |_| Ok(())).is_err());
    }

    #[test]
    fn devices_are_written_to_as_they_stand() {
        assert!(write_to(Path::new("/dev/null"), |out| Ok(out.write_all(b"x")?)).is_ok());
        assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
    }
}
