//! Places of probes: path and function or file offset of a program; function or address of the kernel.
//!
//! The kernel places a uprobe at a file offset. A [`Resolver`](crate::Resolver) finds the offset of
//! a function, because this crate does not read ELF.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::error::EventError;
use crate::settings::number;
use crate::sources::Sources;

/// Parses `function`, `function+4`, or an address such as `0xffffffff81000000`. Returns the
/// function and the offset from it, or only the address.
pub(super) fn of_kernel(text: &str, place: &str) -> Result<(Option<CString>, u64), EventError> {
    if let Some(address) = place.strip_prefix("0x").and(number(place)) {
        return Ok((None, address));
    }
    let parsed = split_offset(place).and_then(|(function, offset)| {
        let named = function.bytes().all(|b| b.is_ascii_graphic() && b != b':');
        named.then_some((CString::new(function).ok()?, offset))
    });
    match parsed {
        Some((function, offset)) => Ok((Some(function), offset)),
        None => Err(EventError::Syntax {
            event: text.to_owned(),
            why: "write a kernel probe as kprobe:FUNCTION, kprobe:FUNCTION+OFFSET or \
                  kprobe:0xADDRESS",
        }),
    }
}

/// Parses `/path:function`, `/path:function+4` or `/path:0x1234`. Returns the path and the file
/// offset in bytes.
pub(super) fn of_program(
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

/// Splits `function+offset`, with default offset 0. Returns `None` without a function.
fn split_offset(text: &str) -> Option<(&str, u64)> {
    let (function, offset) = match text.rsplit_once('+') {
        // A C++ function may be named `operator+`.
        Some((function, offset)) => match number(offset) {
            Some(offset) => (function, offset),
            None => (text, 0),
        },
        None => (text, 0),
    };
    (!function.is_empty()).then_some((function, offset))
}
