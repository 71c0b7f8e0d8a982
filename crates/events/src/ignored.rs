//! [`Ignored`]: parts of an event's text that perf accepts and that change nothing in a recording.

use crate::event::Event;
use std::fmt;

/// Part of an event's text that has no effect when the event is sampled.
///
/// `Display` writes a sentence for the user: the part, and why it has no effect.
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
    /// Returns the parts of its text that have no effect when it is sampled: `b` and `percore`, which perf
    /// record ignores as well, and `time=0`. The caller who samples it should tell the user.
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
