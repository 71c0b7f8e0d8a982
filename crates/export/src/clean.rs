//! Names made safe to show.
//!
//! Names of functions, files and threads come from programs that nobody vouches
//! for. On a terminal an escape sequence in one could do anything that typing
//! could; in folded text a newline would end the line.

use std::borrow::Cow;

/// Characters that have no place in a name: control characters (C0, DEL, C1),
/// line and paragraph separators, and the marks that turn the direction of text.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{61c}'
        )
        || ('\u{202a}'..='\u{202e}').contains(&c)
        || ('\u{2066}'..='\u{2069}').contains(&c)
        || matches!(c, '\u{fffe}' | '\u{ffff}')
}

/// Returns the name with every unsafe character replaced by `U+FFFD`.
pub fn clean(name: &str) -> Cow<'_, str> {
    match name.contains(is_unsafe) {
        true => Cow::Owned(name.replace(is_unsafe, "\u{fffd}")),
        false => Cow::Borrowed(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_and_marks_go_letters_stay() {
        assert!(matches!(clean("Größe<α>"), Cow::Borrowed(_)));
        assert_eq!(
            clean("a\x1b[2Jb\nc\u{202e}d\u{9b}"),
            "a\u{fffd}[2Jb\u{fffd}c\u{fffd}d\u{fffd}"
        );
    }
}
