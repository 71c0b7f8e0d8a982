//! Sanitizes untrusted names for output.
//!
//! Profiled programs choose the names of functions, files and threads. On a terminal, an escape
//! sequence in a name acts like typed input. In folded text, a newline ends the line.

use std::borrow::Cow;

/// Matches unsafe characters: control characters (C0, DEL, C1), line and paragraph separators,
/// bidirectional marks, and invisible characters, which make two names look equal. The joiners of
/// Persian, Hindi and emoji are safe.
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

/// Replaces every unsafe character of a name with `U+FFFD`.
pub fn clean(name: &str) -> Cow<'_, str> {
    match name.contains(is_unsafe) {
        true => Cow::Owned(name.replace(is_unsafe, "\u{fffd}")),
        false => Cow::Borrowed(name),
    }
}

/// Maximum length of a name in a message, in characters.
pub const BRIEF: usize = 200;

/// Shortens a name to `most` characters by replacing its middle with `…`. Keeps twice as much of
/// the end as of the beginning, because the end of a path identifies it better.
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

/// Returns a clean name of at most [`BRIEF`] characters, for a message.
pub fn brief(name: &str) -> String {
    shorten(&clean(name), BRIEF).into_owned()
}

/// Quotes a word for a shell if necessary. Bytes that are no clean text become escapes of bash, zsh
/// and ksh (`$'a\nb'`), so that the command works and a terminal shows it safely.
///
/// ```
/// use rprof_export::clean::shell_word;
///
/// assert_eq!(shell_word(b"perf.data"), "perf.data");
/// assert_eq!(shell_word(b"a b.data"), "'a b.data'");
/// assert_eq!(shell_word(b"a\nb\xff'"), r"$'a\nb\xff\''");
/// ```
pub fn shell_word(word: &[u8]) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:,+=@%".contains(c);
    match std::str::from_utf8(word) {
        Ok(text) if !text.is_empty() && text.chars().all(is_plain) => text.to_owned(),
        Ok(text) if !text.contains(is_unsafe) => format!("'{}'", text.replace('\'', r"'\''")),
        _ => format!("$'{}'", word.escape_ascii()),
    }
}

/// Shortens each word of a message to [`BRIEF`] characters, for messages with embedded names.
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
