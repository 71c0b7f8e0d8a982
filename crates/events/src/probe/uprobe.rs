//! Probes on programs: path and file offset.
//!
//! The kernel places a uprobe at a file offset. A [`Resolver`](crate::Resolver) finds the offset of
//! a function, because this crate does not read ELF.

use super::location::split_offset;
use crate::error::EventError;
use crate::settings::number;
use crate::sources::Sources;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Parses `/path:function`, `/path:function+4` or `/path:0x1234`. Returns the path and the file
/// offset in bytes.
pub(super) fn parse(
    text: &str,
    place: &str,
    sources: &Sources<'_>,
) -> Result<(Option<CString>, u64), EventError> {
    let failed = |why: String| EventError::Probe {
        event: text.to_owned(),
        why,
    };
    let wrong = |why| EventError::Syntax {
        event: text.to_owned(),
        why,
    };
    const FORM: &str = "write a program probe as uprobe:/path/to/program:FUNCTION, \
                        …:FUNCTION+OFFSET or …:0xFILE_OFFSET";
    // Paths and C++ function names may contain colons.
    let (path, location) = split_path(place).ok_or_else(|| wrong(FORM))?;
    let path = Path::new(path);
    if !path.is_absolute() {
        return Err(wrong("the path of the program must be absolute"));
    }
    let offset = match number(location) {
        Some(offset) => offset,
        None => {
            let (function, more) = split_offset(location).ok_or_else(|| wrong(FORM))?;
            let resolver = sources.resolver.ok_or_else(|| {
                failed("functions cannot be looked up here; give a file offset".to_owned())
            })?;
            let start = resolver.file_offset(path, function).map_err(failed)?;
            (start.checked_add(more))
                .ok_or_else(|| wrong("the offset exceeds the maximum file size"))?
        }
    };
    let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| wrong(FORM))?;
    Ok((Some(path), offset))
}

/// Splits at the colon after the path: the longest path that is a file, or else the text up to the
/// first colon.
fn split_path(place: &str) -> Option<(&str, &str)> {
    let splits = place.match_indices(':').filter_map(|(at, _)| {
        let (path, rest) = (place.get(..at)?, place.get(at + 1..)?);
        (!path.is_empty() && !rest.is_empty()).then_some((path, rest))
    });
    let splits: Vec<(&str, &str)> = splits.take(64).collect();
    let is_file = |(path, _): &&(&str, &str)| Path::new(path).is_file();
    let found = splits.iter().rev().find(is_file).or(splits.first());
    found.copied()
}
