//! Costs of an event, measured by the processor.

/// Cost of an event: the field of [`SampleType::WEIGHT`](crate::SampleType::WEIGHT) or
/// [`SampleType::WEIGHT_STRUCT`](crate::SampleType::WEIGHT_STRUCT) (`union perf_sample_weight`).
///
/// The meaning depends on event and processor. For memory loads on Intel, it is the latency in
/// cycles; for transactions, the cycles until the abort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Weight {
    /// Weight as one 64-bit value (`WEIGHT`).
    Whole(u64),
    /// Three values in one word (`WEIGHT_STRUCT`, Linux 5.12).
    Split(SplitWeight),
}

/// Three costs in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SplitWeight {
    /// `var1_dw`: the cost.
    pub cost: u32,
    /// `var2_w`: cycles of the whole instruction on Intel, until completion on POWER; perf's
    /// `ins_lat`.
    pub instruction_latency: u16,
    /// `var3_w`: cycles in a pipeline stage on POWER, from dispatch to retirement on Intel; perf's
    /// `p_stage_cyc`, later `retire_lat`.
    pub stage_cycles: u16,
}

impl Weight {
    /// Splits the word of a [`SampleType::WEIGHT_STRUCT`](crate::SampleType::WEIGHT_STRUCT) field.
    pub fn split(word: u64) -> Weight {
        Weight::Split(SplitWeight {
            cost: word as u32,
            instruction_latency: (word >> 32) as u16,
            stage_cycles: (word >> 48) as u16,
        })
    }

    /// Returns the cost, which both forms have.
    pub fn cost(self) -> u64 {
        match self {
            Weight::Whole(cost) => cost,
            Weight::Split(parts) => parts.cost.into(),
        }
    }

    /// Returns the other costs, if the form has them.
    pub fn parts(self) -> Option<SplitWeight> {
        match self {
            Weight::Whole(_) => None,
            Weight::Split(parts) => Some(parts),
        }
    }

    /// Returns the word in the sample.
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
