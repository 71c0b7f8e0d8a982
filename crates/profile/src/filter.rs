//! Which samples count.

use rprof_processes::Timeline;
use rprof_records::Sample;

use crate::resolve::IDLE;

/// What a sample must be to count. An empty list asks for nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Names of threads.
    pub comms: Vec<String>,
    /// Process ids.
    pub pids: Vec<i32>,
    /// Thread ids.
    pub tids: Vec<i32>,
    /// CPU numbers.
    pub cpus: Vec<u32>,
    /// Names of events, with or without modifiers.
    pub events: Vec<String>,
    /// First and last time, in nanoseconds of the recording's clock.
    pub time: Option<(u64, u64)>,
    /// Paths or base names of objects, one of which the leaf must lie in.
    pub objects: Vec<String>,
    /// Names of functions, one of which the leaf must be.
    pub symbols: Vec<String>,
}

impl Filter {
    /// Whether an event of this name counts.
    pub fn wants_event(&self, name: &str) -> bool {
        let bare = name.split(':').next().unwrap_or(name);
        self.events.is_empty() || self.events.iter().any(|e| e == name || e == bare)
    }

    /// Whether a sample counts, by all but its event and its leaf.
    pub(crate) fn wants(&self, sample: &Sample<'_>, comm: Option<&[u8]>) -> bool {
        fn listed<T: PartialEq>(list: &[T], value: Option<T>) -> bool {
            list.is_empty() || value.is_some_and(|v| list.contains(&v))
        }
        listed(&self.pids, sample.pid())
            && listed(&self.tids, sample.tid())
            && listed(&self.cpus, sample.cpu())
            && self.time.is_none_or(|(from, to)| {
                sample
                    .time()
                    .is_some_and(|time| (from..=to).contains(&time))
            })
            && (self.comms.is_empty()
                || comm.is_some_and(|comm| self.comms.iter().any(|c| c.as_bytes() == comm)))
    }

    /// Whether a record that is no sample is shown.
    pub(crate) fn wants_record(
        &self,
        pid: i32,
        tid: i32,
        cpu: Option<u32>,
        time: u64,
        comm: &str,
    ) -> bool {
        (self.pids.is_empty() || self.pids.contains(&pid))
            && (self.tids.is_empty() || self.tids.contains(&tid))
            && (self.cpus.is_empty() || cpu.is_some_and(|c| self.cpus.contains(&c)))
            && (self.time).is_none_or(|(from, to)| (from..=to).contains(&time))
            && (self.comms.is_empty() || self.comms.iter().any(|c| c == comm))
    }

    /// Whether any sample can be turned away before its stack is known.
    pub(crate) fn is_by_sample(&self) -> bool {
        !(self.pids.is_empty()
            && self.tids.is_empty()
            && self.cpus.is_empty()
            && self.comms.is_empty()
            && self.time.is_none())
    }

    /// Names that no thread of the recording ever had: most likely mistyped.
    pub fn unknown_comms<'a>(&'a self, timeline: &'a Timeline) -> impl Iterator<Item = &'a str> {
        self.comms.iter().map(String::as_str).filter(|wanted| {
            *wanted != IDLE
                && !(timeline.threads().iter())
                    .flat_map(rprof_processes::Thread::names)
                    .any(|(_, comm)| timeline.comm_name(*comm) == Some(wanted.as_bytes()))
        })
    }
}
