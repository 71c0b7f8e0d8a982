//! Detects input files by their content, among words that may be commands.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

use rprof_import::{Detected, Format, Opened};
use rprof_perfdata::PerfData;

use crate::wording::messages::Failure;

/// Reads the start of a file; `None` if irregular or unreadable, which opening it reports later.
pub(crate) fn look_at(path: &Path) -> Option<io::Result<Opened>> {
    if !std::fs::metadata(path).is_ok_and(|meta| meta.is_file()) {
        return None;
    }
    File::open(path).ok().map(Opened::new)
}

/// Returns true if a word names a recording or folded stacks. Executable folded stacks count as a
/// script.
pub(crate) fn is_recording(word: &OsStr) -> bool {
    let path = Path::new(word);
    let Some(meta) = std::fs::metadata(path).ok().filter(Metadata::is_file) else {
        return false;
    };
    let Some(Ok(opened)) = look_at(path) else {
        return false;
    };
    let is_magic = PerfData::is_magic(opened.start());
    let can_be_executed = meta.permissions().mode() & 0o111 != 0;
    let is_profile = match opened.detected() {
        Detected::Profile(Format::Json) => has_key_of_profiles(opened.start()),
        Detected::Profile(_) => true,
        _ => false,
    };
    is_magic || !can_be_executed && is_profile
}

/// Returns true if a JSON document starts like a profile: folders of recordings may hold other
/// JSON.
fn has_key_of_profiles(start: &[u8]) -> bool {
    let keys = [
        "\"meta\"",
        "\"threads\"",
        "\"libs\"",
        "\"shared\"",
        "\"profiles\"",
        "\"$schema\"",
    ];
    let has = |key: &&str| memchr::memmem::find(start, key.as_bytes()).is_some();
    keys.iter().any(has)
}

/// Returns true if a word names a recording, folded stacks, a named pipe, or standard input.
pub(crate) fn is_input(word: &OsStr) -> bool {
    let is_pipe = |meta: Metadata| meta.file_type().is_fifo();
    word == "-" || std::fs::metadata(word).is_ok_and(is_pipe) || is_recording(word)
}

/// Returns true if a word names an input, or a file that cannot be a command, whose errors readers
/// report.
pub(crate) fn is_input_or_no_command(word: &OsStr) -> bool {
    is_input(word) || is_no_command(word)
}

/// Returns true if a word names a file that is not executable, and no program in PATH.
fn is_no_command(word: &OsStr) -> bool {
    let path = Path::new(word);
    let can_be_executed = |meta: &Metadata| meta.permissions().mode() & 0o111 != 0;
    let is_plain = std::fs::metadata(path).is_ok_and(|m| m.is_file() && !can_be_executed(&m));
    // The kernel reports why a script cannot be executed.
    let is_script =
        || matches!(look_at(path), Some(Ok(opened)) if opened.start().starts_with(b"#!"));
    let is_program = || {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        let is_name = !word.as_encoded_bytes().contains(&b'/');
        is_name
            && std::env::split_paths(&folders)
                .any(|folder| std::fs::metadata(folder.join(word)).is_ok_and(|m| m.is_file()))
    };
    is_plain && !is_program() && !is_script()
}

pub(crate) fn refuse_recording(command: &[OsString]) -> Result<(), Failure> {
    match command.first() {
        Some(word) if is_recording(word) => {
            let file = word.to_string_lossy();
            let message = format!(
                "{file} is a recording or folded stacks, not a command: `rprof report {file}` \
                 shows it, `rprof flamegraph {file}` draws it"
            );
            Err(Failure::with_status(2, anyhow::anyhow!(message)))
        }
        _ => Ok(()),
    }
}
