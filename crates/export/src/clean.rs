//! Names made safe to show.
//!
//! Names of functions, files and threads come from programs that nobody vouches
//! for. On a terminal an escape sequence in one could do anything that typing
//! could; in folded text a newline would end the line.

use std::borrow::Cow;

/// Characters that have no place in a name: control characters (C0, DEL, C1),
/// line and paragraph separators, the marks that turn the direction of text, and characters without a
/// shape, by which two names could look like one. The joiners of Persian, Hindi and emoji stay.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{61c}'
        )
        || ('\u{202a}'..='\u{202e}').contains(&c)
        || ('\u{2060}'..='\u{206f}').contains(&c)
        || ('\u{fff9}'..='\u{fffb}').contains(&c)
        || ('\u{e0000}'..='\u{e007f}').contains(&c)
        || matches!(c, '\u{200b}' | '\u{180e}' | '\u{feff}')
        || matches!(c, '\u{fffe}' | '\u{ffff}')
}

/// Returns the name with every unsafe character replaced by `U+FFFD`.
pub fn clean(name: &str) -> Cow<'_, str> {
    match name.contains(is_unsafe) {
        true => Cow::Owned(name.replace(is_unsafe, "\u{fffd}")),
        false => Cow::Borrowed(name),
    }
}

/// Characters of a name in a message, beyond which it is cut.
pub const BRIEF: usize = 200;

/// Returns the name with `…` in place of its middle, if it has more than `most` characters. A third of what is
/// kept is the beginning, and the rest the end, since of paths the end says more.
pub fn shorten(name: &str, most: usize) -> Cow<'_, str> {
    if name.len() <= most || name.chars().count() <= most {
        return Cow::Borrowed(name);
    }
    let kept = most.saturating_sub(1);
    let (head, tail) = (kept / 3, kept - kept / 3);
    let at = |nth| {
        name.char_indices()
            .nth(nth)
            .map_or(name.len(), |(at, _)| at)
    };
    let from = (name.char_indices().rev().nth(tail.saturating_sub(1))).map_or(0, |(at, _)| at);
    let from = if tail == 0 { name.len() } else { from };
    Cow::Owned(format!("{}…{}", &name[..at(head)], &name[from..]))
}

/// Returns the name as messages have it: clean, and not longer than [`BRIEF`].
pub fn brief(name: &str) -> String {
    shorten(&clean(name), BRIEF).into_owned()
}

/// Returns a text in which each word is no longer than [`BRIEF`]: a message with names in it, of which it is not
/// known where they begin.
pub fn shorten_words(text: &str) -> Cow<'_, str> {
    if text.len() <= BRIEF {
        return Cow::Borrowed(text);
    }
    let words = text.split_inclusive(char::is_whitespace);
    let cut = words.map(|word| {
        let bare = word.trim_end();
        [shorten(bare, BRIEF), Cow::Borrowed(&word[bare.len()..])].concat()
    });
    Cow::Owned(cut.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_lose_their_middle() {
        assert!(matches!(shorten("abc", 3), Cow::Borrowed("abc")));
        assert_eq!(shorten("/abcdefghij", 7), "/a…ghij");
        assert_eq!(shorten("äöüäöüäöü", 4), "ä…öü");
        for most in 0..5 {
            assert!(shorten("äöüäöüäöü", most).chars().count() <= most.max(1));
        }
        let path = format!("/{}/lib.so", "d/".repeat(2000));
        assert_eq!(brief(&path).chars().count(), BRIEF);
        assert!(brief(&path).ends_with("/d//lib.so"));
        let text = shorten_words(&format!("cannot read {path}: no such file\n")).into_owned();
        assert!(
            text.starts_with("cannot read /d/d/") && text.ends_with("lib.so: no such file\n"),
            "{text}"
        );
        assert!(text.chars().count() < 250, "{text}");
    }

    #[test]
    fn characters_without_a_shape_go_joiners_stay() {
        assert_eq!(
            clean("ma\u{200b}in\u{e0041}\u{feff}"),
            "ma\u{fffd}in\u{fffd}\u{fffd}"
        );
        assert!(matches!(clean("می\u{200c}خواهم"), Cow::Borrowed(_)));
    }

    #[test]
    fn escapes_and_marks_go_letters_stay() {
        assert!(matches!(clean("Größe<α>"), Cow::Borrowed(_)));
        assert_eq!(
            clean("a\x1b[2Jb\nc\u{202e}d\u{9b}"),
            "a\u{fffd}[2Jb\u{fffd}c\u{fffd}d\u{fffd}"
        );
    }
}
