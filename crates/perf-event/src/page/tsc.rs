//! [`TscConversion`]: converts processor timestamps to record times, and back.

/// Conversion between processor timestamps (TSC on x86, CNTVCT on ARM) and times of records without
/// a [clock](crate::Builder::clock), from a control page (`time_shift`, `time_mult`, `time_zero`).
///
/// ```
/// use rprof_perf_event::TscConversion;
///
/// // Three ticks a nanosecond.
/// let conversion = TscConversion { shift: 31, mult: 715_827_883, zero: 1000, ..TscConversion::default() };
/// let time = conversion.time(3_000_000).expect("a conversion that can be");
/// assert_eq!(time, 1000 + 1_000_000);
/// let tsc = conversion.tsc(time).expect("a conversion that can be");
/// assert!(tsc.abs_diff(3_000_000) < 4);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TscConversion {
    /// Right shift of products, in bits.
    pub shift: u16,
    /// Factor: `mult / 2^shift` nanoseconds per tick.
    pub mult: u32,
    /// Time in nanoseconds at timestamp zero.
    pub zero: u64,
    /// Base timestamp for extending shorter clocks; 0 for 64-bit clocks.
    pub cycles: u64,
    /// Mask of a shorter clock's bits.
    pub mask: u64,
}

impl Default for TscConversion {
    /// Returns no conversion, for a 64-bit clock.
    fn default() -> TscConversion {
        TscConversion {
            shift: 0,
            mult: 0,
            zero: 0,
            cycles: 0,
            mask: u64::MAX,
        }
    }
}

impl TscConversion {
    /// Converts a timestamp to nanoseconds since timestamp zero, modulo 2^64. Returns `None` if the
    /// shift is invalid.
    pub fn nanoseconds(&self, tsc: u64) -> Option<u64> {
        let shift = self.usable_shift()?;
        let past = tsc.wrapping_sub(self.cycles) & self.mask;
        let tsc = self.cycles.wrapping_add(past);
        // In two parts like the kernel: the full product may have 96 bits.
        let whole = (tsc >> shift).wrapping_mul(self.mult.into());
        let rest = u128::from(tsc & ((1 << shift) - 1)) * u128::from(self.mult);
        Some(whole.wrapping_add((rest >> shift) as u64))
    }

    /// Converts a timestamp to a record time in nanoseconds.
    pub fn time(&self, tsc: u64) -> Option<u64> {
        Some(self.nanoseconds(tsc)?.wrapping_add(self.zero))
    }

    /// Converts a record time to a timestamp; `None` if the conversion is invalid. The error is at
    /// most the ticks of one nanosecond, plus one.
    pub fn tsc(&self, time: u64) -> Option<u64> {
        let shift = self.usable_shift()?;
        let elapsed = time.wrapping_sub(self.zero);
        let mult = u64::from(self.mult);
        let whole = elapsed.checked_div(mult)?;
        let rest = (u128::from(elapsed % mult) << shift) / u128::from(mult);
        let whole = u128::from(whole) << shift;
        Some((whole + rest) as u64)
    }

    fn usable_shift(&self) -> Option<u32> {
        Some(u32::from(self.shift)).filter(|shift| *shift < 64)
    }
}
