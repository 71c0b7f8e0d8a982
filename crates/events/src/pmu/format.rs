//! [`PmuFormat`]: the bits of the config words for a term's value, from a PMU's `format/`.

/// Number of config words of `perf_event_attr` for terms: `config`, `config1` to `config4`.
pub const CONFIG_WORDS: usize = 5;

/// Bits of one config word for a term's value, such as `config:0-7,32-35`
/// (`Documentation/ABI/testing/sysfs-bus-event_source-devices-format`).
///
/// # Examples
/// ```
/// use rprof_events::pmu::PmuFormat;
///
/// let event = PmuFormat::parse("config:0-7,32-35").expect("it is a format");
/// assert_eq!(event.encode(0x28f), Some(0x2_0000_008f));
/// assert_eq!(event.encode(0x1000), None, "it has 12 bits");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PmuFormat {
    /// Index of the word: 0 is `config`, 1 is `config1`, and so on.
    pub word: usize,
    /// Bits of the word. The lowest gets the value's lowest bit.
    pub mask: u64,
}

impl PmuFormat {
    /// Parses a format file. Returns `None` if it is invalid, or names an unknown word.
    pub fn parse(text: &str) -> Option<PmuFormat> {
        let (word, bits) = text.trim().split_once(':')?;
        let word = word_index(word.trim())?;
        let mut mask = 0;
        for part in bits.split(',') {
            let part = part.trim();
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
            if first > last || last > 63 {
                return None;
            }
            mask |= u64::MAX >> (63 - (last - first)) << first;
        }
        Some(PmuFormat { word, mask })
    }

    /// Returns the maximum number of bits of a value.
    pub fn width(self) -> u32 {
        self.mask.count_ones()
    }

    /// Returns the word's bits for a value; `None` if the value is too large.
    pub fn encode(self, value: u64) -> Option<u64> {
        if self.width() < 64 && value >> self.width() != 0 {
            return None;
        }
        let mut left = self.mask;
        let mut value = value;
        let mut encoded = 0;
        while value != 0 {
            let lowest = left & left.wrapping_neg();
            if value & 1 == 1 {
                encoded |= lowest;
            }
            left &= !lowest;
            value >>= 1;
        }
        Some(encoded)
    }
}

/// Returns the index of a config word by its name in sysfs and in event terms.
pub(crate) fn word_index(name: &str) -> Option<usize> {
    ["config", "config1", "config2", "config3", "config4"]
        .iter()
        .position(|word| *word == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scattered_bits_are_filled_from_the_lowest() {
        let event = PmuFormat::parse("config:0-7,32-35\n").unwrap();
        assert_eq!((event.word, event.width()), (0, 12));
        assert_eq!(event.encode(0x28f), Some(0x2_0000_008f));
        assert_eq!(event.encode(0x1000), None);
        // As in perf.
        assert_eq!(
            PmuFormat::parse("config:32-35,0-7"),
            PmuFormat::parse("config:0-7,32-35")
        );
    }

    #[test]
    fn whole_words_and_single_bits() {
        let all = PmuFormat::parse("config1:0-63").unwrap();
        assert_eq!(all.encode(u64::MAX), Some(u64::MAX));
        let bit = PmuFormat::parse("config2:21").unwrap();
        assert_eq!(
            (bit.word, bit.encode(1), bit.encode(2)),
            (2, Some(1 << 21), None)
        );
    }

    #[test]
    fn text_that_is_no_format_is_none() {
        for text in [
            "",
            "config",
            "config:",
            "config:1-",
            "config:3-1",
            "config:64",
            "other:0",
        ] {
            assert_eq!(PmuFormat::parse(text), None, "{text:?}");
        }
    }
}
