//! `function+offset`.

use crate::settings::number;

/// Splits `function+offset`, with default offset 0. Returns `None` without a function.
pub(super) fn split_offset(text: &str) -> Option<(&str, u64)> {
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
