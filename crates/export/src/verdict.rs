//! The quality verdict in words.

use rprof_profile::Profile;

use crate::clean::brief;
use crate::names::CleanNames;
use crate::rows::percent;

/// Returns the verdict, line by line: stacks, frames, losses, warnings. Empty lines of
/// praise are left out; what can be done about a shortcoming is said with it.
pub fn lines(profile: &Profile) -> Vec<String> {
    let (q, names) = (&profile.quality, CleanNames::new(profile));
    let mut lines = Vec::new();
    let s = &q.stacks;
    if s.total > 0 {
        let complete = percent(s.complete, s.total);
        let mut line = format!("stacks: {complete:.1}% reach their root");
        if complete < 90.0 && s.unwound == 0 {
            line.push_str(
                "; the others break off where code was built without frame pointers: `rprof record -g` needs none",
            );
        }
        lines.push(line);
    }
    if q.frames > 0 && q.named < q.frames {
        lines.push(format!(
            "frames: {:.1}% have a name",
            percent(q.named, q.frames)
        ));
        for (object, reason, count) in q.worst.iter().take(3) {
            let share = percent(*count, q.frames);
            if share < 0.1 {
                continue;
            }
            let remedy = reason.remedy().map_or(String::new(), |r| format!(". {r}"));
            let object = brief(object);
            lines.push(format!(
                "  {share:.1}% lack one in {object}: {reason}{remedy}"
            ));
        }
    }
    if q.lost > 0 {
        let all: u64 = profile.events.iter().map(|e| e.samples).sum::<u64>() + q.lost;
        lines.push(format!(
            "lost: {} of {all} records ({:.2}%): shares may be off; lower -F",
            q.lost,
            percent(q.lost, all)
        ));
    }
    if q.throttled > 0 {
        lines.push(format!(
            "throttled: {} times the kernel paused sampling; lower -F, or raise kernel.perf_event_max_sample_rate",
            q.throttled
        ));
    }
    lines.extend(names.warnings().map(|w| format!("warning: {w}")));
    lines
}
