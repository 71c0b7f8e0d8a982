//! Breakpoints on addresses (`PERF_TYPE_BREAKPOINT`).

use crate::error::EventError;
use crate::event::Event;
use crate::settings::number;
use perf_event_open_sys::bindings as abi;
use rprof_records::EventKind;
use std::ffi::c_long;

/// Spellings of an access, with the bits of `bp_type`.
///
/// perf's syntax also has `rx`, `wx` and `rwx`, but every kernel refuses them: one breakpoint
/// covers either data or execution (perf_event_open(2), `bp_type`). x86 lacks `r` alone.
const ACCESSES: [(&str, u32); 5] = [
    ("r", abi::HW_BREAKPOINT_R),
    ("w", abi::HW_BREAKPOINT_W),
    ("rw", abi::HW_BREAKPOINT_RW),
    ("wr", abi::HW_BREAKPOINT_RW),
    ("x", abi::HW_BREAKPOINT_X),
];

/// Parses `mem:ADDRESS[/LENGTH][:ACCESS][:MODIFIERS]`. Returns the event and the modifiers.
///
/// `place` is the part after `mem:`. The default access is `rw`. The default length is 4 bytes, or
/// a long for `x`, as in perf.
pub(crate) fn parse<'a>(
    text: &'a str,
    place: &'a str,
) -> Result<(Event, Option<&'a str>), EventError> {
    let wrong = |why| EventError::Syntax {
        event: text.to_owned(),
        why,
    };
    let mut words = place.splitn(3, ':');
    let at = words.next().unwrap_or("");
    let (second, third) = (words.next(), words.next());
    let known = second.and_then(access);
    let (bp_type, letters) = match (second, known, third) {
        (_, Some(bp_type), letters) => (bp_type, letters),
        (Some(word), None, _) if is_data_and_execution(word) => {
            return Err(wrong(
                "a breakpoint watches either data (r, w, rw) or execution (x), not both; give two \
                 events, such as mem:ADDRESS:rw,mem:ADDRESS:x",
            ));
        }
        // Modifiers without an access.
        (letters, None, None) => (abi::HW_BREAKPOINT_RW, letters),
        (_, None, Some(_)) => {
            return Err(wrong("a breakpoint's access must be r, w, rw or x"));
        }
    };
    let (address, length) = match at.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (at, None),
    };
    const FORM: &str = "write a breakpoint as mem:ADDRESS[/LENGTH][:ACCESS]; ACCESS is r, w, rw or \
                        x, and numbers are decimal or hexadecimal with 0x";
    let address = number(address).ok_or_else(|| wrong(FORM))?;
    let length = match length {
        Some(length) => number(length).ok_or_else(|| wrong(FORM))?,
        None if bp_type == abi::HW_BREAKPOINT_X => size_of::<c_long>() as u64,
        None => 4,
    };
    let mut event = Event::numbered(text, EventKind::BREAKPOINT, 0);
    event.bp_type = bp_type;
    event.config[1] = address;
    event.config[2] = length;
    event.name = match letters {
        Some(letters) => text[..text.len() - letters.len() - 1].to_owned(),
        None => text.to_owned(),
    };
    Ok((event, letters))
}

fn access(text: &str) -> Option<u32> {
    let mut all = ACCESSES.iter();
    all.find(|(name, _)| *name == text).map(|(_, bits)| *bits)
}

/// Returns true for combinations such as `rwx`.
fn is_data_and_execution(text: &str) -> bool {
    (2..=3).contains(&text.len())
        && text.contains('x')
        && text.bytes().all(|letter| b"rwx".contains(&letter))
}
