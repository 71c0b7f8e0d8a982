//! The build-id: the identity that the linker gives to an ELF file.

use std::fmt;

/// Longest build-id that is accepted. Linkers write 8 (xxhash, fast), 16 (md5, uuid)
/// or 20 (sha1) bytes; `--build-id=0x...` allows any length.
pub const MAX_LEN: usize = 64;

/// The contents of an `NT_GNU_BUILD_ID` note: 1 to [`MAX_LEN`] bytes.
///
/// `perf_event` MMAP2 records carry at most 20 bytes. Two build-ids are compared
/// with [`BuildId::matches`] where one may have passed through such a record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BuildId {
    // Bytes past `len` are zero, so the derived comparisons are right.
    bytes: [u8; MAX_LEN],
    len: u8,
}

impl BuildId {
    /// Takes the bytes of a build-id. `None` if there are none, or more than [`MAX_LEN`].
    #[must_use]
    pub fn new(id: &[u8]) -> Option<Self> {
        if id.is_empty() || id.len() > MAX_LEN {
            return None;
        }
        let mut bytes = [0; MAX_LEN];
        bytes[..id.len()].copy_from_slice(id);
        Some(Self {
            bytes,
            len: id.len() as u8,
        })
    }

    /// Reads hexadecimal digits, two for each byte, upper or lower case.
    #[must_use]
    pub fn from_hex(hex: &str) -> Option<Self> {
        let digits = hex.as_bytes();
        if !digits.len().is_multiple_of(2) || digits.len() > 2 * MAX_LEN {
            return None;
        }
        let digit = |b: u8| char::from(b).to_digit(16);
        let bytes: Option<Vec<u8>> = digits
            .chunks_exact(2)
            .map(|pair| Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8))
            .collect();
        Self::new(&bytes?)
    }

    /// The bytes, 1 to [`MAX_LEN`] of them.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Whether both can be the build-id of one file.
    ///
    /// Equal, or one of them is the other padded with zeros to the 20 bytes of the
    /// perf.data build-id table, which older recorders wrote without a length.
    #[must_use]
    pub fn matches(&self, other: &Self) -> bool {
        let (short, long) = if self.len <= other.len {
            (self, other)
        } else {
            (other, self)
        };
        short.bytes == long.bytes && (short.len == long.len || long.len == 20)
    }

    /// Finds the build-id among ELF notes, as they stand in a `PT_NOTE` segment, a
    /// `SHT_NOTE` section, `/sys/kernel/notes` or `/sys/module/NAME/notes/*`.
    ///
    /// `align` is the alignment of the segment: 8 pads to 8 bytes, all else to 4
    /// (System V ABI, "Note Section"). Damaged notes end the search.
    #[must_use]
    pub fn from_notes(mut notes: &[u8], big_endian: bool, align: u64) -> Option<Self> {
        const NT_GNU_BUILD_ID: u32 = 3;
        let word = |bytes: &[u8]| -> Option<u32> {
            let bytes: [u8; 4] = bytes.get(..4)?.try_into().ok()?;
            Some(if big_endian {
                u32::from_be_bytes(bytes)
            } else {
                u32::from_le_bytes(bytes)
            })
        };
        let align = if align == 8 { 8 } else { 4 };
        loop {
            let name_len = word(notes)? as usize;
            let desc_len = word(notes.get(4..)?)? as usize;
            let kind = word(notes.get(8..)?)?;
            let desc_at = 12_usize
                .checked_add(name_len)?
                .checked_next_multiple_of(align)?;
            let desc_end = desc_at.checked_add(desc_len)?;
            let name = notes.get(12..)?.get(..name_len)?;
            let desc = notes.get(desc_at..desc_end)?;
            if kind == NT_GNU_BUILD_ID && name == b"GNU\0" {
                return Self::new(desc);
            }
            notes = notes.get(desc_end.checked_next_multiple_of(align)?..)?;
        }
    }
}

/// Lower-case hexadecimal, as `file` and `readelf -n` print it.
impl fmt::Display for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes()
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BuildId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(kind: u32, name: &[u8], desc: &[u8]) -> Vec<u8> {
        let mut note = Vec::new();
        for word in [name.len() as u32, desc.len() as u32, kind] {
            note.extend(word.to_le_bytes());
        }
        for part in [name, desc] {
            note.extend(part);
            note.resize(note.len().next_multiple_of(4), 0);
        }
        note
    }

    #[test]
    fn hex_round_trip() {
        let id = BuildId::from_hex("00FFa1").unwrap();
        assert_eq!(id.as_bytes(), [0, 0xff, 0xa1]);
        assert_eq!(id.to_string(), "00ffa1");
        for bad in ["", "1", "zz", "+1"] {
            assert_eq!(BuildId::from_hex(bad), None, "{bad}");
        }
        assert!(BuildId::new(&[1; 65]).is_none());
    }

    #[test]
    fn matches_through_a_padded_table() {
        let short = BuildId::new(&[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
        let mut padded = [0; 20];
        padded[..8].copy_from_slice(short.as_bytes());
        let padded = BuildId::new(&padded).unwrap();
        assert!(short.matches(&padded) && padded.matches(&short) && short.matches(&short));
        assert_ne!(short, padded);
        assert!(!short.matches(&BuildId::new(&[1, 2, 3, 4]).unwrap()));
    }

    #[test]
    fn found_behind_other_notes() {
        let mut notes = note(1, b"GNU\0", &[0; 16]);
        notes.extend(note(3, b"Xen\0", &[9; 8]));
        notes.extend(note(3, b"GNU\0", &[7; 20]));
        assert_eq!(
            BuildId::from_notes(&notes, false, 4),
            BuildId::new(&[7; 20])
        );
        for cut in 0..notes.len() {
            assert_eq!(BuildId::from_notes(&notes[..cut], false, 4), None);
        }
        assert_eq!(BuildId::from_notes(&[0xff; 64], false, 4), None);
    }
}
