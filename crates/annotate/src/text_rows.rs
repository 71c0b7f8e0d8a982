//! Selection and width of rows on a terminal.

use rprof_export::clean::clean;

/// Number of rows without samples to show around those with samples.
const CONTEXT: usize = 4;

/// Minimum gap: the line that replaces the rows takes a row as well.
const MIN_GAP: usize = 3;

pub(crate) fn shown(is_hot: &[bool], all: bool) -> Vec<bool> {
    let mut shown = vec![all; is_hot.len()];
    for (at, _) in is_hot.iter().enumerate().filter(|(_, hot)| **hot) {
        let end = (at + CONTEXT + 1).min(shown.len());
        shown[at.saturating_sub(CONTEXT)..end].fill(true);
    }
    let mut at = 0;
    while at < shown.len() {
        let hidden = shown[at..].iter().take_while(|shown| !**shown).count();
        if (1..MIN_GAP).contains(&hidden) {
            shown[at..at + hidden].fill(true);
        }
        at += hidden.max(1);
    }
    shown
}

/// Sanitizes a source line and expands its tabs.
pub(crate) fn legible(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    for c in line.chars() {
        match c {
            '\t' => {
                let to = 8 - text.chars().count() % 8;
                text.push_str(&" ".repeat(to));
            }
            c => text.push(c),
        }
    }
    clean(&text).into_owned()
}

/// Returns the printed width of a text, without colour codes.
pub(crate) fn shown_width(text: &str) -> usize {
    let mut width = 0;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            // The only escape sequences are styles, which end in `m`.
            '\x1b' => drop(chars.find(|c| *c == 'm')),
            _ => width += 1,
        }
    }
    width
}

/// Truncates a text to a width. `…` is its last character.
pub(crate) fn cut(text: &str, width: usize) -> String {
    let mut out = String::new();
    let (mut left, mut is_style) = (width.saturating_sub(1), false);
    for c in text.chars() {
        is_style |= c == '\x1b';
        if is_style {
            out.push(c);
            is_style = c != 'm';
            continue;
        }
        if left == 0 {
            break;
        }
        out.push(c);
        left -= 1;
    }
    out.push('…');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_without_samples_are_left_out_but_for_neighbours() {
        let mut is_hot = vec![false; 30];
        is_hot[10] = true;
        let rows: Vec<usize> = (0..30).filter(|row| shown(&is_hot, false)[*row]).collect();
        assert_eq!(rows, (6..=14).collect::<Vec<_>>());
        is_hot[21] = true;
        assert!(
            shown(&is_hot, false)[6..=25].iter().all(|shown| *shown),
            "no gap of two"
        );
        assert!(shown(&[false; 3], true).iter().all(|shown| *shown));
    }

    #[test]
    fn colours_have_no_width() {
        let text = "\x1b[31m 12.00%\x1b[0m word and more";
        assert_eq!(shown_width(text), 21);
        let short = cut(text, 10);
        assert_eq!(shown_width(&short), 10);
        assert!(short.ends_with('…') && short.starts_with("\x1b[31m 12.00%\x1b[0m"));
    }

    #[test]
    fn source_lines_are_inert() {
        assert_eq!(legible("\tif (x)\x1b[2J"), "        if (x)\u{fffd}[2J");
        assert_eq!(legible("ab\tc"), "ab      c");
    }
}
