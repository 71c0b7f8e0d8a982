//! [`caution`]: reasons to distrust a verdict, in words. The headline names the consequence.

use rprof_profile::compare::{Caution, ProfileDiff, Side};

use super::memory;
use crate::clean::clean;

/// Returns the cautions that matter for the compared amount.
pub fn relevant(diff: &ProfileDiff) -> impl Iterator<Item = &Caution> {
    let matters = move |caution: &&Caution| !memory::is_about_samples(diff, caution);
    diff.cautions.iter().filter(matters)
}

/// Returns the first caution that withholds verdicts.
pub(super) fn withholding(diff: &ProfileDiff) -> Option<&Caution> {
    relevant(diff).find(|caution| caution.withholds())
}

/// Returns a caution as a sentence without a full stop.
pub fn caution(caution: &Caution) -> String {
    let side = |side: &Side| match side {
        Side::Old => "old",
        Side::New => "new",
    };
    match caution {
        Caution::Lost(which, share) => format!(
            "the {} side lost {:.1} % of its records: its amounts are too small",
            side(which),
            share * 100.0
        ),
        Caution::FewSamples(which, samples) => format!(
            "too few samples to compare, {samples:.1} per run on the {} side; record for longer, or \
             with a higher -F",
            side(which)
        ),
        Caution::Damaged(which, recordings) => format!(
            "{recordings} of the {} recordings {} damaged or cut off: amounts are too small",
            side(which),
            if *recordings == 1 { "is" } else { "are" }
        ),
        Caution::Completeness { old, new } => format!(
            "{:.0} % of the old stacks reach their root and {:.0} % of the new: totals do not compare",
            old * 100.0,
            new * 100.0
        ),
        Caution::Unmatched { share } => format!(
            "only {:.1} % of one side is in functions that both sides have",
            (share * 1000.0).floor() / 10.0,
        ),
        Caution::WithoutInlined(which) => format!(
            "the {} side has no inlined calls (no debug information?): both sides omit them",
            side(which)
        ),
        Caution::Reservation(text) => clean(text).into_owned(),
        _ => String::new(),
    }
}
