//! Protocol buffer fields (<https://protobuf.dev/programming-guides/encoding/>), borrowed from the
//! input.

/// Value of a field, by its wire type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// Fixed-size numbers, which no supported format uses.
    Fixed,
}

/// Fields of a message, in order. Damage ends the iterator with an error.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
    was_cut: bool,
}

pub(crate) const CUT: &str = "a message is truncated or malformed";

impl<'a> Fields<'a> {
    pub(crate) fn new(message: &'a [u8]) -> Fields<'a> {
        Fields {
            rest: message,
            was_cut: false,
        }
    }

    /// Returns true if the last error was a field that extends beyond the end, not an invalid one.
    pub(crate) fn was_cut(&self) -> bool {
        self.was_cut
    }

    fn field(&mut self) -> Option<(u64, Value<'a>)> {
        self.was_cut = true;
        let key = number(&mut self.rest)?;
        let tag = key >> 3;
        if tag == 0 || key & 7 > 5 || matches!(key & 7, 3 | 4) {
            self.was_cut = false;
            return None;
        }
        let value = match key & 7 {
            0 => Value::Number(number(&mut self.rest)?),
            1 => self.skip(8)?,
            2 => {
                let len = usize::try_from(number(&mut self.rest)?).ok()?;
                let (bytes, rest) = self.rest.split_at_checked(len)?;
                self.rest = rest;
                Value::Bytes(bytes)
            }
            5 => self.skip(4)?,
            _ => return None,
        };
        self.was_cut = false;
        Some((tag, value))
    }

    fn skip(&mut self, len: usize) -> Option<Value<'a>> {
        self.rest = self.rest.get(len..)?;
        Some(Value::Fixed)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.rest = &[];
        }
        Some(field.ok_or_else(|| CUT.to_owned()))
    }
}

impl<'a> Value<'a> {
    /// Returns a number, or 0 for other types.
    pub(crate) fn number(self) -> u64 {
        match self {
            Value::Number(number) => number,
            _ => 0,
        }
    }

    /// Returns the bytes of a string or message, or empty for other types.
    pub(crate) fn bytes(self) -> &'a [u8] {
        match self {
            Value::Bytes(bytes) => bytes,
            _ => &[],
        }
    }

    /// Appends a number or a packed list of numbers, up to `most`.
    pub(crate) fn numbers(self, most: usize, out: &mut Vec<u64>) -> Result<(), String> {
        match self {
            Value::Number(number) if out.len() < most => out.push(number),
            Value::Number(_) => {}
            Value::Bytes(mut bytes) => {
                while !bytes.is_empty() && out.len() < most {
                    out.push(number(&mut bytes).ok_or(CUT)?);
                }
            }
            Value::Fixed => return Err(CUT.to_owned()),
        }
        Ok(())
    }
}

/// Reads a varint of at most 10 bytes.
fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for (nth, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * nth);
        if byte & 0x80 == 0 {
            *bytes = &bytes[nth + 1..];
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_and_damage_ends_them() {
        let message = [
            0x08, 0x96, 0x01, 0x12, 0x02, b'h', b'i', 0x1a, 0x03, 1, 0x80, 0x01,
        ];
        let fields: Vec<_> = Fields::new(&message).map(Result::unwrap).collect();
        assert_eq!(fields[0], (1, Value::Number(150)));
        assert_eq!(fields[1].1.bytes(), b"hi");
        let mut numbers = Vec::new();
        fields[2].1.numbers(9, &mut numbers).unwrap();
        assert_eq!(numbers, [1, 128]);
        fields[2].1.numbers(3, &mut numbers).unwrap();
        assert_eq!(numbers, [1, 128, 1]);
        for cut in [1, 2, 4, 6, 8, 11] {
            assert!(
                Fields::new(&message[..cut]).any(|field| field.is_err()),
                "{cut}"
            );
        }
        // An endless varint, and a group, which is obsolete.
        for damage in [&[0xff; 12][..], &[0x0b, 0x0c], &[0x00, 0x00]] {
            assert!(Fields::new(damage).last().unwrap().is_err());
        }
    }
}
