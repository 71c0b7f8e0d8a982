//! Probes on code: `uprobe:/path/to/program:function+offset`, `kprobe:function+offset`.
//!
//! They are events of the PMUs `uprobe` and `kprobe` (Linux 4.17), which need no name in tracefs
//! as those of `perf probe` do. A uprobe is put at an offset in a file. Which offset a function
//! has is for a [`Resolver`](crate::Resolver) to say, as this crate knows nothing of ELF.

use crate::event::Origin;
use crate::pmu::Pmu;
use crate::settings::number;
use crate::sources::Sources;
use crate::{Event, EventError};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// How a kind of probe is written, its PMU, and whether it is one on returns.
const KINDS: [(&str, &str, bool); 4] = [
    ("uprobe:", "uprobe", false),
    ("uretprobe:", "uprobe", true),
    ("kprobe:", "kprobe", false),
    ("kretprobe:", "kprobe", true),
];

/// The beginnings of probes, for telling them from other events.
pub(crate) fn is_probe(text: &str) -> bool {
    KINDS.iter().any(|(start, ..)| text.starts_with(start))
}

/// Reads a probe, without the letters behind it.
pub(crate) fn parse(text: &str, sources: &Sources<'_>) -> Result<Event, EventError> {
    let wrong = |why| EventError::Syntax {
        event: text.to_owned(),
        why,
    };
    let Some((place, pmu_name, on_return)) = KINDS
        .iter()
        .find_map(|(start, pmu, on_return)| Some((text.strip_prefix(start)?, *pmu, *on_return)))
    else {
        return Err(wrong("it is no probe"));
    };
    let pmu = Pmu::named(&sources.pmus, pmu_name).ok_or_else(|| EventError::NoProbes {
        event: text.to_owned(),
        pmu: pmu_name,
        sources: sources.pmus.display().to_string(),
    })?;
    let (target, offset) = match pmu_name {
        "uprobe" => uprobe(text, place, sources)?,
        _ => kprobe(text, place)?,
    };
    let mut event = Event::numbered(text, pmu.kind(), 0);
    event.words[2] = offset;
    if on_return {
        // Where the bit is stands in sysfs; it has been the lowest since there is one.
        let bit = pmu
            .format("retprobe")
            .and_then(|f| Some((f.word, f.place(1)?)));
        let (word, bit) = bit.unwrap_or((0, 1));
        event.words[word] |= bit;
    }
    event.origin = Origin::Probe(target);
    Ok(event)
}

/// `/path:function`, `/path:function+4`, `/path:0x1234`: path, and offset in the file.
fn uprobe(
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
    const FORM: &str = "a probe on a program is written uprobe:/path/to/program:function, \
                        …:function+offset, or …:0x and a file offset";
    // A path may hold colons, and function names of C++ do: the path ends at the first colon
    // behind which a file stops being named.
    let (path, location) = split_path(place).ok_or_else(|| wrong(FORM))?;
    let path = Path::new(path);
    if !path.is_absolute() {
        return Err(wrong("the path of the program must be absolute"));
    }
    let offset = match number(location) {
        Some(offset) => offset,
        None => {
            let (function, more) = with_offset(location).ok_or_else(|| wrong(FORM))?;
            let resolver = sources.resolver.ok_or_else(|| {
                failed("functions cannot be looked up here; give a file offset".to_owned())
            })?;
            let start = resolver.file_offset(path, function).map_err(failed)?;
            (start.checked_add(more)).ok_or_else(|| wrong("the offset is beyond any file"))?
        }
    };
    let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| wrong(FORM))?;
    Ok((Some(path), offset))
}

/// Path and rest. The path is the longest that is a file; where none is, up to the first colon.
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

/// `function`, `function+4`, or an address as `0xffffffff81000000`.
fn kprobe(text: &str, place: &str) -> Result<(Option<CString>, u64), EventError> {
    if let Some(address) = place.strip_prefix("0x").and(number(place)) {
        return Ok((None, address));
    }
    let parsed = with_offset(place).and_then(|(function, offset)| {
        let named = function.bytes().all(|b| b.is_ascii_graphic() && b != b':');
        named.then_some((CString::new(function).ok()?, offset))
    });
    match parsed {
        Some((function, offset)) => Ok((Some(function), offset)),
        None => Err(EventError::Syntax {
            event: text.to_owned(),
            why: "a probe on the kernel is written kprobe:function, kprobe:function+offset, or \
                  kprobe:0x and an address",
        }),
    }
}

/// A function, and what stands behind its plus.
fn with_offset(text: &str) -> Option<(&str, u64)> {
    let (function, offset) = match text.rsplit_once('+') {
        // `operator+` is a function.
        Some((function, offset)) => match number(offset) {
            Some(offset) => (function, offset),
            None => (text, 0),
        },
        None => (text, 0),
    };
    (!function.is_empty()).then_some((function, offset))
}
