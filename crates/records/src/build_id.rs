//! Build-id: a linker's identity of an ELF file.

use std::fmt;
use std::hash::{Hash, Hasher};

/// Contents of an `NT_GNU_BUILD_ID` note: 1 to [`BuildId::MAX_LEN`] bytes.
///
/// MMAP2 records and the build-id table of perf.data hold at most [`BuildId::MAX_RECORD_LEN`]
/// bytes. Compare build-ids from there with [`matches`](Self::matches).
///
/// # Examples
/// ```
/// use rprof_records::BuildId;
///
/// let id = BuildId::from_hex("00ffa1").unwrap();
/// assert_eq!(id.as_bytes(), [0x00, 0xff, 0xa1]);
/// assert_eq!(id.to_string(), "00ffa1");
///
/// // The table of an old recorder pads to 20 bytes.
/// let mut padded = [0; 20];
/// padded[..3].copy_from_slice(id.as_bytes());
/// let padded = BuildId::new(&padded).unwrap();
/// assert!(id != padded && id.matches(&padded));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BuildId {
    // Zero past `len`, so the derived comparisons are correct.
    bytes: [u8; BuildId::MAX_LEN],
    len: u8,
}

impl BuildId {
    /// Maximum supported length in bytes. Linkers write 8 (xxhash, fast), 16 (md5, uuid) or 20
    /// (sha1) bytes; `--build-id=0x...` allows any length.
    pub const MAX_LEN: usize = 64;

    /// Maximum length in an MMAP2 record or a perf.data build-id table, in bytes.
    pub const MAX_RECORD_LEN: usize = 20;

    /// Copies the bytes of a build-id. Returns `None` for 0 bytes, or more than
    /// [`MAX_LEN`](Self::MAX_LEN).
    #[must_use]
    pub fn new(id: &[u8]) -> Option<Self> {
        let mut bytes = [0; BuildId::MAX_LEN];
        bytes.get_mut(..id.len())?.copy_from_slice(id);
        (!id.is_empty()).then_some(BuildId {
            bytes,
            len: id.len() as u8,
        })
    }

    /// Parses hexadecimal digits, two for each byte, upper or lower case.
    #[must_use]
    pub fn from_hex(hex: &str) -> Option<Self> {
        let digits = hex.as_bytes();
        if !digits.len().is_multiple_of(2) || digits.len() > 2 * BuildId::MAX_LEN {
            return None;
        }
        let digit = |b: u8| char::from(b).to_digit(16);
        let bytes: Option<Vec<u8>> = digits
            .chunks_exact(2)
            .map(|pair| Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8))
            .collect();
        Self::new(&bytes?)
    }

    /// Returns the 1 to [`MAX_LEN`](Self::MAX_LEN) bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Returns true if all bytes are 0. Recorders write this for files with an unreadable note, so
    /// it identifies nothing.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.as_bytes().iter().all(|byte| *byte == 0)
    }

    /// Returns true if both may be the build-id of one file. All lookups use this rule: a recording
    /// stores at most 20 bytes ([`MAX_RECORD_LEN`](Self::MAX_RECORD_LEN)).
    ///
    /// Equal build-ids match. Also, a build-id of 20 bytes matches
    ///
    /// - a shorter one padded with zeros: older recorders stored no length;
    /// - a longer one with the same first 20 bytes: perf truncates (`read_build_id` of its
    ///   `util/symbol-elf.c`).
    ///
    /// Prefixes of other lengths do not match.
    #[must_use]
    pub fn matches(&self, other: &Self) -> bool {
        let (short, long) = match self.len <= other.len {
            true => (self, other),
            false => (other, self),
        };
        let has_record_len = |id: &Self| usize::from(id.len) == Self::MAX_RECORD_LEN;
        match short.len == long.len {
            true => short.bytes == long.bytes,
            false if has_record_len(long) => short.bytes == long.bytes,
            false => has_record_len(short) && long.as_bytes().starts_with(short.as_bytes()),
        }
    }
}

// Hashing the padding too would cost three times as much.
impl Hash for BuildId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
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

    #[test]
    fn hex_round_trip() {
        let id = BuildId::from_hex("00FFa1").unwrap();
        assert_eq!(id.as_bytes(), [0, 0xff, 0xa1]);
        assert_eq!(id.to_string(), "00ffa1");
        assert_eq!(format!("{id:?}"), "BuildId(00ffa1)");
        for bad in ["", "1", "zz", "+1"] {
            assert_eq!(BuildId::from_hex(bad), None, "{bad}");
        }
    }

    #[test]
    fn lengths_are_bounded() {
        assert_eq!(BuildId::new(&[]), None);
        assert_eq!(BuildId::new(&[1; 65]), None);
        for len in [1, 20, 21, 64] {
            let id = BuildId::new(&[1; 64][..len]).unwrap();
            assert_eq!(id.as_bytes().len(), len);
        }
        assert!(BuildId::new(&[0; 20]).unwrap().is_zero());
        assert!(!BuildId::new(&[0, 1]).unwrap().is_zero());
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
    fn matches_where_a_record_had_no_room() {
        let bytes: Vec<u8> = (1..=32).collect();
        let of = |len: usize| BuildId::new(&bytes[..len]).unwrap();
        assert!(of(32).matches(&of(20)) && of(20).matches(&of(32)));
        assert!(!of(32).matches(&of(16)) && !of(32).matches(&of(31)));
        assert!(!of(8).matches(&of(20)), "not padded with zeros");
        let mut zeros = [0; 32];
        zeros[..20].copy_from_slice(&bytes[..20]);
        assert!(BuildId::new(&zeros).unwrap().matches(&of(20)));
        assert!(!of(21).matches(&BuildId::new(&zeros).unwrap()));
    }
}
