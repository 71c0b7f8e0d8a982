//! Fields of a control page that belong together, and what follows from them.

use super::tsc::TscConversion;
use super::word;
use bitflags::bitflags;

bitflags! {
    /// Abilities that a control page tells of (`capabilities` of `struct perf_event_mmap_page`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct PageCapabilities: u64 {
        /// Set by kernels before 3.12 only, whose other bits mean one another (`cap_bit0`).
        const BIT_0 = 1;
        /// Set since Linux 3.12: the other bits mean what they say (`cap_bit0_is_deprecated`).
        const BIT_0_IS_DEPRECATED = 1 << 1;
        /// The counter can be read by its own instruction, `rdpmc` on x86 (`cap_user_rdpmc`).
        const USER_RDPMC = 1 << 2;
        /// Times can be brought up to now (`cap_user_time`).
        const USER_TIME = 1 << 3;
        /// Timestamps of the processor can be made times of records (`cap_user_time_zero`).
        const USER_TIME_ZERO = 1 << 4;
        /// The processor's clock is shorter than 64 bits (`cap_user_time_short`, Linux 5.9).
        const USER_TIME_SHORT = 1 << 5;
        const _ = !0;
    }
}

/// Fields of a control page, of one moment (`struct perf_event_mmap_page`, perf_event_open(2), "MMAP
/// layout").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageFields {
    /// Version of the struct.
    pub version: u32,
    /// Lowest version that this one is compatible with.
    pub compat_version: u32,
    /// Count of the changes so far, times two; odd during one.
    pub lock: u32,
    /// Number of the hardware counter plus one; 0 while the event is on none.
    pub index: u32,
    /// Count to be added to the counter's.
    pub offset: i64,
    /// Nanoseconds for which the event was enabled, at the last change.
    pub time_enabled: u64,
    /// Nanoseconds for which the event ran, at the last change.
    pub time_running: u64,
    /// Abilities.
    pub capabilities: PageCapabilities,
    /// Bits of the hardware counter.
    pub pmc_width: u16,
    /// Conversion of timestamps.
    pub time: TscConversion,
    /// Nanoseconds to be added to a converted timestamp, for `time_enabled` and `time_running`.
    pub time_offset: u64,
    /// Bytes of the struct that the kernel knows, before its reserved ones.
    pub size: u32,
}

/// Count and times that were read without a system call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserReading {
    /// Number of events; `None` where a system call is needed.
    pub value: Option<u64>,
    /// Nanoseconds for which the event was enabled.
    pub enabled: u64,
    /// Nanoseconds for which the event ran.
    pub running: u64,
}

impl PageFields {
    pub(super) fn from_words(words: &[u64; word::LOCKED]) -> PageFields {
        let halves = |number: usize| {
            let [a, b, c, d, e, f, g, h] = words[number].to_ne_bytes();
            let half = |bytes| u32::from_ne_bytes(bytes);
            (half([a, b, c, d]), half([e, f, g, h]))
        };
        let (version, compat_version) = halves(word::VERSION);
        let (lock, index) = halves(word::LOCK);
        let [a, b, c, d, ..] = words[word::WIDTH].to_ne_bytes();
        let capabilities = PageCapabilities::from_bits_retain(words[word::CAPABILITIES]);
        let short = capabilities.contains(PageCapabilities::USER_TIME_SHORT);
        PageFields {
            version,
            compat_version,
            lock,
            index,
            offset: words[word::OFFSET] as i64,
            time_enabled: words[word::TIME_ENABLED],
            time_running: words[word::TIME_RUNNING],
            capabilities,
            pmc_width: u16::from_ne_bytes([a, b]),
            time: TscConversion {
                shift: u16::from_ne_bytes([c, d]),
                mult: halves(word::WIDTH).1,
                zero: words[word::TIME_ZERO],
                cycles: if short { words[word::TIME_CYCLES] } else { 0 },
                mask: if short {
                    words[word::TIME_MASK]
                } else {
                    u64::MAX
                },
            },
            time_offset: words[word::TIME_OFFSET],
            size: halves(word::SIZE).0,
        }
    }

    /// Returns the number of the hardware counter, if it may be read and the event is on it.
    pub fn counter(&self) -> Option<u32> {
        let readable = self.capabilities.contains(PageCapabilities::USER_RDPMC);
        (readable && self.index > 0).then(|| self.index - 1)
    }

    /// Returns the conversion between timestamps and times of records, if the kernel vouches for it.
    pub fn tsc_conversion(&self) -> Option<TscConversion> {
        let known = self.capabilities.contains(PageCapabilities::USER_TIME_ZERO);
        known.then_some(self.time)
    }

    /// Puts a reading together from the fields, the hardware counter's value and the processor's
    /// timestamp, each where it was read.
    pub fn reading(&self, counter: Option<u64>, tsc: Option<u64>) -> UserReading {
        let value = match (self.counter(), counter) {
            (Some(_), Some(counter)) => {
                let counter = sign_extended(counter, self.pmc_width);
                Some(self.offset.wrapping_add(counter) as u64)
            }
            // It is on no counter: nothing has been added since.
            (None, _) if self.capabilities.contains(PageCapabilities::USER_RDPMC) => {
                Some(self.offset as u64)
            }
            _ => None,
        };
        let since = match tsc {
            Some(tsc) if self.capabilities.contains(PageCapabilities::USER_TIME) => self
                .time
                .nanoseconds(tsc)
                .map_or(0, |elapsed| self.time_offset.wrapping_add(elapsed)),
            _ => 0,
        };
        UserReading {
            value,
            enabled: self.time_enabled.wrapping_add(since),
            running: match self.index {
                0 => self.time_running,
                _ => self.time_running.wrapping_add(since),
            },
        }
    }
}

/// Extends the sign of a counter of `width` bits; a width of 0 or beyond 64 is one of 64.
fn sign_extended(counter: u64, width: u16) -> i64 {
    let unused = match width {
        1..=63 => 64 - u32::from(width),
        _ => 0,
    };
    ((counter << unused) as i64) >> unused
}
