//! [`TscConversion`]: timestamps of the processor to times of records, and back.

/// Conversion between timestamps of the processor (TSC on x86, CNTVCT on ARM) and times of records without a
/// [clock](crate::Builder::clock), as a control page states it (`time_shift`, `time_mult`, `time_zero`).
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
    /// Bits by which products are shifted.
    pub shift: u16,
    /// Factor: `mult / 2^shift` nanoseconds a tick.
    pub mult: u32,
    /// Time of a timestamp of zero, in nanoseconds.
    pub zero: u64,
    /// Timestamp from which shorter clocks are extended; 0 for those of 64 bits.
    pub cycles: u64,
    /// Bits that a shorter clock has.
    pub mask: u64,
}

impl Default for TscConversion {
    /// No conversion, of a clock of 64 bits.
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
    /// Converts a timestamp to nanoseconds since the timestamp zero, modulo 2^64; `None` with a shift that
    /// cannot be.
    pub fn nanoseconds(&self, tsc: u64) -> Option<u64> {
        let shift = self.usable_shift()?;
        let past = tsc.wrapping_sub(self.cycles) & self.mask;
        let tsc = self.cycles.wrapping_add(past);
        // In two parts, as the kernel does: the product of all bits may have 96.
        let whole = (tsc >> shift).wrapping_mul(self.mult.into());
        let rest = u128::from(tsc & ((1 << shift) - 1)) * u128::from(self.mult);
        Some(whole.wrapping_add((rest >> shift) as u64))
    }

    /// Converts a timestamp to the time that a record of that moment has, in nanoseconds.
    pub fn time(&self, tsc: u64) -> Option<u64> {
        Some(self.nanoseconds(tsc)?.wrapping_add(self.zero))
    }

    /// Converts the time of a record to the timestamp of that moment; `None` with numbers that cannot be.
    /// It is off by as many ticks at most as a nanosecond has, and one.
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
