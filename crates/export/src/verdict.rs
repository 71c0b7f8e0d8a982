//! The quality verdict: how far a profile can be trusted, finding by finding.

use std::fmt;

use rprof_profile::{Profile, Reason};

use crate::clean::brief;
use crate::names::CleanNames;
use crate::rows::percent;

/// One finding of the verdict.
///
/// `Display` words it, with what helps in general. A program whose own options help puts them
/// behind the [`statement`](Self::statement) instead.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Finding {
    /// Share of stacks that reach their root.
    Stacks {
        /// The share, in percent.
        complete: f64,
        /// True if many do not, in a recording whose stacks were made by frame pointers.
        lacks_frame_pointers: bool,
    },
    /// Share of frames whose function has a name.
    Frames {
        /// The share, in percent.
        named: f64,
    },
    /// Frames of one object without a name, for one reason.
    Unnamed {
        /// Share of all frames, in percent.
        share: f64,
        /// Name of the object, safe to show.
        object: String,
        /// Reason for which they have no name.
        reason: Reason,
    },
    /// Records that were lost.
    Lost {
        /// Number of lost records.
        lost: u64,
        /// Number of samples and lost records together.
        all: u64,
    },
    /// Pauses of sampling, made by the kernel.
    Throttled {
        /// Number of pauses.
        times: u64,
    },
    /// A warning about the recording, safe to show.
    Warning(String),
}

impl Finding {
    /// Returns the finding in words, without what can be done about it.
    pub fn statement(&self) -> String {
        match self {
            Finding::Stacks {
                complete,
                lacks_frame_pointers,
            } => {
                let others = match lacks_frame_pointers {
                    true => "; the others break off where code was built without frame pointers",
                    false => "",
                };
                format!("stacks: {complete:.1}% reach their root{others}")
            }
            Finding::Frames { named } => format!("frames: {named:.1}% have a name"),
            Finding::Unnamed {
                share,
                object,
                reason,
            } => format!("  {share:.1}% lack one in {object}: {reason}"),
            Finding::Lost { lost, all } => format!(
                "lost: {lost} of {all} records ({:.2}%): shares may be off",
                percent(*lost, *all)
            ),
            Finding::Throttled { times } => {
                format!("throttled: {times} times the kernel paused sampling")
            }
            Finding::Warning(warning) => format!("warning: {warning}"),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.statement())?;
        match self {
            Finding::Unnamed { reason, .. } => match reason.remedy() {
                Some(remedy) => write!(f, ". {remedy}"),
                None => Ok(()),
            },
            Finding::Lost { .. } => f.write_str("; fewer samples a second lose less"),
            Finding::Throttled { .. } => f.write_str(
                "; take fewer samples a second, or raise kernel.perf_event_max_sample_rate",
            ),
            Finding::Stacks { .. } | Finding::Frames { .. } | Finding::Warning(_) => Ok(()),
        }
    }
}

/// Returns the findings on a profile: stacks, frames, losses, warnings. What is in order is left
/// out, but for the share of stacks.
pub fn findings(profile: &Profile) -> Vec<Finding> {
    let (q, names) = (&profile.quality, CleanNames::new(profile));
    let mut findings = Vec::new();
    let s = &q.stacks;
    if s.total > 0 {
        let complete = percent(s.complete, s.total);
        findings.push(Finding::Stacks {
            complete,
            lacks_frame_pointers: complete < 90.0 && s.unwound == 0,
        });
    }
    if q.frames > 0 && q.named < q.frames {
        findings.push(Finding::Frames {
            named: percent(q.named, q.frames),
        });
        for (object, reason, count) in q.worst.iter().take(3) {
            let share = percent(*count, q.frames);
            if share >= 0.1 {
                findings.push(Finding::Unnamed {
                    share,
                    object: brief(object),
                    reason: *reason,
                });
            }
        }
    }
    if q.lost > 0 {
        let samples = profile.events.iter().map(|e| e.samples);
        findings.push(Finding::Lost {
            lost: q.lost,
            all: samples.fold(q.lost, u64::saturating_add),
        });
    }
    if q.throttled > 0 {
        findings.push(Finding::Throttled { times: q.throttled });
    }
    findings.extend(names.warnings().map(|w| Finding::Warning(w.into_owned())));
    findings
}
