//! Compressed numbers of HotSpot, UNSIGNED5 (`src/hotspot/share/utilities/unsigned5.hpp` of the JDK).

/// Values of a last byte. The other 64 values say that more bytes follow.
const LAST: u32 = 192;

/// Bits that each byte but the last adds.
const BITS: u32 = 6;

/// Maximum bytes of a number.
pub(super) const MAX_LEN: usize = 5;

/// Reader of compressed numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers<'b> {
    bytes: &'b [u8],
    excludes_zeros: bool,
}

impl<'b> Numbers<'b> {
    /// Reads from these bytes. `excludes_zeros`: the version adds one to each byte.
    pub(super) const fn new(bytes: &'b [u8], excludes_zeros: bool) -> Self {
        Self {
            bytes,
            excludes_zeros,
        }
    }

    /// Returns the next byte as it is.
    pub(super) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    /// Returns the next number.
    pub(super) fn unsigned(&mut self) -> Option<u32> {
        let excluded = u32::from(self.excludes_zeros);
        let mut sum = 0_u32;
        for number in 0..MAX_LEN {
            let byte = u32::from(self.byte()?).checked_sub(excluded)?;
            sum = sum.wrapping_add(byte << (BITS * number as u32));
            if byte < LAST - excluded {
                break;
            }
        }
        Some(sum)
    }

    /// Returns the next number with a sign in its lowest bit.
    pub(super) fn signed(&mut self) -> Option<i32> {
        let number = self.unsigned()?;
        Some((number >> 1) as i32 ^ -((number & 1) as i32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], excludes_zeros: bool) -> Vec<u32> {
        let mut numbers = Numbers::new(bytes, excludes_zeros);
        std::iter::from_fn(|| numbers.unsigned()).collect()
    }

    /// Bytes written by hand from the definition: digits of base 64 after the first 192 (191) values.
    #[test]
    fn numbers_have_one_to_five_bytes() {
        assert_eq!(
            read(&[0, 191, 192, 0, 192, 1, 255, 191], false),
            [0, 191, 192, 256, 255 + 64 * 191]
        );
        assert_eq!(
            read(&[1, 191, 192, 1, 192, 2], true),
            [0, 190, 191, 191 + 64]
        );
        assert_eq!(read(&[255; 5], false).len(), 1, "at most five bytes");
        assert!(read(&[0], true).is_empty(), "no byte is zero");
        assert!(read(&[192], false).is_empty(), "cut");
    }

    #[test]
    fn signs_are_in_the_lowest_bit() {
        let mut numbers = Numbers::new(&[0, 1, 2, 3, 10], false);
        let all: Vec<i32> = std::iter::from_fn(|| numbers.signed()).collect();
        assert_eq!(all, [0, -1, 1, -2, 5]);
    }
}
