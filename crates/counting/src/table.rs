//! [`CountTable`]: counts by CPU, core, socket, node or thread.

use crate::count::Count;
use crate::places::Per;
use crate::places::Place;
use crate::topology::Topology;
use rprof_perf_event::{ReadError, Reading};
use std::collections::BTreeMap;

/// Part of a target with separate counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The whole target.
    All,
    /// CPU with this number.
    Cpu(u32),
    /// Core of a socket.
    Core {
        /// Socket number.
        socket: u32,
        /// Core number, with the die number in the upper half.
        core: u32,
    },
    /// Socket with this number (`physical_package_id`).
    Socket(u32),
    /// Memory node.
    Node(u32),
    /// Thread of a process.
    Thread {
        /// Process id.
        pid: u32,
        /// Thread id.
        tid: u32,
    },
    /// Process with this id: the sum of its threads.
    Process(u32),
    /// Counts of a command outside of thread counters: threads before, or without, discovery.
    Rest,
}

/// Counts of all events by part of the target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountTable {
    events: usize,
    rows: BTreeMap<Part, Vec<Option<Count>>>,
}

impl CountTable {
    pub(crate) fn new(events: usize) -> CountTable {
        CountTable {
            events,
            rows: BTreeMap::new(),
        }
    }

    pub(crate) fn add(&mut self, part: Part, event: usize, reading: Result<Reading, ReadError>) {
        let events = self.events;
        let row = self.rows.entry(part).or_insert_with(|| vec![None; events]);
        if let Some(count) = row.get_mut(event) {
            count.get_or_insert_default().add(reading);
        }
    }

    /// Subtracts the threads from the whole command. The difference becomes the rest.
    pub(crate) fn take_apart(&mut self) {
        let Some(mut rest) = self.rows.remove(&Part::All) else {
            return;
        };
        for (event, whole) in rest.iter_mut().enumerate() {
            let threads = self.rows.values().filter_map(|row| *row.get(event)?);
            if let Some(whole) = whole {
                threads.for_each(|count| whole.subtract(&count));
            }
        }
        self.rows.insert(Part::Rest, rest);
    }

    /// Iterates over the parts, in order.
    pub fn parts(&self) -> impl Iterator<Item = Part> {
        self.rows.keys().copied()
    }

    /// Returns the count of an event in a part; `None` if not counted there.
    pub fn count(&self, part: Part, event: usize) -> Option<Count> {
        *self.rows.get(&part)?.get(event)?
    }
}

pub(crate) fn part_of(place: &Place, per: Per, topology: &Topology, is_command: bool) -> Part {
    let by_cpu = |of: fn(crate::topology::CpuPlace) -> Part| match place.cpu {
        Some(cpu) => of(topology.place(cpu)),
        None => Part::All,
    };
    match per {
        Per::All => Part::All,
        Per::Cpu => by_cpu(|at| Part::Cpu(at.cpu)),
        Per::Core => by_cpu(|at| Part::Core {
            socket: at.socket,
            core: at.core,
        }),
        Per::Socket => by_cpu(|at| Part::Socket(at.socket)),
        Per::Node => by_cpu(|at| Part::Node(at.node)),
        Per::Thread | Per::Process => match place.thread() {
            // A command also has counters for all threads together.
            Some(_) if is_command && !place.is_followed => Part::All,
            Some(thread) if per == Per::Process => Part::Process(thread.pid),
            Some(thread) => Part::Thread {
                pid: thread.pid,
                tid: thread.tid,
            },
            None => Part::All,
        },
    }
}
