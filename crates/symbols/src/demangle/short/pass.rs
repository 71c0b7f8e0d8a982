//! Skips the parts that are not shown: parameter types and return types.

use super::Short;
use super::words::builtin;

impl Short<'_> {
    pub(super) fn pass_type(&mut self) -> Option<()> {
        self.deeper(|short| {
            while matches!(short.peek()?, b'K' | b'P' | b'R' | b'O' | b'V' | b'r') {
                short.rest = &short.rest[1..];
            }
            match short.peek()? {
                b'N' => {
                    short.rest = &short.rest[1..];
                    let mut any = false;
                    while !short.eat(b'E') {
                        match short.peek()? {
                            b'I' if any => short.pass_arguments()?,
                            b'S' if !any => short.pass_reference()?,
                            b'T' if !any => short.pass_reference()?,
                            b'L' => short.rest = &short.rest[1..],
                            _ => short.pass_identifier()?,
                        }
                        any = true;
                    }
                    return any.then_some(());
                }
                b'S' if short.rest.get(1) == Some(&b't') => {
                    short.rest = &short.rest[2..];
                    short.pass_identifier()?;
                }
                b'S' | b'T' => short.pass_reference()?,
                b'0'..=b'9' => short.pass_identifier()?,
                b'F' => {
                    short.rest = &short.rest[1..];
                    while !short.eat(b'E') {
                        short.pass_type()?;
                    }
                    return Some(());
                }
                b'D' if short.rest.get(1) == Some(&b'p') => {
                    short.rest = &short.rest[2..];
                    return short.pass_type();
                }
                // `decltype(nullptr)`, `auto` and `decltype(auto)`.
                b'D' if matches!(short.rest.get(1), Some(b'n' | b'a' | b'c')) => {
                    short.rest = &short.rest[2..];
                    return Some(());
                }
                b'z' => {
                    short.rest = &short.rest[1..];
                    return Some(());
                }
                letter => {
                    builtin(letter)?;
                    short.rest = &short.rest[1..];
                    return Some(());
                }
            }
            match short.peek() {
                Some(b'I') => short.pass_arguments(),
                _ => Some(()),
            }
        })
    }

    pub(super) fn pass_identifier(&mut self) -> Option<()> {
        let len = self.number()?;
        self.rest = self.rest.get(len..)?;
        while self.eat(b'B') {
            let len = self.number()?;
            self.rest = self.rest.get(len..)?;
        }
        (len > 0).then_some(())
    }

    /// Skips a reference: `S_`, `S1_`, `T_`, `Sa`, ...
    pub(super) fn pass_reference(&mut self) -> Option<()> {
        let kind = self.next()?;
        let first = self.next()?;
        if kind == b'S' && matches!(first, b't' | b'a' | b's' | b'b' | b'i' | b'o' | b'd') {
            return Some(());
        }
        let mut letter = first;
        while letter != b'_' {
            if !letter.is_ascii_digit() && !letter.is_ascii_uppercase() {
                return None;
            }
            letter = self.next()?;
        }
        Some(())
    }

    pub(super) fn pass_arguments(&mut self) -> Option<()> {
        self.rest = self.rest.get(1..)?;
        self.deeper(|short| {
            while !short.eat(b'E') {
                match short.peek()? {
                    b'L' => {
                        short.rest = &short.rest[1..];
                        short.pass_type()?;
                        short.eat(b'n');
                        short.number()?;
                        short.eat(b'E').then_some(())?;
                    }
                    b'J' => short.pass_arguments()?,
                    _ => short.pass_type()?,
                }
            }
            Some(())
        })
    }
}
