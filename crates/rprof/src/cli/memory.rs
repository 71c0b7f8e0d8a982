//! Arguments for resident and requested memory.

use clap::Args;
use rprof_analysis::MemoryTime;

use super::time_span::TimeSpan;

/// Options of commands that show recordings of memory.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct MemoryArgs {
    /// Moment of a recording made with `record --memory` or `--alloc`: `end`, `peak`, `ever` (all
    /// memory, given back or not) or a time; FROM,TO shows what was added between two times
    /// [default: end]
    ///
    /// Times are `10s` or `500ms` after the start, `50%` of the recording, or `-5s` before the end.
    /// The memory is as of the last snapshot until then.
    #[arg(long, help_heading = "Memory", value_name = "WHEN", value_parser = moment, allow_hyphen_values = true, conflicts_with_all = ["event", "off_cpu", "wall", "reason"])]
    at: Option<MemoryMoment>,

    /// Show the memory at the end, as without this option; fails unless the recording is one of
    /// `record --memory` or `--alloc`
    #[arg(long, visible_alias = "alloc", help_heading = "Memory", conflicts_with_all = ["at", "event", "off_cpu", "wall", "reason"])]
    memory: bool,
}

impl MemoryArgs {
    /// Returns the moment to show; `None` if no option asks for memory.
    pub(crate) fn moment(&self) -> Option<MemoryMoment> {
        self.at.or(self.memory.then_some(MemoryMoment::End))
    }
}

/// Value of `--at`: moment of memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum MemoryMoment {
    /// Memory that was resident, or not released, at the end.
    End,
    /// Memory that was resident, or not released, when most was.
    Peak,
    /// All memory that ever became resident or was requested, given back or not.
    Ever,
    /// Memory in use at a time.
    At(MemoryTime),
    /// Memory that was added between two times.
    Between(MemoryTime, MemoryTime),
}

fn moment(text: &str) -> Result<MemoryMoment, String> {
    Ok(match text {
        "end" => MemoryMoment::End,
        "peak" => MemoryMoment::Peak,
        "ever" => MemoryMoment::Ever,
        _ => match TimeSpan::memory_times(text)? {
            (None, at) => MemoryMoment::At(at),
            (Some(from), to) => MemoryMoment::Between(from, to),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_words_times_or_two_times() {
        let second = 1_000_000_000;
        for (text, expected) in [
            ("peak", MemoryMoment::Peak),
            ("10s", MemoryMoment::At(MemoryTime::AfterStart(10 * second))),
            (
                "+1.5",
                MemoryMoment::At(MemoryTime::AfterStart(3 * second / 2)),
            ),
            ("50%", MemoryMoment::At(MemoryTime::Share(0.5))),
            (
                "10s,-5s",
                MemoryMoment::Between(
                    MemoryTime::AfterStart(10 * second),
                    MemoryTime::BeforeEnd(5 * second),
                ),
            ),
        ] {
            assert_eq!(moment(text), Ok(expected), "{text}");
        }
        for wrong in ["", "begin", "5s,", "9s,3s", "1,2,3"] {
            assert!(moment(wrong).is_err(), "{wrong}");
        }
    }
}
