//! `function+offset`.

use crate::settings::number;

/// Splits `function+offset`; the offset is 0 without one. `None` if there is no function.
pub(super) fn split_offset(text: &str) -> Option<(&str, u64)> {
    let (function, offset) = match text.rsplit_once('+') {
        // A function of C++ may be called `operator+`.
        Some((function, offset)) => match number(offset) {
            Some(offset) => (function, offset),
            None => (text, 0),
        },
        None => (text, 0),
    };
    (!function.is_empty()).then_some((function, offset))
}
