//! [`Ignored`]: parts of an event's text that perf accepts but that do not affect a recording.

use crate::event::Event;
use std::fmt;

/// Part of an event's text without effect on sampling.
///
/// `Display` writes a sentence with the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Ignored {
    /// Modifier `b`.
    BpfCounters,
    /// Term `percore`.
    PerCore,
    /// Term `time=0`.
    NoTime,
}

impl fmt::Display for Ignored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Ignored::BpfCounters => {
                "the modifier `b` has no effect: it is for perf stat (counting with BPF programs)"
            }
            Ignored::PerCore => {
                "the term `percore` has no effect: it is for perf stat (counts summed per core)"
            }
            Ignored::NoTime => {
                "the term `time=0` has no effect: samples always have times, for ordering"
            }
        })
    }
}

impl Event {
    /// Returns the parts of its text without effect on sampling: `b` and `percore`, which perf
    /// record ignores too, and `time=0`. Callers should warn the user.
    ///
    /// # Examples
    /// ```
    /// use rprof_events::{Event, Ignored};
    ///
    /// let event = Event::parse("cpu-clock/time=0/u")?;
    /// assert_eq!(event.ignored_when_sampled(), [Ignored::NoTime]);
    /// # Ok::<(), rprof_events::EventError>(())
    /// ```
    pub fn ignored_when_sampled(&self) -> Vec<Ignored> {
        let settings = self.settings();
        [
            (self.qualifiers().bpf, Ignored::BpfCounters),
            (settings.percore, Ignored::PerCore),
            (settings.time == Some(false), Ignored::NoTime),
        ]
        .into_iter()
        .filter_map(|(given, part)| given.then_some(part))
        .collect()
    }
}
