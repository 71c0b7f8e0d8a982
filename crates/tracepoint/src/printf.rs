//! Numbers and strings by the rules of printf(3).

use crate::value::{Integer, Number};

/// Maximum width and precision. Larger ones are clamped.
const MAX_WIDTH: usize = 1024;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Width {
    #[default]
    None,
    /// `*`: the next argument.
    Argument,
    Of(usize),
}

/// Flags, width and precision of a conversion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) left: bool,
    pub(crate) zeros: bool,
    pub(crate) alternate: bool,
    /// `+` or a space, in place of a `-`.
    pub(crate) plus: Option<char>,
    pub(crate) width: Width,
    pub(crate) precision: Width,
}

impl Shape {
    /// Parses flags, width and precision after a `%`. Returns them and their length in bytes.
    pub(crate) fn parse(text: &str) -> (Shape, usize) {
        let mut shape = Shape::default();
        let mut at = 0;
        for byte in text.bytes() {
            match byte {
                b'-' => shape.left = true,
                b'0' => shape.zeros = true,
                b'#' => shape.alternate = true,
                b'+' => shape.plus = Some('+'),
                b' ' => shape.plus = shape.plus.or(Some(' ')),
                _ => break,
            }
            at += 1;
        }
        (shape.width, at) = width(text, at);
        if text[at..].starts_with('.') {
            (shape.precision, at) = match width(text, at + 1) {
                (Width::None, at) => (Width::Of(0), at),
                found => found,
            };
        }
        (shape, at)
    }

    pub(crate) fn filled(mut self, mut arguments: impl Iterator<Item = Option<Number>>) -> Shape {
        let mut next = || {
            let argument = arguments.next().flatten();
            argument.map_or(0, |n| n.bits as i32)
        };
        if self.width == Width::Argument {
            let width = next();
            self.left |= width < 0;
            self.width = Width::Of((width.unsigned_abs() as usize).min(MAX_WIDTH));
        }
        if self.precision == Width::Argument {
            self.precision = match usize::try_from(next()) {
                Ok(precision) => Width::Of(precision),
                Err(_) => Width::None,
            };
        }
        self
    }

    fn padded(self, sign: &str, body: &str, zeros: bool) -> String {
        let len = sign.len() + body.chars().count();
        let pad = match self.width {
            Width::Of(width) => width.saturating_sub(len),
            _ => 0,
        };
        match (self.left, zeros) {
            (true, _) => format!("{sign}{body}{:pad$}", ""),
            (false, true) => format!("{sign}{}{body}", "0".repeat(pad)),
            (false, false) => format!("{:pad$}{sign}{body}", ""),
        }
    }

    /// Formats a string. The precision is the maximum length.
    pub(crate) fn text(self, text: &str) -> String {
        let shown = match self.precision {
            Width::Of(most) => text
                .char_indices()
                .nth(most)
                .map_or(text, |(at, _)| &text[..at]),
            _ => text,
        };
        self.padded("", shown, false)
    }

    /// Formats an integer in the form of `letter`, one of `duxXo`.
    pub(crate) fn integer(self, bits: u64, letter: char, of: Integer) -> String {
        let bits = of.of(bits).bits;
        let negative = of.signed && (bits as i64) < 0;
        let magnitude = match negative {
            true => bits.wrapping_neg(),
            false => bits,
        };
        let mut digits = match letter {
            'x' => format!("{magnitude:x}"),
            'X' => format!("{magnitude:X}"),
            'o' => format!("{magnitude:o}"),
            _ => magnitude.to_string(),
        };
        if let Width::Of(least) = self.precision {
            let missing = least.min(MAX_WIDTH).saturating_sub(digits.len());
            digits.insert_str(0, &"0".repeat(missing));
        }
        let sign = match (letter, self.alternate && magnitude != 0) {
            ('x', true) => "0x".into(),
            ('X', true) => "0X".into(),
            ('o', true) if !digits.starts_with('0') => "0".into(),
            ('d', _) if negative => "-".into(),
            ('d', _) => self.plus.map(String::from).unwrap_or_default(),
            _ => String::new(),
        };
        let zeros = self.zeros && self.precision == Width::None;
        self.padded(&sign, &digits, zeros)
    }
}

fn width(text: &str, at: usize) -> (Width, usize) {
    if text[at..].starts_with('*') {
        return (Width::Argument, at + 1);
    }
    let len = text[at..].bytes().take_while(u8::is_ascii_digit).count();
    match text[at..at + len].parse::<usize>() {
        Ok(width) => (Width::Of(width.min(MAX_WIDTH)), at + len),
        Err(_) if len > 0 => (Width::Of(MAX_WIDTH), at + len),
        Err(_) => (Width::None, at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_printf_does() {
        let int = |text: &str, bits: i64, letter, size, signed| {
            let (shape, len) = Shape::parse(text);
            assert_eq!(len, text.len());
            shape.integer(bits as u64, letter, Integer { size, signed })
        };
        // Results of `printf '%…\n'` of coreutils.
        assert_eq!(int("5", -3, 'd', 4, true), "   -3");
        assert_eq!(int("-5", -3, 'd', 4, true), "-3   ");
        assert_eq!(int("05", -3, 'd', 4, true), "-0003");
        assert_eq!(int("+", 3, 'd', 4, true), "+3");
        assert_eq!(int("#010", 255, 'x', 8, false), "0x000000ff");
        assert_eq!(int("#", 0, 'x', 8, false), "0");
        assert_eq!(int("#", 8, 'o', 8, false), "010");
        assert_eq!(int(".3", 7, 'u', 8, false), "007");
        assert_eq!(int("08.3", 7, 'u', 8, false), "     007");
        assert_eq!(int("", -1, 'x', 2, false), "ffff");
        assert_eq!(int("", 300, 'd', 1, true), "44");
        assert_eq!(int("", i64::MIN, 'd', 8, true), "-9223372036854775808");
    }

    #[test]
    fn strings() {
        let text = |shape: &str, text| Shape::parse(shape).0.text(text);
        assert_eq!(text("-4", "ab"), "ab  ");
        assert_eq!(text("4", "ab"), "  ab");
        assert_eq!(text(".1", "ab"), "a");
        assert_eq!(text(".", "ab"), "");
        assert_eq!(text("99999999999999999999999", "").len(), MAX_WIDTH);
    }
}
