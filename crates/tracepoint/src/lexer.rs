//! Tokens of the C text of a print format.

use std::borrow::Cow;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token<'t> {
    Ident(&'t str),
    /// Number or character constant, and true for unsigned types.
    Number(u64, bool),
    /// String literal, with escapes resolved.
    Text(Cow<'t, str>),
    /// Operator or other punctuation.
    Punct(&'t str),
}

/// Operators of several characters, longest first.
const OPERATORS: [&str; 12] = [
    "...", "->", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "++", "--",
];

pub(crate) fn tokenize(text: &str) -> Option<Vec<Token<'_>>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, len) = match first {
            '"' => text_literal(rest)?,
            '\'' => char_constant(rest)?,
            '0'..='9' => number(rest)?,
            c if c.is_ascii_alphabetic() || c == '_' => {
                let len = word_len(rest);
                (Token::Ident(&rest[..len]), len)
            }
            c if c.is_ascii_punctuation() => {
                let operator = OPERATORS.iter().find(|o| rest.starts_with(**o));
                let len = operator.map_or(1, |o| o.len());
                (Token::Punct(&rest[..len]), len)
            }
            _ => return None,
        };
        tokens.push(token);
        rest = rest[len..].trim_start();
    }
    Some(tokens)
}

fn word_len(text: &str) -> usize {
    text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .unwrap_or(text.len())
}

fn number(text: &str) -> Option<(Token<'_>, usize)> {
    let len = word_len(text);
    let word = text[..len].trim_end_matches(['u', 'U', 'l', 'L']);
    let suffix = &text[word.len()..len];
    let (digits, radix) = match word.strip_prefix("0x").or(word.strip_prefix("0X")) {
        Some(hex) => (hex, 16),
        None if word.len() > 1 && word.starts_with('0') => (&word[1..], 8),
        None => (word, 10),
    };
    let value = u64::from_str_radix(digits, radix).ok()?;
    // A constant too large for a signed type is implicitly unsigned.
    let unsigned = i64::try_from(value).is_err()
        || (suffix.contains(['u', 'U']) && suffix.contains(['l', 'L']));
    Some((Token::Number(value, unsigned), len))
}

/// Parses an escape sequence after its backslash. Returns the character and the length in bytes.
fn escape(text: &str) -> Option<(char, usize)> {
    let first = text.chars().next()?;
    Some(match first {
        'n' => ('\n', 1),
        't' => ('\t', 1),
        'r' => ('\r', 1),
        '0'..='7' => {
            let len = text.len().min(3);
            let digits = text.as_bytes()[..len].iter();
            let len = digits.take_while(|b| (b'0'..=b'7').contains(b)).count();
            let code = u32::from_str_radix(&text[..len], 8).ok()?;
            (char::from_u32(code)?, len)
        }
        'x' => {
            let digits = text[1..].bytes().take(2);
            let len = digits.take_while(u8::is_ascii_hexdigit).count();
            let code = u32::from_str_radix(&text[1..=len], 16).ok()?;
            (char::from_u32(code)?, 1 + len)
        }
        other => (other, other.len_utf8()),
    })
}

fn text_literal(text: &str) -> Option<(Token<'_>, usize)> {
    let body = &text[1..];
    let mut out = Cow::Borrowed("");
    let mut at = 0;
    loop {
        let next = at + body[at..].find(['"', '\\'])?;
        match &mut out {
            Cow::Borrowed(_) if at == 0 => out = Cow::Borrowed(&body[..next]),
            out => out.to_mut().push_str(&body[at..next]),
        }
        if body.as_bytes()[next] == b'"' {
            return Some((Token::Text(out), next + 2));
        }
        let (c, len) = escape(&body[next + 1..])?;
        out.to_mut().push(c);
        at = next + 1 + len;
    }
}

fn char_constant(text: &str) -> Option<(Token<'_>, usize)> {
    let body = &text[1..];
    let (c, len) = match body.strip_prefix('\\') {
        Some(rest) => {
            let (c, len) = escape(rest)?;
            (c, len + 1)
        }
        None => {
            let c = body.chars().next()?;
            (c, c.len_utf8())
        }
    };
    body[len..].starts_with('\'').then_some(())?;
    Some((Token::Number(u64::from(u32::from(c)), false), len + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens() {
        let tokens = tokenize(r#""a\"%d\n", REC->x << 0x1fUL | 'c' 010 "#).unwrap();
        let text = |t| Token::Text(Cow::Borrowed(t));
        use Token::{Ident, Number, Punct};
        assert_eq!(
            tokens,
            [
                text("a\"%d\n"),
                Punct(","),
                Ident("REC"),
                Punct("->"),
                Ident("x"),
                Punct("<<"),
                Number(31, true),
                Punct("|"),
                Number(99, false),
                Number(8, false)
            ]
        );
    }

    #[test]
    fn what_is_no_token_is_refused() {
        for bad in ["\"open", "'ab'", "0xq", "9z", "\u{e4}", "\"\\", "'", "''"] {
            assert_eq!(tokenize(bad), None, "{bad}");
        }
        assert_eq!(tokenize("").unwrap(), []);
    }
}
