//! Fields of a payload.

use crate::types;

/// Shape of a field in the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// Single value of `size` bytes.
    Scalar,
    /// Array of consecutive values.
    Array {
        /// Size of a value in bytes.
        element: u32,
    },
    /// Word with offset (low 16 bits) and length in bytes (high 16 bits) of an array.
    Dynamic {
        /// Size of an element in bytes.
        element: u32,
        /// True if the offset counts from the end of the field (`__rel_loc`), false if it counts
        /// from the start of the payload (`__data_loc`).
        relative: bool,
    },
}

/// A field of a tracepoint's payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name of the field, as in the format file.
    pub name: String,
    /// Type as C text, without name and bounds.
    pub type_name: String,
    /// Byte offset in the payload.
    pub offset: u32,
    /// Size in bytes; 0 for an array over the rest of the payload.
    pub size: u32,
    /// True for signed integers.
    pub signed: bool,
    /// Scalar, array, or dynamic array.
    pub kind: FieldKind,
    /// True for the `common_` fields of every tracepoint.
    pub common: bool,
}

impl Field {
    /// Parses `TYPE NAME[BOUND]; offset:N; size:N; signed:N;`. `long_size` is the bytes of a `long`
    /// on the recording machine.
    pub(crate) fn parse(text: &str, long_size: u8) -> Option<Field> {
        let mut parts = text.split(';').map(str::trim);
        let declaration = parts.next()?;
        let (mut offset, mut size, mut signed) = (None, None, None);
        for part in parts {
            let Some((key, value)) = part.split_once(':') else {
                continue;
            };
            let value = value.trim().parse::<u32>().ok();
            match key {
                "offset" => offset = value,
                "size" => size = value,
                "signed" => signed = value,
                _ => {}
            }
        }
        let (offset, size) = (offset?, size?);
        // The bound follows the name (`char comm[16]`), or the type in dynamic arrays (`__data_loc
        // char[] name`).
        let (without_bound, bound) = match (declaration.find('['), declaration.rfind(']')) {
            (Some(open), Some(close)) if open < close => {
                let rest = [&declaration[..open], " ", &declaration[close + 1..]].concat();
                (rest, Some(declaration[open + 1..close].trim()))
            }
            _ => (declaration.to_owned(), None),
        };
        let without_bound = without_bound.trim();
        let name_at = (without_bound.rfind(|c: char| !(c.is_ascii_alphanumeric() || c == '_')))
            .map_or(0, |at| at + 1);
        let (type_text, name) = without_bound.split_at_checked(name_at)?;
        (!name.is_empty()).then_some(())?;
        let words: Vec<&str> = (type_text.split([' ', '\t', '*']))
            .filter(|w| {
                !w.is_empty() && !w.starts_with("__data_loc") && !w.starts_with("__rel_loc")
            })
            .collect();
        let stars = type_text.matches('*').count();
        let element =
            types::parse(&words, stars, long_size).and_then(|t| types::size(t, long_size));
        let by_type = element.map_or(1, u32::from);
        let relative = type_text.contains("__rel_loc");
        let kind = if relative || type_text.contains("__data_loc") {
            FieldKind::Dynamic {
                element: by_type,
                relative,
            }
        } else {
            match bound {
                None => FieldKind::Scalar,
                Some(bound) => FieldKind::Array {
                    element: match bound.parse::<u32>() {
                        Ok(count) if count > 0 && size >= count => size / count,
                        _ => by_type,
                    },
                },
            }
        };
        // Kernels before 2.6.32 have no `signed`.
        let signed = signed.map_or_else(
            || !type_text.contains("unsigned") && !type_text.trim_start().starts_with('u'),
            |s| s != 0,
        );
        Some(Field {
            common: name.starts_with("common_"),
            name: name.to_owned(),
            type_name: type_text.trim().to_owned(),
            offset,
            size,
            signed,
            kind,
        })
    }
}
