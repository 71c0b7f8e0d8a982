//! [`Heap`]: objects of V8's heap.
//!
//! A tagged word is a pointer to an object with 1 added, or a small integer in the upper half
//! ("Smi"). The first word of an object points to its map, which holds the type number.

use super::layout::Layout;
use crate::snapshot::{Fault, Result, Snapshot};

/// Maximum number of steps through the parts of a string.
const MAX_PARTS: usize = 64;

const ONE_BYTE: u16 = 8;
const UNCACHED: u16 = 16;

/// Returns true for a tagged pointer to an object.
pub(super) const fn is_object(word: u64) -> bool {
    word & 3 == 1
}

/// Returns the value of a tagged small integer.
pub(super) const fn smi(word: u64) -> Option<i32> {
    match word as u32 {
        0 => Some((word >> 32) as i32),
        _ => None,
    }
}

/// Characters of a flat string in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlatString {
    pub(super) avma: u64,
    /// Number of characters.
    pub(super) len: usize,
    pub(super) is_one_byte: bool,
}

/// Heap of one process.
pub(super) struct Heap<'a> {
    pub(super) layout: &'a Layout,
    pub(super) memory: &'a mut Snapshot,
}

impl Heap<'_> {
    /// Returns a word of an object.
    pub(super) fn field(&mut self, object: u64, offset: u64) -> Result<u64> {
        self.memory.u64(address(object, offset)?)
    }

    /// Returns a half word of an object.
    pub(super) fn half(&mut self, object: u64, offset: u64) -> Result<u32> {
        self.memory.u32(address(object, offset)?)
    }

    /// Returns the type number of an object. Objects that the garbage collector has moved have no
    /// map.
    pub(super) fn type_of(&mut self, object: u64) -> Result<u16> {
        let map = self.field(object, 0)?;
        let avma = address(map, self.layout.map_type)?;
        self.memory.u16(avma)
    }

    /// Returns where an object is. The garbage collector leaves the new address in place of the map
    /// when it moves a young object.
    pub(super) fn moved(&mut self, object: u64) -> Result<u64> {
        let map = self.field(object, 0)?;
        match map & 3 == 0 && map != 0 {
            true => Ok(map | 1),
            false => Ok(object),
        }
    }

    /// Returns the object if it has this type.
    pub(super) fn of_type(&mut self, object: u64, number: u16) -> Result<u64> {
        match self.type_of(object)? == number {
            true => Ok(object),
            false => Err(Fault::Invalid),
        }
    }

    /// Returns the beginning of a string's contents, at most this number of UTF-16 units.
    pub(super) fn string(&mut self, string: u64, limit: usize) -> Result<String> {
        let mut units = Vec::new();
        // Strings to append, the next one last, each with a range.
        let mut parts = vec![(string, 0, usize::MAX)];
        for _ in 0..MAX_PARTS {
            let left = limit.saturating_sub(units.len());
            let Some((part, start, len)) = parts.pop().filter(|_| left > 0) else {
                break;
            };
            match self.part(part)? {
                Part::Flat(flat) => {
                    let len = len.min(flat.len.saturating_sub(start)).min(left);
                    self.append(flat, start, len, &mut units)?;
                }
                Part::Slice(parent, offset) => {
                    let whole = self.length(part)?;
                    let len = len.min(whole.saturating_sub(start));
                    parts.push((parent, start.saturating_add(offset), len));
                }
                Part::Same(actual) => parts.push((actual, start, len)),
                Part::Pair(first, second) => {
                    let middle = self.length(first)?;
                    let in_first = middle.saturating_sub(start);
                    if len > in_first {
                        let rest = start.saturating_sub(middle);
                        parts.push((second, rest, len - in_first));
                    }
                    if in_first > 0 {
                        parts.push((first, start, len));
                    }
                }
            }
        }
        Ok(String::from_utf16_lossy(&units))
    }

    /// Returns the place of a string's characters, if they are in one piece.
    pub(super) fn flat(&mut self, mut string: u64) -> Result<FlatString> {
        for _ in 0..MAX_PARTS {
            match self.part(string)? {
                Part::Flat(flat) => return Ok(flat),
                Part::Same(actual) => string = actual,
                // A flattened pair has an empty second half.
                Part::Pair(first, second) if self.length(second)? == 0 => string = first,
                Part::Pair(..) | Part::Slice(..) => break,
            }
        }
        Err(Fault::Invalid)
    }

    fn length(&mut self, string: u64) -> Result<usize> {
        let len = self.half(string, self.layout.string_length)?;
        usize::try_from(len).map_err(|_| Fault::Invalid)
    }

    fn part(&mut self, string: u64) -> Result<Part> {
        let number = self.type_of(string)?;
        if number >= self.layout.first_nonstring {
            return Err(Fault::Invalid);
        }
        let layout = *self.layout;
        let is_one_byte = number & ONE_BYTE != 0;
        // The representation, `kStringRepresentationMask`.
        match number & 7 {
            0 => Ok(Part::Flat(FlatString {
                avma: address(string, layout.string_chars)?,
                len: self.length(string)?,
                is_one_byte,
            })),
            1 => Ok(Part::Pair(
                self.field(string, layout.cons_first)?,
                self.field(string, layout.cons_second)?,
            )),
            2 if number & UNCACHED == 0 => Ok(Part::Flat(FlatString {
                avma: self.field(string, layout.external_data)?,
                len: self.length(string)?,
                is_one_byte,
            })),
            3 => {
                let offset = smi(self.field(string, layout.sliced_offset)?);
                let offset = offset.and_then(|offset| usize::try_from(offset).ok());
                let parent = self.field(string, layout.sliced_parent)?;
                Ok(Part::Slice(parent, offset.ok_or(Fault::Invalid)?))
            }
            5 => Ok(Part::Same(self.field(string, layout.thin_actual)?)),
            _ => Err(Fault::Invalid),
        }
    }

    fn append(
        &mut self,
        flat: FlatString,
        start: usize,
        len: usize,
        units: &mut Vec<u16>,
    ) -> Result<()> {
        let unit = if flat.is_one_byte { 1 } else { 2 };
        let mut bytes = vec![0; len * unit];
        let avma = flat
            .avma
            .wrapping_add((start as u64).wrapping_mul(unit as u64));
        self.memory.copy(avma, &mut bytes)?;
        match flat.is_one_byte {
            true => units.extend(bytes.iter().map(|byte| u16::from(*byte))),
            false => {
                let (pairs, _) = bytes.as_chunks();
                units.extend(pairs.iter().map(|pair| u16::from_le_bytes(*pair)));
            }
        }
        Ok(())
    }
}

/// How a string is stored.
enum Part {
    Flat(FlatString),
    Pair(u64, u64),
    Slice(u64, usize),
    Same(u64),
}

/// Returns the address of a field.
fn address(object: u64, offset: u64) -> Result<u64> {
    match is_object(object) {
        true => Ok(object.wrapping_sub(1).wrapping_add(offset)),
        false => Err(Fault::Invalid),
    }
}
