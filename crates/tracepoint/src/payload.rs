//! One payload, read by the fields of its description.

use std::cell::Cell;

use rprof_records::Endian;

use crate::field::{Field, FieldKind};
use crate::value::{Bytes, Integer, Value};

/// Bytes of text that one payload may become.
pub(crate) const MAX_TEXT: usize = 1 << 16;

/// A payload with the description of its fields, and a budget of work.
pub(crate) struct Payload<'p> {
    pub(crate) bytes: &'p [u8],
    pub(crate) fields: &'p [Field],
    pub(crate) endian: Endian,
    /// Operations and bytes that evaluation may still spend.
    budget: Cell<usize>,
}

/// Operations and bytes that evaluating one payload may take: some hundred times those of the
/// kernel's own events.
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

    /// Takes from the budget; returns false when it is used up.
    pub(crate) fn spend(&self, work: usize) -> bool {
        let left = self.budget.get().checked_sub(work);
        self.budget.set(left.unwrap_or(0));
        left.is_some()
    }

    fn slice(&self, start: usize, len: usize) -> Option<&'p [u8]> {
        self.bytes.get(start..start.checked_add(len)?)
    }

    /// Returns the bytes of a field; for a dynamic array, its elements. Bytes beyond the payload
    /// are cut off.
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

    /// Returns the value of a field.
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
