//! Flags of a piece of an AUX trace, set by the kernel.

/// Flags of an AUX record, `PERF_AUX_FLAG_*`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AuxFlags(pub u64);

impl AuxFlags {
    /// The buffer was full, and later data was lost.
    pub const TRUNCATED: AuxFlags = AuxFlags(1);
    /// Later data overwrote earlier data (snapshot mode).
    pub const OVERWRITE: AuxFlags = AuxFlags(2);
    /// The trace has gaps for other reasons than a full buffer.
    pub const PARTIAL: AuxFlags = AuxFlags(4);
    /// The trace unit dropped samples while it wrote others (Arm SPE).
    pub const COLLISION: AuxFlags = AuxFlags(8);

    /// Returns true if all bits of `other` are set.
    pub fn has(self, other: AuxFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns perf's letters, as after `flags:` in `perf script -D`: `T` truncated, `O`
    /// overwriting, `P` partial; and `C` collision, which perf 6.1 lacks.
    pub fn letters(self) -> String {
        let letters = [
            (AuxFlags::TRUNCATED, 'T'),
            (AuxFlags::OVERWRITE, 'O'),
            (AuxFlags::PARTIAL, 'P'),
            (AuxFlags::COLLISION, 'C'),
        ];
        let set = letters.iter().filter(|(flag, _)| self.has(*flag));
        set.map(|(_, letter)| *letter).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_those_of_perf() {
        let of = |bits| AuxFlags(bits).letters();
        assert_eq!([of(0), of(1), of(3), of(12)], ["", "T", "TO", "PC"]);
    }
}
