//! Checks the Erlang in PATH: an emulator that lacks an option refuses to start.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Maximum size of a searched emulator, in bytes; usual ones have 5 MB.
const MAX_EMULATOR: u64 = 64 << 20;

/// Part of the perf map's name, which only emulators with a JIT compiler contain.
const NAME_OF_MAP: &[u8] = b"/tmp/perf-";

/// Finds Erlang in PATH; the error is the reason why it cannot write symbols.
pub(super) fn find(path: Option<&OsStr>) -> Option<Result<(), String>> {
    let folders = std::env::split_paths(path?);
    let erl = folders
        .map(|folder| folder.join("erl"))
        .find(|erl| erl.is_file())?;
    let emulator = emulator_of(&erl)?;
    Some(match writes_names(&emulator) {
        true => Ok(()),
        false => Err(format!(
            "Erlang's {} cannot write symbols: it needs OTP 24 or later with the JIT compiler",
            emulator.display()
        )),
    })
}

/// Returns the emulator of `erl`: `ROOT/erts-VERSION/bin/beam.smp`.
fn emulator_of(erl: &Path) -> Option<PathBuf> {
    let erl = fs::canonicalize(erl).ok()?;
    let root = erl.parent()?.parent()?;
    let start = fs::read_to_string(root.join("releases/start_erl.data")).ok()?;
    let version = start.split_whitespace().next()?;
    let is_version = version.chars().all(|c| c.is_ascii_digit() || c == '.');
    let emulator = root.join(format!("erts-{version}/bin/beam.smp"));
    (is_version && emulator.is_file()).then_some(emulator)
}

fn writes_names(emulator: &Path) -> bool {
    let mut bytes = Vec::new();
    let read = fs::File::open(emulator).map(|file| file.take(MAX_EMULATOR).read_to_end(&mut bytes));
    let is_read = matches!(read, Ok(Ok(_)));
    let mut parts = bytes.windows(NAME_OF_MAP.len());
    is_read && parts.any(|part| part == NAME_OF_MAP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emulator_without_compiler_is_told_apart() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        let path = root.join("bin").into_os_string();
        assert_eq!(find(Some(&path)), None);
        for made in ["bin", "releases", "erts-13.1/bin"] {
            fs::create_dir_all(root.join(made)).expect("a folder");
        }
        fs::write(root.join("bin/erl"), "").expect("a file");
        fs::write(root.join("releases/start_erl.data"), "13.1 25\n").expect("a file");
        assert_eq!(find(Some(&path)), None);
        let emulator = root.join("erts-13.1/bin/beam.smp");
        fs::write(&emulator, "ELF").expect("a file");
        let why = find(Some(&path)).expect("Erlang").expect_err("a reason");
        assert!(why.contains("OTP 24"), "{why}");
        fs::write(&emulator, "ELF ../tmp/perf-%i.map").expect("a file");
        assert_eq!(find(Some(&path)), Some(Ok(())));
    }
}
