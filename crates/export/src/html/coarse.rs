//! Steps that reduce the detail of a page that is too large.

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Coarseness {
    /// Time unit, in nanoseconds; `u64::MAX` drops times.
    pub(super) tick: u64,
    pub(super) lines: bool,
    /// Share of the whole below which nodes are merged.
    pub(super) smallest: Option<f64>,
    pub(super) code_divisor: usize,
    /// Message about the loss, in addition to the previous steps.
    pub(super) told: Option<&'static str>,
    /// Details that the step removes. The message appears only on pages with these details.
    pub(super) loses: Loss,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    Code,
    Times,
    Detail,
}

impl Coarseness {
    pub(super) fn keeps_times(&self) -> bool {
        self.tick != u64::MAX
    }

    const fn tells(self, loses: Loss, told: &'static str) -> Coarseness {
        Coarseness {
            loses,
            told: Some(told),
            ..self
        }
    }
}

const FINEST: Coarseness = Coarseness {
    tick: 1_000,
    lines: true,
    smallest: None,
    code_divisor: 1,
    told: None,
    loses: Loss::Detail,
};
const LESS_CODE: Coarseness = Coarseness {
    code_divisor: 4,
    ..FINEST
};
const BY_10_MS: Coarseness = Coarseness {
    tick: 10_000_000,
    ..LESS_CODE
};
const WITHOUT_LINES: Coarseness = Coarseness {
    lines: false,
    ..BY_10_MS
};
const WITHOUT_CODE: Coarseness = Coarseness {
    code_divisor: usize::MAX,
    ..WITHOUT_LINES
};
const WITHOUT_TIMES: Coarseness = Coarseness {
    tick: u64::MAX,
    smallest: Some(0.001),
    ..WITHOUT_CODE
};

/// All steps, finest first. Each includes the previous ones.
pub(super) const STEPS: [Coarseness; 10] = [
    FINEST,
    LESS_CODE.tells(Loss::Code, "only a quarter of the functions are annotated"),
    Coarseness {
        tick: 1_000_000,
        ..LESS_CODE
    }
    .tells(Loss::Times, "times are rounded to 1 ms"),
    BY_10_MS.tells(Loss::Times, "times are rounded to 10 ms"),
    WITHOUT_LINES.tells(Loss::Detail, "source lines were dropped"),
    WITHOUT_CODE.tells(Loss::Code, "annotated code was dropped"),
    Coarseness {
        smallest: Some(0.0001),
        ..WITHOUT_CODE
    }
    .tells(Loss::Detail, "frames below 0.01 % were merged"),
    Coarseness {
        tick: 100_000_000,
        smallest: Some(0.001),
        ..WITHOUT_CODE
    }
    .tells(
        Loss::Detail,
        "frames below 0.1 % were merged, and times rounded to 100 ms",
    ),
    WITHOUT_TIMES.tells(Loss::Times, "times were dropped"),
    Coarseness {
        smallest: Some(0.01),
        ..WITHOUT_TIMES
    }
    .tells(Loss::Detail, "frames below 1 % were merged"),
];
