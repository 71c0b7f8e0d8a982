//! Word wrapping for terminals.

/// Wraps text at `width` characters, after the first line at two less, for an indent. Longer words
/// get their own line. Leading blanks stay.
pub fn wrap(text: &str, width: usize) -> Vec<&str> {
    let mut lines = Vec::new();
    let (mut begin, mut end) = (0, 0);
    let mut most = width;
    // With the blanks before each.
    for (at, word) in words(text) {
        let is_first = end == begin;
        if !is_first && text[begin..at + word.len()].chars().count() > most {
            lines.push(&text[begin..end]);
            begin = at;
            most = width.saturating_sub(2);
        }
        end = at + word.len();
    }
    lines.push(&text[begin..end]);
    lines
}

/// Iterates over words with their positions. The first includes leading blanks.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let indent = text.len() - text.trim_start_matches(' ').len();
    let mut at = 0;
    text.split_inclusive(' ').filter_map(move |piece| {
        let begin = at;
        at += piece.len();
        let word = piece.trim_end_matches(' ');
        if begin < indent {
            return None;
        }
        match begin == indent {
            true => Some((0, &text[..begin + word.len()])),
            false => (!word.is_empty()).then_some((begin, word)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrap("one two three", 80), ["one two three"]);
        assert_eq!(wrap("one two three four", 10), ["one two", "three", "four"]);
        assert_eq!(wrap("  one two three", 9), ["  one two", "three"]);
        assert_eq!(
            wrap("a/very/long/path and more", 6),
            ["a/very/long/path", "and", "more"]
        );
        assert_eq!(wrap("größer als", 6), ["größer", "als"]);
        assert_eq!(wrap("", 5), [""]);
        assert_eq!(wrap("one two", 0), ["one", "two"]);
    }
}
