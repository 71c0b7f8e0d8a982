//! Payload with access to its fields.

use std::cell::Cell;

use rprof_records::Endian;

use crate::field::{Field, FieldKind};
use crate::value::{Bytes, Integer, Value};

/// Maximum text length of one payload, in bytes.
pub(crate) const MAX_TEXT: usize = 1 << 16;

/// Payload with its field descriptions and its work budget.
pub(crate) struct Payload<'p> {
    pub(crate) bytes: &'p [u8],
    pub(crate) fields: &'p [Field],
    pub(crate) endian: Endian,
    /// Remaining operations and bytes.
    budget: Cell<usize>,
}

/// Initial budget of operations and bytes: some hundred times the need of the kernel's own events.
const BUDGET: usize = 1 << 20;

impl<'p> Payload<'p> {
    pub(crate) fn new(bytes: &'p [u8], fields: &'p [Field], endian: Endian) -> Payload<'p> {
        Payload {
            bytes,
            fields,
            endian,
            budget: Cell::new(BUDGET),
        }
    }

    /// Spends budget. Returns false if it is exhausted.
    pub(crate) fn spend(&self, work: usize) -> bool {
        let left = self.budget.get().checked_sub(work);
        self.budget.set(left.unwrap_or(0));
        left.is_some()
    }

    fn slice(&self, start: usize, len: usize) -> Option<&'p [u8]> {
        self.bytes.get(start..start.checked_add(len)?)
    }

    /// Returns the bytes of a field; for a dynamic array, its elements. Truncates them at the end
    /// of the payload.
    pub(crate) fn field_bytes(&self, field: &Field) -> Option<&'p [u8]> {
        let (at, size) = (field.offset as usize, field.size as usize);
        match field.kind {
            FieldKind::Dynamic { relative, .. } => {
                let word = Integer::new(4, false)?
                    .read(self.bytes, at, self.endian)?
                    .bits;
                let (len, mut start) = ((word >> 16) as usize, (word & 0xffff) as usize);
                if relative {
                    start += at + size;
                }
                let end = start.saturating_add(len).min(self.bytes.len());
                self.bytes.get(start.min(end)..end)
            }
            // Size 0: the rest of the payload.
            FieldKind::Array { .. } if size == 0 => self.bytes.get(at..),
            _ => self.slice(at, size),
        }
    }

    pub(crate) fn field(&self, field: &Field) -> Value<'p> {
        let element = match field.kind {
            FieldKind::Scalar => match Integer::new(field.size, field.signed) {
                Some(integer) => {
                    return integer
                        .read(self.bytes, field.offset as usize, self.endian)
                        .into();
                }
                None => Integer::BYTE,
            },
            FieldKind::Array { element } | FieldKind::Dynamic { element, .. } => {
                Integer::new(element, field.signed).unwrap_or(Integer::BYTE)
            }
        };
        match self.field_bytes(field) {
            Some(bytes) => Value::Bytes(Bytes { bytes, element }),
            None => Value::Unknown,
        }
    }
}
