//! Independent decoder of protocol buffers (<https://protobuf.dev/programming-guides/encoding/>).

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Field {
    Number(u64),
    Fixed(u64),
    Bytes(Vec<u8>),
}

impl Field {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Field::Bytes(bytes) => bytes,
            other => panic!("bytes were expected: {other:?}"),
        }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.bytes().to_vec()).expect("strings are UTF-8")
    }

    pub(crate) fn number(&self) -> u64 {
        match self {
            Field::Number(number) | Field::Fixed(number) => *number,
            other => panic!("a number was expected: {other:?}"),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Message(Vec<(u64, Field)>);

impl Message {
    /// Parses a message with these fields. Any other field is a failure.
    pub(crate) fn read(mut bytes: &[u8], name: &str, known: &[u64]) -> Message {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let (tag, kind) = (key >> 3, key & 7);
            assert!(known.contains(&tag), "{name} has no field {tag}");
            let field = match kind {
                0 => Field::Number(varint(&mut bytes)),
                1 => {
                    let (eight, rest) = bytes.split_first_chunk().expect("eight bytes");
                    bytes = rest;
                    Field::Fixed(u64::from_le_bytes(*eight))
                }
                2 => {
                    let len = varint(&mut bytes) as usize;
                    let (value, rest) = bytes.split_at(len);
                    bytes = rest;
                    Field::Bytes(value.to_vec())
                }
                other => panic!("{name}: wire type {other} of field {tag}"),
            };
            fields.push((tag, field));
        }
        Message(fields)
    }

    pub(crate) fn all(&self, tag: u64) -> impl Iterator<Item = &Field> {
        let fields = self.0.iter();
        fields
            .filter(move |(known, _)| *known == tag)
            .map(|(_, field)| field)
    }

    pub(crate) fn one(&self, tag: u64) -> &Field {
        let all: Vec<&Field> = self.all(tag).collect();
        assert_eq!(all.len(), 1, "field {tag} in {self:?}");
        all[0]
    }

    pub(crate) fn number(&self, tag: u64) -> u64 {
        self.all(tag).last().map_or(0, Field::number)
    }

    pub(crate) fn packed(&self, tag: u64) -> Vec<u64> {
        let mut numbers = Vec::new();
        for field in self.all(tag) {
            let mut bytes = field.bytes();
            while !bytes.is_empty() {
                numbers.push(varint(&mut bytes));
            }
        }
        numbers
    }
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().expect("a number goes on");
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return number;
        }
    }
    panic!("a number without an end");
}
