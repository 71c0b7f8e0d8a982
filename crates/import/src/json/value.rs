//! Streaming JSON values. Memory for retained values comes from the budget, because a few bytes of
//! text or bits of gzip can encode a table of any length.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io::{self, Read};
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::collector::Collector;

/// Memory reserved for a document.
pub(super) struct Held<'c, 'o> {
    out: RefCell<&'c mut Collector<'o>>,
    bytes: Cell<usize>,
}

impl<'c, 'o> Held<'c, 'o> {
    pub(super) fn new(out: &'c mut Collector<'o>) -> Held<'c, 'o> {
        Held {
            out: RefCell::new(out),
            bytes: Cell::new(0),
        }
    }

    fn hold<E: Error>(&self, bytes: usize) -> Result<(), E> {
        self.bytes.set(self.bytes.get() + bytes);
        self.out.borrow_mut().hold(bytes).map_err(E::custom)
    }

    /// Reads a value into a list, unless it is [unwanted](Value::is_wanted).
    pub(super) fn read_into<'de, T: Value, D: Deserializer<'de>>(
        &self,
        input: D,
        all: &mut Vec<T>,
    ) -> Result<(), D::Error> {
        let before = self.bytes.get();
        let value = T::read(input, self)?;
        match value.is_wanted() {
            true => {
                self.hold::<D::Error>(2 * size_of::<T>())?;
                all.push(value);
            }
            false => self.back_to(before),
        }
        Ok(())
    }

    /// Returns memory beyond this number of bytes to the budget.
    fn back_to(&self, bytes: usize) {
        let beyond = self.bytes.replace(bytes).saturating_sub(bytes);
        self.out.borrow_mut().give_back(beyond);
    }
}

/// Value that can be deserialized.
pub(super) trait Value: Sized {
    fn read<'de, D: Deserializer<'de>>(input: D, held: &Held<'_, '_>) -> Result<Self, D::Error>;

    /// Returns whether a list keeps this value.
    fn is_wanted(&self) -> bool {
        true
    }
}

/// [`Value::read`] as a serde seed.
pub(super) struct Seed<'h, 'c, 'o, T>(&'h Held<'c, 'o>, PhantomData<T>);

impl<'h, 'c, 'o, T> Seed<'h, 'c, 'o, T> {
    pub(super) fn new(held: &'h Held<'c, 'o>) -> Seed<'h, 'c, 'o, T> {
        Seed(held, PhantomData)
    }
}

impl<'de, T: Value> DeserializeSeed<'de> for Seed<'_, '_, '_, T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<T, D::Error> {
        T::read(input, self.0)
    }
}

/// Implements [`Value`] for plain numbers.
macro_rules! plain {
    ($($type:ty),*) => {$(
        impl Value for $type {
            fn read<'de, D: Deserializer<'de>>(input: D, _: &Held<'_, '_>) -> Result<Self, D::Error> {
                <$type>::deserialize(input)
            }
        }
    )*};
}

plain!(f64, Option<f64>, Number, RowNumber);

impl Value for String {
    fn read<'de, D: Deserializer<'de>>(input: D, held: &Held<'_, '_>) -> Result<Self, D::Error> {
        let text = Option::<String>::deserialize(input)?.unwrap_or_default();
        held.hold::<D::Error>(text.len())?;
        Ok(text)
    }
}

/// Value that may be `null`.
impl<T: Value> Value for Option<Box<T>> {
    fn read<'de, D: Deserializer<'de>>(input: D, held: &Held<'_, '_>) -> Result<Self, D::Error> {
        struct OfOption<'h, 'c, 'o, T>(Seed<'h, 'c, 'o, T>);

        impl<'de, T: Value> Visitor<'de> for OfOption<'_, '_, '_, T> {
            type Value = Option<Box<T>>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a value or null")
            }

            fn visit_none<E>(self) -> Result<Self::Value, E> {
                Ok(None)
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(None)
            }

            fn visit_some<D: Deserializer<'de>>(self, input: D) -> Result<Self::Value, D::Error> {
                Ok(Some(Box::new(self.0.deserialize(input)?)))
            }
        }

        held.hold::<D::Error>(size_of::<T>())?;
        input.deserialize_option(OfOption(Seed::new(held)))
    }
}

#[derive(Debug)]
pub(super) struct List<T>(pub(super) Vec<T>);

impl<T> List<T> {
    pub(super) const EMPTY: List<T> = List(Vec::new());
}

impl<T> Default for List<T> {
    fn default() -> Self {
        List::EMPTY
    }
}

impl<T: Value> Value for List<T> {
    fn read<'de, D: Deserializer<'de>>(input: D, held: &Held<'_, '_>) -> Result<Self, D::Error> {
        let mut all = Vec::new();
        for_each(input, held, |value: T| {
            // A full vector doubles its size.
            held.hold::<D::Error>(2 * size_of::<T>())?;
            all.push(value);
            Ok(())
        })?;
        Ok(List(all))
    }
}

/// Reads a list and passes its values on one at a time.
fn for_each<'de, D: Deserializer<'de>, T: Value>(
    input: D,
    held: &Held<'_, '_>,
    take: impl FnMut(T) -> Result<(), D::Error>,
) -> Result<(), D::Error> {
    struct OfList<'h, 'c, 'o, T, F>(&'h Held<'c, 'o>, F, PhantomData<T>);

    impl<'de, T, E, F> Visitor<'de> for OfList<'_, '_, '_, T, F>
    where
        T: Value,
        E: Error,
        F: FnMut(T) -> Result<(), E>,
    {
        type Value = ();

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("a list")
        }

        fn visit_unit<O>(self) -> Result<(), O> {
            Ok(())
        }

        fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
            loop {
                let before = self.0.bytes.get();
                let Some(value) = list.next_element_seed(Seed::<T>::new(self.0))? else {
                    return Ok(());
                };
                match value.is_wanted() {
                    true => (self.1)(value).map_err(A::Error::custom)?,
                    false => self.0.back_to(before),
                }
            }
        }
    }

    input.deserialize_any(OfList(held, take, PhantomData))
}

/// Strings in one buffer.
#[derive(Debug)]
pub(super) struct Strings {
    text: String,
    /// End of each.
    ends: Vec<usize>,
}

impl Strings {
    pub(super) const EMPTY: Strings = Strings {
        text: String::new(),
        ends: Vec::new(),
    };

    /// Returns the string at an index, if it exists.
    pub(super) fn get(&self, number: Option<i64>) -> Option<&str> {
        let number = usize::try_from(number?).ok()?;
        let end = *self.ends.get(number)?;
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.text.get(start..end)
    }
}

impl Value for Strings {
    fn read<'de, D: Deserializer<'de>>(input: D, held: &Held<'_, '_>) -> Result<Self, D::Error> {
        let mut all = Strings::EMPTY;
        for_each(input, held, |text: String| {
            held.hold::<D::Error>(text.len() + 2 * size_of::<usize>())?;
            all.text.push_str(&text);
            all.ends.push(all.text.len());
            Ok(())
        })?;
        Ok(all)
    }
}

/// Row number of a table; `null` or -1 if there is none. An impossible number also counts as none.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowNumber(i32);

impl RowNumber {
    /// Creates a row number. An impossible one is beyond all tables, so that lookups find nothing.
    pub(super) fn new(number: u64) -> RowNumber {
        RowNumber(i32::try_from(number).unwrap_or(i32::MAX))
    }

    /// Returns the number, which may be negative.
    pub(super) fn get(self) -> i64 {
        i64::from(self.0)
    }
}

impl Default for RowNumber {
    fn default() -> Self {
        RowNumber(-1)
    }
}

impl<'de> Deserialize<'de> for RowNumber {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let number = Option::<i64>::deserialize(input)?.unwrap_or(-1);
        Ok(match i32::try_from(number) {
            Ok(number) => RowNumber(number),
            Err(_) => RowNumber::new(u64::MAX),
        })
    }
}

/// Address; `null` or -1 if there is none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Address(i64);

impl Address {
    pub(super) fn get(self) -> Option<u64> {
        u64::try_from(self.0).ok()
    }
}

impl Value for Address {
    fn read<'de, D: Deserializer<'de>>(input: D, _: &Held<'_, '_>) -> Result<Self, D::Error> {
        Ok(Address(Option::<i64>::deserialize(input)?.unwrap_or(-1)))
    }
}

/// Pid or tid, possibly as text: `"7"`, or `"7.1"` for a thread that shares the pid. `None` for
/// anything else.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Number(pub(super) Option<i32>);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        Ok(Number(match Scalar::deserialize(input)? {
            Scalar::Integer(number) => number.try_into().ok(),
            Scalar::Text(text) => text.parse().ok(),
            Scalar::Float(_) | Scalar::Other => None,
        }))
    }
}

/// Value of any type. Lists, objects, `null` and truth values are [`Other`](Scalar::Other).
#[derive(Debug, Default)]
pub(super) enum Scalar {
    Integer(i64),
    Float(f64),
    Text(String),
    #[default]
    Other,
}

impl Scalar {
    /// Returns the text, empty for other types.
    pub(super) fn text(&self) -> &str {
        match self {
            Scalar::Text(text) => text,
            _ => "",
        }
    }

    /// Returns the number, if it is one.
    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Scalar::Integer(number) => Some(*number as f64),
            Scalar::Float(number) => Some(*number),
            Scalar::Text(_) | Scalar::Other => None,
        }
    }
}

impl Value for Scalar {
    fn read<'de, D: Deserializer<'de>>(input: D, held: &Held<'_, '_>) -> Result<Self, D::Error> {
        let value = Scalar::deserialize(input)?;
        held.hold::<D::Error>(value.text().len())?;
        Ok(value)
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct OfScalar;

        impl<'de> Visitor<'de> for OfScalar {
            type Value = Scalar;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a value")
            }

            fn visit_i64<E>(self, number: i64) -> Result<Scalar, E> {
                Ok(Scalar::Integer(number))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Scalar, E> {
                let integer = i64::try_from(number).map(Scalar::Integer);
                Ok(integer.unwrap_or(Scalar::Float(number as f64)))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Scalar, E> {
                Ok(Scalar::Float(number))
            }

            fn visit_bool<E>(self, _: bool) -> Result<Scalar, E> {
                Ok(Scalar::Other)
            }

            fn visit_unit<E>(self) -> Result<Scalar, E> {
                Ok(Scalar::Other)
            }

            fn visit_str<E>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar::Text(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Scalar, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Scalar::Other)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Scalar, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Scalar::Other)
            }
        }

        input.deserialize_any(OfScalar)
    }
}

/// Object where a document may have values of other types: these count as an empty object.
#[derive(Debug, Default)]
pub(super) struct Loose<T>(pub(super) T);

impl<T: Value + Default> Value for Loose<T> {
    fn read<'de, D: Deserializer<'de>>(input: D, held: &Held<'_, '_>) -> Result<Self, D::Error> {
        struct OfLoose<'h, 'c, 'o, T>(&'h Held<'c, 'o>, PhantomData<T>);

        impl<'de, T: Value + Default> Visitor<'de> for OfLoose<'_, '_, '_, T> {
            type Value = T;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a value")
            }

            fn visit_i64<E>(self, _: i64) -> Result<T, E> {
                Ok(T::default())
            }

            fn visit_u64<E>(self, _: u64) -> Result<T, E> {
                Ok(T::default())
            }

            fn visit_f64<E>(self, _: f64) -> Result<T, E> {
                Ok(T::default())
            }

            fn visit_bool<E>(self, _: bool) -> Result<T, E> {
                Ok(T::default())
            }

            fn visit_unit<E>(self) -> Result<T, E> {
                Ok(T::default())
            }

            fn visit_str<E>(self, _: &str) -> Result<T, E> {
                Ok(T::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<T, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(T::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::read(MapAccessDeserializer::new(map), self.0)
            }
        }

        let read = input.deserialize_any(OfLoose(held, PhantomData));
        read.map(Loose)
    }
}

/// Declares structs that are read from JSON objects. Fields come in any order, and unknown keys are
/// ignored.
macro_rules! objects {
    ($($(#[$meta:meta])* struct $name:ident { $($(#[$of_field:meta])* $field:ident: $type:ty = $key:literal,)* })*) => {$(
        $(#[$meta])*
        #[derive(Default)]
        pub(super) struct $name {
            $($(#[$of_field])* pub(super) $field: $type,)*
        }

        impl $name {
            fn read_fields<'de, D: serde::Deserializer<'de>>(
                input: D,
                held: &$crate::json::value::Held<'_, '_>,
            ) -> Result<Self, D::Error> {
                struct OfObject<'h, 'c, 'o>(&'h $crate::json::value::Held<'c, 'o>);

                impl<'de> serde::de::Visitor<'de> for OfObject<'_, '_, '_> {
                    type Value = $name;

                    fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        out.write_str("an object")
                    }

                    fn visit_unit<E>(self) -> Result<$name, E> {
                        Ok($name::default())
                    }

                    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<$name, A::Error> {
                        let mut all = $name::default();
                        while let Some(key) = map.next_key::<String>()? {
                            match key.as_str() {
                                $($key => {
                                    let seed = $crate::json::value::Seed::<$type>::new(self.0);
                                    all.$field = map.next_value_seed(seed)?;
                                })*
                                _ => {
                                    map.next_value::<serde::de::IgnoredAny>()?;
                                }
                            }
                        }
                        Ok(all)
                    }
                }

                input.deserialize_any(OfObject(held))
            }
        }
    )*};
}

/// Implements [`Value`] for objects that lists always keep.
macro_rules! values {
    ($($name:ident),*) => {$(
        impl $crate::json::value::Value for $name {
            fn read<'de, D: serde::Deserializer<'de>>(
                input: D,
                held: &$crate::json::value::Held<'_, '_>,
            ) -> Result<Self, D::Error> {
                $name::read_fields(input, held)
            }
        }
    )*};
}

pub(super) use {objects, values};

/// Maximum length of a string, and maximum nesting depth.
const LONGEST_TEXT: usize = 16 << 20;
const MAX_NESTED: usize = 512;

/// Reader that limits string length and nesting depth, because the parser buffers whole strings.
pub(super) struct Limited<R> {
    input: R,
    is_text: bool,
    is_escaped: bool,
    len: usize,
    depth: usize,
}

impl<R: Read> Limited<R> {
    pub(super) fn new(input: R) -> Limited<R> {
        Limited {
            input,
            is_text: false,
            is_escaped: false,
            len: 0,
            depth: 0,
        }
    }

    fn check(&mut self, bytes: &[u8]) -> io::Result<()> {
        for byte in bytes {
            match (self.is_text, *byte) {
                (true, _) if self.is_escaped => self.is_escaped = false,
                (true, b'\\') => self.is_escaped = true,
                (true, b'"') => (self.is_text, self.len) = (false, 0),
                (true, _) => {
                    self.len += 1;
                    if self.len > LONGEST_TEXT {
                        return Err(io::Error::other("a text is longer than 16 MiB"));
                    }
                }
                (false, b'"') => self.is_text = true,
                (false, b'[' | b'{') => {
                    self.depth += 1;
                    if self.depth > MAX_NESTED {
                        return Err(io::Error::other("it is nested too deeply"));
                    }
                }
                (false, b']' | b'}') => self.depth = self.depth.saturating_sub(1),
                (false, _) => {}
            }
        }
        Ok(())
    }
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.input.read(buffer)?;
        self.check(&buffer[..len])?;
        Ok(len)
    }
}
