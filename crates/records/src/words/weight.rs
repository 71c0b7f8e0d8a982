//! Costs of an event, as the processor measured them.

/// Cost of an event: the field of [`SampleType::WEIGHT`](crate::SampleType::WEIGHT) or of
/// [`SampleType::WEIGHT_STRUCT`](crate::SampleType::WEIGHT_STRUCT) (`union perf_sample_weight`).
///
/// The measure depends on event and processor: for memory loads on Intel it is the cycles until the
/// data was there, for transactions the cycles until the abort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Weight {
    /// One value of 64 bits (`WEIGHT`).
    Whole(u64),
    /// Three values in one word (`WEIGHT_STRUCT`, Linux 5.12).
    Split(SplitWeight),
}

/// Three costs in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SplitWeight {
    /// `var1_dw`: the cost itself.
    pub cost: u32,
    /// `var2_w`: cycles of the whole instruction on Intel, until it was finished on POWER; perf's `ins_lat`.
    pub instruction_latency: u16,
    /// `var3_w`: cycles in a stage of the pipeline on POWER, from dispatch to retirement on Intel;
    /// perf's `p_stage_cyc`, later `retire_lat`.
    pub stage_cycles: u16,
}

impl Weight {
    /// Splits the word of a sample that has [`SampleType::WEIGHT_STRUCT`](crate::SampleType::WEIGHT_STRUCT).
    pub fn split(word: u64) -> Weight {
        Weight::Split(SplitWeight {
            cost: word as u32,
            instruction_latency: (word >> 32) as u16,
            stage_cycles: (word >> 48) as u16,
        })
    }

    /// Returns the cost itself, which both forms have.
    pub fn cost(self) -> u64 {
        match self {
            Weight::Whole(cost) => cost,
            Weight::Split(parts) => parts.cost.into(),
        }
    }

    /// Returns the further costs, where the form has them.
    pub fn parts(self) -> Option<SplitWeight> {
        match self {
            Weight::Whole(_) => None,
            Weight::Split(parts) => Some(parts),
        }
    }

    /// Returns the word as it stands in the sample.
    pub fn word(self) -> u64 {
        match self {
            Weight::Whole(cost) => cost,
            Weight::Split(parts) => {
                u64::from(parts.cost)
                    | u64::from(parts.instruction_latency) << 32
                    | u64::from(parts.stage_cycles) << 48
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_costs_are_one_word() {
        let word = 0x0003_0002_0000_0001;
        let split = Weight::split(word);
        let parts = split.parts().unwrap();
        let all = (parts.cost, parts.instruction_latency, parts.stage_cycles);
        assert_eq!((all, split.cost(), split.word()), ((1, 2, 3), 1, word));
        let whole = Weight::Whole(word);
        assert_eq!(
            (whole.cost(), whole.parts(), whole.word()),
            (word, None, word)
        );
    }
}
