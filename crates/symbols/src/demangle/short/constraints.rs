//! C++20 constraints in names of functions (Clang 17 and GCC 14): they are checked, and not shown.
//!
//! Concepts of template parameters are written between [`OPEN`] and [`CLOSE`] until the name is
//! complete, because back references may point into them. Source: "Template parameter
//! declarations" and "Constraints" in the Itanium C++ ABI.

use super::Short;
use super::words::OPERATORS;

/// Begins a text that is removed at the end. Identifiers with this character are refused.
pub(super) const OPEN: char = '\u{1}';
/// Ends it.
pub(super) const CLOSE: char = '\u{2}';

/// Returns true if `mangled` is a requires clause, without its `Q`, up to a clone suffix.
pub(in crate::demangle) fn is_requires_clause(mangled: &str) -> bool {
    let mut short = Short::new(mangled);
    short.pass_expression().is_some() && matches!(short.peek(), None | Some(b'.'))
}

/// Stands for the type of a conversion operator that is its first template argument.
pub(super) const CONVERSION: char = '\u{3}';

/// Writes the type of a conversion operator: `operator int<int>`.
pub(super) fn with_conversion(name: String) -> Option<String> {
    let Some((before, arguments)) = name.split_once(CONVERSION) else {
        return Some(name);
    };
    let mut depth = 0_usize;
    let end = arguments.find(|letter| {
        match letter {
            '<' | '(' | '{' | '[' => depth += 1,
            '>' | ')' | '}' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 || depth == 1 && letter == ','
    })?;
    let first = arguments.get(1..end)?.trim_end();
    Some([before, first, arguments].concat())
}

pub(super) fn without_hidden(text: String) -> String {
    if !text.contains(OPEN) {
        return text;
    }
    let mut depth = 0_usize;
    let is_shown = |letter: &char| match *letter {
        OPEN => {
            depth += 1;
            false
        }
        CLOSE => {
            depth = depth.saturating_sub(1);
            false
        }
        _ => depth == 0,
    };
    text.chars().filter(is_shown).collect()
}

impl Short<'_> {
    /// Parses declarations of template parameters before an argument, such as `Tk5Small`.
    pub(super) fn declarations(&mut self) -> Option<()> {
        while let [b'T', b'k' | b'y' | b'n' | b't' | b'p', ..] = self.rest {
            let is_outer = std::mem::replace(&mut self.is_hidden, true);
            self.out.push(OPEN);
            let declared = self.deeper(Self::declaration);
            self.out.push(CLOSE);
            self.is_hidden = is_outer;
            declared?;
        }
        Some(())
    }

    fn declaration(&mut self) -> Option<()> {
        self.eat(b'T').then_some(())?;
        match self.next()? {
            b'y' => Some(()),
            b'k' => self.concept(),
            b'n' if matches!(self.rest, [b'D', b'k' | b'K', ..]) => {
                self.rest = &self.rest[2..];
                self.concept()
            }
            b'n' => self.a_type(),
            b'p' => self.deeper(Self::declaration),
            b't' => {
                while !self.eat(b'E') {
                    self.deeper(Self::declaration)?;
                }
                Some(())
            }
            _ => None,
        }
    }

    /// Parses the name of a concept. Like a function's name, it is no substitution candidate.
    fn concept(&mut self) -> Option<()> {
        let flags = (self.ends_with_arguments, self.ends_with_constructor);
        match self.peek()? {
            b'N' => self.nested(true)?,
            _ => self.unscoped(true)?,
        }
        (self.ends_with_arguments, self.ends_with_constructor) = flags;
        Some(())
    }

    /// Skips a requires clause that ends a name: `Q` and an expression.
    pub(super) fn pass_requires_clause(&mut self) -> Option<()> {
        if self.eat(b'Q') {
            self.pass_expression()?;
        }
        Some(())
    }

    pub(super) fn pass_expression(&mut self) -> Option<()> {
        self.deeper(|short| {
            match short.rest {
                [b'L', ..] => return short.pass_literal(),
                [b'T', ..] => return short.pass_reference(),
                [b'0'..=b'9', ..] => return short.pass_simple_id(),
                [b'f', b'p' | b'L', ..] => return short.pass_function_parameter(),
                [b's', b'r', ..] => return short.pass_scoped_id(),
                [b'r', b'q' | b'Q', ..] => return short.pass_requirements(),
                _ => {}
            }
            let (code, rest) = short.rest.split_first_chunk::<2>()?;
            short.rest = rest;
            match code {
                b"st" | b"at" | b"ti" => short.pass_type(),
                b"sz" | b"az" | b"nx" | b"te" | b"tw" | b"sp" => short.pass_expression(),
                b"sZ" => short.pass_reference(),
                b"cl" => {
                    short.pass_expression()?;
                    short.pass_expressions()
                }
                b"cv" => {
                    short.pass_type()?;
                    match short.eat(b'_') {
                        true => short.pass_expressions(),
                        false => short.pass_expression(),
                    }
                }
                b"tl" => {
                    short.pass_type()?;
                    short.pass_expressions()
                }
                b"il" => short.pass_expressions(),
                b"dt" | b"pt" => {
                    short.pass_expression()?;
                    short.pass_simple_id()
                }
                b"qu" => {
                    short.pass_expression()?;
                    short.pass_expression()?;
                    short.pass_expression()
                }
                b"fl" | b"fr" => {
                    short.rest = short.rest.get(2..)?;
                    short.pass_expression()
                }
                b"fR" => {
                    short.rest = short.rest.get(2..)?;
                    short.pass_expression()?;
                    short.pass_expression()
                }
                b"nt" | b"ng" | b"ps" | b"ad" | b"de" | b"co" => short.pass_expression(),
                b"pp" | b"mm" => {
                    short.eat(b'_');
                    short.pass_expression()
                }
                _ if OPERATORS.iter().any(|(known, _)| *known == code) || code == b"ss" => {
                    short.pass_expression()?;
                    short.pass_expression()
                }
                _ => None,
            }
        })
    }

    /// Skips expressions up to `E`.
    fn pass_expressions(&mut self) -> Option<()> {
        while !self.eat(b'E') {
            self.pass_expression()?;
        }
        Some(())
    }

    fn pass_literal(&mut self) -> Option<()> {
        self.rest = self.rest.get(1..)?;
        self.pass_type()?;
        self.eat(b'n');
        let is_digit = |byte: &&u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
        let digits = self.rest.iter().take_while(is_digit).count();
        self.rest = &self.rest[digits..];
        self.eat(b'E').then_some(())
    }

    /// Skips an identifier with template arguments: `5SmallIT_E`.
    fn pass_simple_id(&mut self) -> Option<()> {
        self.pass_identifier()?;
        match self.peek() {
            Some(b'I') => self.pass_arguments(),
            _ => Some(()),
        }
    }

    /// Skips `fp_`, `fp0_`, `fL0p_`, `fL1p0_`.
    fn pass_function_parameter(&mut self) -> Option<()> {
        self.rest = self.rest.get(1..)?;
        if self.eat(b'L') {
            self.number()?;
        }
        self.eat(b'p').then_some(())?;
        while self.peek()? != b'_' {
            if !matches!(self.next()?, b'K' | b'V' | b'r' | b'0'..=b'9') {
                return None;
            }
        }
        self.eat(b'_').then_some(())
    }

    /// Skips a qualified name: `sr3stdE8integralIT_E`, `sr2nsE3BigIT_E`, `srT_5value`.
    fn pass_scoped_id(&mut self) -> Option<()> {
        self.rest = self.rest.get(2..)?;
        if self.eat(b'N') {
            self.pass_type()?;
            while !self.eat(b'E') {
                self.pass_simple_id()?;
            }
        } else if self.peek()?.is_ascii_digit() {
            while !self.eat(b'E') {
                self.pass_simple_id()?;
            }
        } else {
            self.pass_type()?;
        }
        self.pass_simple_id()
    }

    /// Skips a requires expression: `rq`, or `rQ` with parameters up to `_`, requirements, `E`.
    fn pass_requirements(&mut self) -> Option<()> {
        let has_parameters = self.rest.get(1) == Some(&b'Q');
        self.rest = self.rest.get(2..)?;
        while has_parameters && !self.eat(b'_') {
            self.pass_type()?;
        }
        while !self.eat(b'E') {
            match self.next()? {
                b'X' => {
                    self.pass_expression()?;
                    self.eat(b'N');
                    if self.eat(b'R') {
                        self.pass_type()?;
                    }
                }
                b'T' => self.pass_type()?,
                b'Q' => self.pass_expression()?,
                _ => return None,
            }
        }
        Some(())
    }
}
