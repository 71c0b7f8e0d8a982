//! Types in names of D (D specification, "Type Mangling").

use super::Parser;

impl Parser<'_> {
    pub(super) fn typed(&mut self) -> Option<()> {
        if let Some((word, len)) = self.modifier() {
            self.at += len;
            return self.wrapped(word);
        }
        if self.peek()? == b'Q' {
            return self.follow(Self::typed);
        }
        if let Some(name) = self.basic() {
            return self.write(name);
        }
        if self.eats("Nh") {
            return self.wrapped("__vector");
        }
        let at = self.at;
        match self.next()? {
            b'A' => {
                self.nested(Self::typed)?;
                self.write("[]")
            }
            b'G' => {
                let len = self.number()?;
                self.nested(Self::typed)?;
                self.write(&format!("[{len}]"))
            }
            b'H' => {
                let start = self.out.len();
                self.nested(Self::typed)?;
                let key = self.out.split_off(start);
                self.nested(Self::typed)?;
                self.write(&format!("[{key}]"))
            }
            b'P' if matches!(self.peek()?, b'F' | b'U' | b'W' | b'V' | b'R' | b'Y') => {
                self.function("", " function")
            }
            b'P' => {
                self.nested(Self::typed)?;
                self.write("*")
            }
            b'F' | b'U' | b'W' | b'V' | b'R' | b'Y' => {
                self.at = at;
                self.function("", " function")
            }
            b'D' => {
                let mut modifiers = String::new();
                while let Some((word, len)) = self.modifier() {
                    self.at += len;
                    modifiers.push(' ');
                    modifiers.push_str(word);
                }
                if self.peek()? == b'Q' {
                    // The target is a function type.
                    return self.follow(|parser| parser.function(&modifiers, " delegate"));
                }
                self.function(&modifiers, " delegate")
            }
            b'C' | b'S' | b'E' | b'T' => self.qualified(false).map(|_| ()),
            b'B' => self.tuple(),
            _ => None,
        }
    }

    fn wrapped(&mut self, word: &str) -> Option<()> {
        self.write(word)?;
        self.write("(")?;
        self.nested(Self::typed)?;
        self.write(")")
    }

    fn tuple(&mut self) -> Option<()> {
        if self.peek()?.is_ascii_digit() {
            return self.list("Tuple!(", ")", |parser| parser.nested(Self::typed));
        }
        self.write("Tuple!")?;
        self.parameters()
    }

    /// Parses a function type. The return type is last, and shown first.
    fn function(&mut self, modifiers: &str, kind: &str) -> Option<()> {
        let start = self.out.len();
        let convention = self.calling_convention()?;
        let mut attributes = String::new();
        while let Some(word) = self.attribute() {
            attributes.push(' ');
            attributes.push_str(word);
        }
        self.parameters()?;
        let parameters = self.out.split_off(start);
        self.write(convention)?;
        self.nested(Self::typed)?;
        for part in [&parameters, &attributes, kind, modifiers] {
            self.write(part)?;
        }
        Some(())
    }

    fn basic(&mut self) -> Option<&'static str> {
        let (name, len) = match self.rest().as_bytes() {
            [b'N', b'n', ..] => ("noreturn", 2),
            [b'z', b'i', ..] => ("cent", 2),
            [b'z', b'k', ..] => ("ucent", 2),
            [b'v', ..] => ("void", 1),
            [b'g', ..] => ("byte", 1),
            [b'h', ..] => ("ubyte", 1),
            [b's', ..] => ("short", 1),
            [b't', ..] => ("ushort", 1),
            [b'i', ..] => ("int", 1),
            [b'k', ..] => ("uint", 1),
            [b'l', ..] => ("long", 1),
            [b'm', ..] => ("ulong", 1),
            [b'f', ..] => ("float", 1),
            [b'd', ..] => ("double", 1),
            [b'e', ..] => ("real", 1),
            [b'o', ..] => ("ifloat", 1),
            [b'p', ..] => ("idouble", 1),
            [b'j', ..] => ("ireal", 1),
            [b'q', ..] => ("cfloat", 1),
            [b'r', ..] => ("cdouble", 1),
            [b'c', ..] => ("creal", 1),
            [b'b', ..] => ("bool", 1),
            [b'a', ..] => ("char", 1),
            [b'u', ..] => ("wchar", 1),
            [b'w', ..] => ("dchar", 1),
            [b'n', ..] => ("typeof(null)", 1),
            _ => return None,
        };
        self.at += len;
        Some(name)
    }
}
