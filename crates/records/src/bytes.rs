//! Bytes in either byte order, in one piece or in two.

use std::borrow::Cow;
use std::ops::Range;

/// Byte order of a recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endian {
    /// Least significant byte first (x86, arm64, riscv).
    Little,
    /// Byte order with the most significant byte first (s390x, older POWER and MIPS).
    Big,
}

impl Endian {
    /// Byte order of this machine.
    pub const NATIVE: Endian = if cfg!(target_endian = "little") {
        Endian::Little
    } else {
        Endian::Big
    };

    /// Decodes two bytes.
    #[inline]
    pub fn u16(self, b: [u8; 2]) -> u16 {
        match self {
            Endian::Little => u16::from_le_bytes(b),
            Endian::Big => u16::from_be_bytes(b),
        }
    }

    /// Decodes four bytes.
    #[inline]
    pub fn u32(self, b: [u8; 4]) -> u32 {
        match self {
            Endian::Little => u32::from_le_bytes(b),
            Endian::Big => u32::from_be_bytes(b),
        }
    }

    /// Decodes eight bytes.
    #[inline]
    pub fn u64(self, b: [u8; 8]) -> u64 {
        match self {
            Endian::Little => u64::from_le_bytes(b),
            Endian::Big => u64::from_be_bytes(b),
        }
    }

    /// Encodes a 16-bit value.
    #[inline]
    pub fn put_u16(self, v: u16) -> [u8; 2] {
        match self {
            Endian::Little => v.to_le_bytes(),
            Endian::Big => v.to_be_bytes(),
        }
    }

    /// Encodes a 32-bit value.
    #[inline]
    pub fn put_u32(self, v: u32) -> [u8; 4] {
        match self {
            Endian::Little => v.to_le_bytes(),
            Endian::Big => v.to_be_bytes(),
        }
    }

    /// Encodes a 64-bit value.
    #[inline]
    pub fn put_u64(self, v: u64) -> [u8; 8] {
        match self {
            Endian::Little => v.to_le_bytes(),
            Endian::Big => v.to_be_bytes(),
        }
    }
}

/// Borrowed bytes in one or two pieces.
///
/// A record in a ring buffer may wrap around its end. Reads past the end return `None`, so an
/// invalid length causes an error, never a panic.
#[derive(Clone, Copy)]
pub struct RawBytes<'a> {
    head: &'a [u8],
    tail: &'a [u8],
}

impl std::fmt::Debug for RawBytes<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.head.iter().chain(self.tail))
            .finish()
    }
}

impl PartialEq for RawBytes<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len()
            && (self.head.iter().chain(self.tail)).eq(other.head.iter().chain(other.tail))
    }
}

impl Eq for RawBytes<'_> {}

impl<'a> From<&'a [u8]> for RawBytes<'a> {
    fn from(head: &'a [u8]) -> Self {
        RawBytes { head, tail: &[] }
    }
}

impl<'a> RawBytes<'a> {
    /// Combines two pieces, `head` first.
    pub fn split(head: &'a [u8], tail: &'a [u8]) -> Self {
        RawBytes { head, tail }
    }

    /// Returns the number of bytes in both pieces.
    #[inline]
    pub fn len(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// Returns true if there are no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head.is_empty() && self.tail.is_empty()
    }

    /// Returns the bytes in `range`, or `None` if it exceeds the end.
    #[inline]
    pub fn get(&self, range: Range<usize>) -> Option<RawBytes<'a>> {
        if range.start > range.end || range.end > self.len() {
            return None;
        }
        let cut = self.head.len();
        Some(RawBytes {
            head: &self.head[range.start.min(cut)..range.end.min(cut)],
            tail: &self.tail[range.start.saturating_sub(cut)..range.end.saturating_sub(cut)],
        })
    }

    /// Returns the bytes from `start` to the end.
    #[inline]
    pub fn get_from(&self, start: usize) -> Option<RawBytes<'a>> {
        self.get(start..self.len())
    }

    #[inline]
    fn array<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        let end = at.checked_add(N)?;
        if let Some(whole) = self.head.get(at..end) {
            return whole.try_into().ok();
        }
        if end > self.len() {
            return None;
        }
        let mut out = [0; N];
        for (i, byte) in out.iter_mut().enumerate() {
            let p = at + i;
            *byte = match self.head.get(p) {
                Some(b) => *b,
                None => self.tail[p - self.head.len()],
            };
        }
        Some(out)
    }

    /// Returns the byte at `at`.
    #[inline]
    pub fn u8(&self, at: usize) -> Option<u8> {
        self.array::<1>(at).map(|[b]| b)
    }

    /// Decodes the 16-bit value at `at`.
    #[inline]
    pub fn u16(&self, at: usize, endian: Endian) -> Option<u16> {
        self.array(at).map(|b| endian.u16(b))
    }

    /// Decodes the 32-bit value at `at`.
    #[inline]
    pub fn u32(&self, at: usize, endian: Endian) -> Option<u32> {
        self.array(at).map(|b| endian.u32(b))
    }

    /// Decodes the 64-bit value at `at`.
    #[inline]
    pub fn u64(&self, at: usize, endian: Endian) -> Option<u64> {
        self.array(at).map(|b| endian.u64(b))
    }

    /// Returns all bytes if they are in one piece, as in a file.
    #[inline]
    pub fn in_one_piece(&self) -> Option<&'a [u8]> {
        self.tail.is_empty().then_some(self.head)
    }

    /// Returns all bytes as one slice, borrowed unless they are in two pieces.
    pub fn to_cow(&self) -> Cow<'a, [u8]> {
        if self.tail.is_empty() {
            Cow::Borrowed(self.head)
        } else if self.head.is_empty() {
            Cow::Borrowed(self.tail)
        } else {
            Cow::Owned([self.head, self.tail].concat())
        }
    }

    /// Appends all bytes to `out`.
    #[inline]
    pub fn append_to(&self, out: &mut Vec<u8>) {
        out.reserve(self.len());
        out.extend_from_slice(self.head);
        out.extend_from_slice(self.tail);
    }

    /// Returns the bytes from `start` up to the first NUL, or to the end.
    pub fn c_str(&self, start: usize) -> Option<Cow<'a, [u8]>> {
        let rest = self.get_from(start)?;
        let end = (rest.head.iter().chain(rest.tail))
            .position(|b| *b == 0)
            .unwrap_or(rest.len());
        Some(rest.get(0..end)?.to_cow())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_split_reads_the_same() {
        let bytes: Vec<u8> = (1..=24).collect();
        for cut in 0..=bytes.len() {
            let raw = RawBytes::split(&bytes[..cut], &bytes[cut..]);
            for at in 0..=16 {
                let expected = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
                assert_eq!(raw.u64(at, Endian::Little), Some(expected));
                assert_eq!(raw.u64(at, Endian::Big), Some(expected.swap_bytes()));
            }
            assert_eq!(raw.u64(17, Endian::Little), None);
            assert_eq!(raw.u64(usize::MAX, Endian::Little), None);
            assert_eq!(raw.get(3..20).unwrap().to_cow(), &bytes[3..20]);
            assert_eq!(raw.get(20..25), None);
            let mut all = vec![0];
            raw.append_to(&mut all);
            assert_eq!(all[1..], bytes);
        }
    }

    #[test]
    fn c_str_stops_at_nul_or_end() {
        let raw = RawBytes::split(b"ab", b"c\0d");
        assert_eq!(raw.c_str(0).unwrap().as_ref(), b"abc");
        assert_eq!(raw.c_str(4).unwrap().as_ref(), b"d");
        assert_eq!(raw.c_str(5).unwrap().as_ref(), b"");
        assert_eq!(raw.c_str(6), None);
    }
}
