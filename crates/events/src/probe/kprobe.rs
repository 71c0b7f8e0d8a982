//! Probes on the kernel: function or address.

use super::location::split_offset;
use crate::error::EventError;
use crate::settings::number;
use std::ffi::CString;

/// Parses `function`, `function+4`, or an address such as `0xffffffff81000000`. Returns the
/// function and the offset from it, or only the address.
pub(super) fn parse(text: &str, place: &str) -> Result<(Option<CString>, u64), EventError> {
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
