//! Breakpoints on addresses (`PERF_TYPE_BREAKPOINT`).

use crate::settings::number;
use crate::{Event, EventError};
use perf_event_open_sys::bindings as abi;
use rprof_records::EventKind;

/// `mem:ADDRESS[/LENGTH][:ACCESS][:LETTERS]`.
///
/// Answers the event and the letters; `place` is what stands behind `mem:`.
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
    let (access, letters) = match (words.next(), words.next()) {
        (Some(access), letters) if is_access(access) => (access, letters),
        // Without an access, letters may follow at once.
        (letters, None) => ("rw", letters),
        (_, Some(_)) => return Err(wrong("a breakpoint's access is one of r, w, rw and x")),
    };
    let (address, length) = match at.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (at, None),
    };
    const FORM: &str = "a breakpoint is written mem:ADDRESS[/LENGTH][:rwx], \
                        numbers being decimal or hexadecimal after 0x";
    let address = number(address).ok_or_else(|| wrong(FORM))?;
    let mut event = Event::numbered(text, EventKind::BREAKPOINT, 0);
    for letter in access.chars() {
        event.bp_type |= match letter {
            'r' => abi::HW_BREAKPOINT_R,
            'w' => abi::HW_BREAKPOINT_W,
            _ => abi::HW_BREAKPOINT_X,
        };
    }
    let length = match length {
        Some(length) => number(length).ok_or_else(|| wrong(FORM))?,
        // What perf takes: an execution breakpoint has the length of a long.
        None if access == "x" => size_of::<libc::c_long>() as u64,
        None => 4,
    };
    event.words[1] = address;
    event.words[2] = length;
    event.name = match letters {
        Some(letters) => text[..text.len() - letters.len() - 1].to_owned(),
        None => text.to_owned(),
    };
    Ok((event, letters))
}

fn is_access(text: &str) -> bool {
    let letters = text.bytes();
    (1..=3).contains(&text.len())
        && letters.clone().all(|b| matches!(b, b'r' | b'w' | b'x'))
        && letters
            .enumerate()
            .all(|(at, b)| !text.as_bytes()[..at].contains(&b))
}
