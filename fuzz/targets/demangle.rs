//! Demangles a name in every style, and checks the length.
//!
//! Input: the name.

use rprof_symbols::Style;
use rprof_symbols::demangle::{CUT_MARK, MAX_OUTPUT, demangle, demangle_bytes};

pub(crate) fn run(data: &[u8]) {
    for style in [Style::NoParameters, Style::Full] {
        let name = demangle_bytes(data, style);
        // Each invalid UTF-8 byte is replaced by three bytes.
        let most = (MAX_OUTPUT + CUT_MARK.len() + "@plt".len()).max(3 * data.len());
        assert!(name.len() <= most, "{} bytes", name.len());
        if let Ok(text) = str::from_utf8(data) {
            assert_eq!(demangle(text, style), name);
        }
    }
}
