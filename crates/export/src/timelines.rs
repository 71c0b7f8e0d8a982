//! Samples of each thread in order of time, for formats that show time lines.

use rprof_profile::{FrameListId, Profile, ThreadId, WeighBy, WeightUnit};
use rustc_hash::FxHashMap;

use crate::names::CleanNames;

/// One thread.
pub(crate) struct Timeline {
    pub(crate) id: ThreadId,
    /// Name, process and thread id.
    pub(crate) name: String,
    weight: u64,
    /// Indexes of the thread's profile entries.
    pub(crate) entries: Vec<usize>,
}

/// Adjacent samples with the same stack; `None` means off-CPU.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    pub(crate) stack: Option<(FrameListId, FrameListId)>,
    pub(crate) weight: u64,
}

/// The samples of an event.
pub(crate) struct Timelines<'p> {
    profile: &'p Profile,
    event: usize,
    by: WeighBy,
    origin: u64,
    /// True if weights are nanoseconds.
    pub(crate) is_time: bool,
}

impl<'p> Timelines<'p> {
    pub(crate) fn new(profile: &'p Profile, event: usize, by: WeighBy) -> Timelines<'p> {
        let unit = profile.events.get(event).map(|event| &event.unit);
        Timelines {
            profile,
            event,
            by,
            origin: profile.time.map_or(0, |(first, _)| first),
            is_time: by == WeighBy::Period && unit == Some(&WeightUnit::Nanoseconds),
        }
    }

    /// Returns the threads with samples, heaviest first.
    pub(crate) fn threads(&self) -> Vec<Timeline> {
        let mut threads: FxHashMap<ThreadId, Timeline> = FxHashMap::default();
        let entries = self.profile.aggregated.iter().enumerate();
        for (index, entry) in entries.filter(|(_, entry)| entry.event == self.event) {
            let thread = threads.entry(entry.thread).or_insert_with(|| Timeline {
                id: entry.thread,
                name: title(self.profile, entry.thread),
                weight: 0,
                entries: Vec::new(),
            });
            thread.weight = thread.weight.saturating_add(self.by.of(entry));
            thread.entries.push(index);
        }
        let mut threads: Vec<Timeline> = threads.into_values().collect();
        threads.sort_by_cached_key(|thread| {
            (
                std::cmp::Reverse(thread.weight),
                thread.name.clone(),
                thread.id,
            )
        });
        threads
    }

    /// Iterates over the runs of a thread, in time order if samples have times.
    pub(crate) fn runs<'a>(&'a self, thread: &'a Timeline) -> impl Iterator<Item = Run> + 'a {
        let mut runs = self.in_time(thread).chain(self.summed(thread)).peekable();
        std::iter::from_fn(move || {
            let mut run = runs.next()?;
            while let Some(more) = runs.next_if(|next| next.stack == run.stack) {
                run.weight = run.weight.saturating_add(more.weight);
            }
            Some(run)
        })
    }

    /// Iterates over samples and gaps. A clock sample covers the time before it.
    fn in_time<'a>(&'a self, thread: &'a Timeline) -> impl Iterator<Item = Run> + 'a {
        let mut until = 0u64;
        let streams = self.profile.streams.as_ref();
        let samples = streams
            .into_iter()
            .flat_map(|streams| streams.of(thread.id));
        samples
            .filter_map(|sample| {
                let entry = self.profile.aggregated.get(sample.entry as usize)?;
                (entry.event == self.event).then_some((sample, entry.stack))
            })
            .flat_map(move |(sample, stack)| {
                let mut idle = None;
                if self.is_time {
                    let now = sample.time.saturating_sub(self.origin);
                    let gap = now.saturating_sub(sample.weight).saturating_sub(until);
                    // A gap shorter than a period is timer latency.
                    if gap > sample.weight {
                        idle = Some(Run {
                            stack: None,
                            weight: gap,
                        });
                        until = until.saturating_add(gap);
                    }
                    until = until.saturating_add(sample.weight);
                }
                let run = Run {
                    stack: Some(self.profile.lists(stack)),
                    weight: self.by.of_sample(sample.weight),
                };
                idle.into_iter().chain([run])
            })
    }

    /// Iterates over stacks in any order if samples have no times.
    fn summed<'a>(&'a self, thread: &'a Timeline) -> impl Iterator<Item = Run> + 'a {
        let has_times = self.profile.streams.is_some();
        let entries = thread.entries.iter().filter(move |_| !has_times);
        let entries = entries.filter_map(|index| self.profile.aggregated.get(*index));
        entries.map(|entry| Run {
            stack: Some(self.profile.lists(entry.stack)),
            weight: self.by.of(entry),
        })
    }
}

fn title(profile: &Profile, id: ThreadId) -> String {
    let thread = profile.thread(id);
    let name = CleanNames::new(profile).comm(thread.comm);
    match (thread.pid, thread.tid) {
        (Some(pid), Some(tid)) => format!("{name} {pid}/{tid}"),
        _ => name.into_owned(),
    }
}
