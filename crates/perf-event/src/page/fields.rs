//! Consistent fields of a control page, and values derived from them.

use super::tsc::TscConversion;
use super::word;
use bitflags::bitflags;

bitflags! {
    /// Capabilities in a control page (`capabilities` of `struct perf_event_mmap_page`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct PageCapabilities: u64 {
        /// Set only by kernels before 3.12, whose other bits are ambiguous (`cap_bit0`).
        const BIT_0 = 1;
        /// Set since Linux 3.12: the other bits are reliable (`cap_bit0_is_deprecated`).
        const BIT_0_IS_DEPRECATED = 1 << 1;
        /// A user-mode instruction can read the counter, `rdpmc` on x86 (`cap_user_rdpmc`).
        const USER_RDPMC = 1 << 2;
        /// Times can be extrapolated to now (`cap_user_time`).
        const USER_TIME = 1 << 3;
        /// Processor timestamps can be converted to record times (`cap_user_time_zero`).
        const USER_TIME_ZERO = 1 << 4;
        /// The processor's clock has fewer than 64 bits (`cap_user_time_short`, Linux 5.9).
        const USER_TIME_SHORT = 1 << 5;
        const _ = !0;
    }
}

/// Consistent snapshot of a control page's fields (`struct perf_event_mmap_page`,
/// perf_event_open(2), "MMAP layout").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageFields {
    /// Version of the struct.
    pub version: u32,
    /// Lowest compatible version.
    pub compat_version: u32,
    /// Number of changes times two; odd during a change.
    pub lock: u32,
    /// Hardware counter number plus one; 0 while the event has no counter.
    pub index: u32,
    /// Value to add to the counter's value.
    pub offset: i64,
    /// Enabled time in nanoseconds, at the last change.
    pub time_enabled: u64,
    /// Running time in nanoseconds, at the last change.
    pub time_running: u64,
    /// Abilities.
    pub capabilities: PageCapabilities,
    /// Width of the hardware counter in bits.
    pub pmc_width: u16,
    /// Timestamp conversion.
    pub time: TscConversion,
    /// Nanoseconds to add to a converted timestamp, for `time_enabled` and `time_running`.
    pub time_offset: u64,
    /// Size in bytes of the struct's part that the kernel supports, without reserved bytes.
    pub size: u32,
}

/// Count and times, read without a system call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserReading {
    /// Count; `None` if a system call is required.
    pub value: Option<u64>,
    /// Enabled time in nanoseconds.
    pub enabled: u64,
    /// Running time in nanoseconds.
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

    /// Returns the hardware counter number, if it is readable and in use by the event.
    pub fn counter(&self) -> Option<u32> {
        let readable = self.capabilities.contains(PageCapabilities::USER_RDPMC);
        (readable && self.index > 0).then(|| self.index - 1)
    }

    /// Returns the conversion between timestamps and record times, if the kernel supports it.
    pub fn tsc_conversion(&self) -> Option<TscConversion> {
        let known = self.capabilities.contains(PageCapabilities::USER_TIME_ZERO);
        known.then_some(self.time)
    }

    /// Combines the fields with the hardware counter and timestamp, as far as these were read.
    pub fn reading(&self, counter: Option<u64>, tsc: Option<u64>) -> UserReading {
        let value = match (self.counter(), counter) {
            (Some(_), Some(counter)) => {
                let counter = sign_extended(counter, self.pmc_width);
                Some(self.offset.wrapping_add(counter) as u64)
            }
            // Without a hardware counter, `offset` is the whole count.
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

/// Sign-extends a counter of `width` bits. A width of 0 or above 64 means 64.
fn sign_extended(counter: u64, width: u16) -> i64 {
    let unused = match width {
        1..=63 => 64 - u32::from(width),
        _ => 0,
    };
    ((counter << unused) as i64) >> unused
}
