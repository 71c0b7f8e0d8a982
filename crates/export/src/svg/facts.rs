//! One-line description of a recording, shown under the title.

use rprof_profile::Profile;

use crate::amounts::{count, counted, duration};
use crate::names::CleanNames;
use crate::rows::percent;

/// Describes the recording: `1,234 samples of cpu-clock in 5.02 s, on HOST, 99.8% of stacks
/// complete`. `about` is the middle part.
pub(crate) fn facts(profile: &Profile, event: usize, about: &[String]) -> String {
    let summary = &profile.events[event];
    let mut first = counted(summary.samples, "sample");
    if !profile.is_folded {
        first.push_str(&format!(" of {}", CleanNames::new(profile).event(event)));
        if let Some((from, to)) = profile.time.filter(|(from, to)| to > from) {
            first.push_str(&format!(" in {}", duration(to - from)));
        }
    }
    let mut facts = vec![first];
    facts.extend(about.iter().cloned());
    let quality = &profile.quality;
    if quality.stacks.total > 0 {
        let complete = percent(quality.stacks.complete, quality.stacks.total);
        facts.push(format!("{complete:.1}% of stacks complete"));
    }
    if quality.lost > 0 {
        facts.push(format!("{} lost", count(quality.lost)));
    }
    facts.join(", ")
}
