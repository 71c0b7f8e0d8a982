//! [`Memory`]: source of stack bytes.

/// Memory of the unwound process. The unwinder may ask for any address, however absurd.
pub trait Memory {
    /// Returns the little-endian word at this address, if known.
    fn read_u64(&self, avma: u64) -> Option<u64>;

    /// Returns the little-endian half word at this address, if known: a word of 32-bit programs.
    /// By default the half of an aligned word, so implement it if the last half word may be alone.
    fn read_u32(&self, avma: u64) -> Option<u32> {
        let word = || self.read_u64(avma & !7);
        (avma.is_multiple_of(4)).then(|| Some((word()? >> (8 * (avma & 4))) as u32))?
    }

    /// Returns the sampled frame pointer and the return addresses that the kernel found by it,
    /// innermost first. `None` unless implemented.
    fn frame_pointer_chain(&self) -> Option<(u64, &[u64])> {
        None
    }
}

/// The stack bytes of a sample, which start at address `base`.
#[derive(Debug, Clone, Copy)]
pub struct StackDump<'a> {
    base: u64,
    bytes: &'a [u8],
    chain: Option<(u64, &'a [u64])>,
}

impl<'a> StackDump<'a> {
    /// Returns a dump that starts at `base_sp`, the sampled stack pointer.
    #[must_use]
    pub const fn new(base_sp: u64, bytes: &'a [u8]) -> Self {
        Self {
            base: base_sp,
            bytes,
            chain: None,
        }
    }

    /// Adds the kernel's user callchain by frame pointers, without the sampled address.
    #[must_use]
    pub const fn with_frame_pointer_chain(
        mut self,
        frame_pointer: u64,
        return_addresses: &'a [u64],
    ) -> Self {
        self.chain = Some((frame_pointer, return_addresses));
        self
    }

    /// Returns the first address of the dump.
    #[must_use]
    pub const fn start(&self) -> u64 {
        self.base
    }

    /// Returns the address after the last byte of the dump.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.base.saturating_add(self.bytes.len() as u64)
    }
}

impl Memory for StackDump<'_> {
    #[inline]
    fn read_u64(&self, avma: u64) -> Option<u64> {
        let offset = usize::try_from(avma.checked_sub(self.base)?).ok()?;
        let bytes = self.bytes.get(offset..)?.first_chunk()?;
        Some(u64::from_le_bytes(*bytes))
    }

    #[inline]
    fn read_u32(&self, avma: u64) -> Option<u32> {
        let offset = usize::try_from(avma.checked_sub(self.base)?).ok()?;
        let bytes = self.bytes.get(offset..)?.first_chunk()?;
        Some(u32::from_le_bytes(*bytes))
    }

    fn frame_pointer_chain(&self) -> Option<(u64, &[u64])> {
        self.chain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_words_inside() {
        let bytes: Vec<u8> = (0..20).collect();
        let dump = StackDump::new(0x1000, &bytes);
        assert_eq!(dump.read_u64(0x1000), Some(0x0706_0504_0302_0100));
        assert_eq!(dump.read_u64(0x1003), Some(0x0a09_0807_0605_0403));
        assert!(dump.read_u64(0x100c).is_some());
        assert_eq!(dump.read_u64(0x100d), None);
        assert_eq!(dump.read_u64(0xfff), None);
        assert_eq!(dump.read_u64(u64::MAX), None);
        assert_eq!(StackDump::new(u64::MAX, &bytes).read_u64(2), None);
        assert_eq!(dump.read_u32(0x1010), Some(0x1312_1110), "the last one");
        assert_eq!(dump.read_u32(0x1011), None);
        assert_eq!(dump.read_u32(0xffc), None);
    }

    #[test]
    fn halves_of_aligned_words() {
        struct Aligned;

        impl Memory for Aligned {
            fn read_u64(&self, avma: u64) -> Option<u64> {
                (avma == 16).then_some(0x0706_0504_0302_0100)
            }
        }

        assert_eq!(Aligned.read_u32(16), Some(0x0302_0100));
        assert_eq!(Aligned.read_u32(20), Some(0x0706_0504));
        for nowhere in [12, 17, 18, 24] {
            assert_eq!(Aligned.read_u32(nowhere), None);
        }
    }
}
