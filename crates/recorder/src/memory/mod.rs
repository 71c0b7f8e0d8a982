//! Resident memory: converts page faults to samples of the memory that they made resident.
//!
//! ```text
//!   sample of a page fault, unwound --------------+
//!   mappings, births, execs, ends ----------------+--> Memory: Ledger --> SAMPLES at the end
//!   system calls that give memory back -----------+
//!   looks at the pages of running processes ------+
//!        (thread of Looks: smaps, pagemap)
//! ```
//!
//! Faults are not written one by one. At the end of the recording, each stack becomes one sample of
//! each [moment](samples::EVENTS), and its period is a number of bytes. So readers only sum
//! periods. The outermost frame of such a sample is the kind of mapping. Meanwhile, snapshots are
//! written as changes: bytes that a stack gained, or gave back, since the last snapshot.
//!
//! A look takes milliseconds, and faults continue meanwhile. The ledger takes it as of the moment
//! when it began, so [`Memory`] holds back all later events until the look is complete. It also waits
//! for all faults until the look ended: their pages may be in it, but were absent when it began.
//!
//! | module | contents |
//! |---|---|
//! | `events` | faults and process events, as the ledger takes them |
//! | `releases` | memory that is given back, and huge pages, by tracepoints |
//! | `looks` | the thread that looks at processes |
//! | `reader` | reads the resident pages of a process |
//! | `smaps` | parser of `/proc/PID/smaps` |
//! | `pagemap` | `/proc/PID/pagemap` |
//! | `samples` | samples for the file |
//! | `figures` | [`MemoryUse`]: totals |

mod events;
mod figures;
mod looks;
mod pagemap;
mod reader;
mod releases;
mod samples;
mod smaps;

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use rprof_jit::InterpretedNames;
use rprof_launch::{Child, Target};
use rprof_memory::{Coverage, FIRST_FRAMES, History, Ledger, Owner, Share, Step};
use rprof_records::{Attr, ProcessEvent};
use rprof_sampler::Session;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::distinct_stacks::DistinctStacks;
use crate::output::RotatingOutput;
use crate::pipeline::deferred::RecordSink;
use crate::pipeline::layouts::Layouts;
use crate::pipeline::merge::Released;
use crate::summed::SummedSamples;
pub(crate) use events::Change;
use events::Event;
pub use figures::MemoryUse;
pub(crate) use looks::Looks;
use reader::Reading;
use releases::{Heap, Releases};
pub use releases::{RELEASES, huge_pages};
pub(crate) use samples::EVENTS;
use samples::ShareKey;

/// Maximum number of events that wait for a look, some 100 MiB. Beyond it rprof gives up the look.
const MAX_WAITING: usize = 2 << 20;

/// Time in nanoseconds after which a release has ended, also without a later event of its thread.
const LONGEST_RELEASE: u64 = 1_000_000_000;

/// The peak is noted before a release if it grew by this part, since a copy takes time for each
/// stack.
const PEAK_STEP: u64 = 512;

/// Resident pages at one moment.
#[derive(Clone, Debug, Default)]
struct Moment {
    time: u64,
    pages: u64,
    shares: Vec<Share>,
    coverage: Coverage,
}

/// Last look at a process.
#[derive(Clone, Copy, Debug, Default)]
struct LastLook {
    /// Times when it began and ended.
    from: u64,
    until: u64,
    /// Known once the ledger has all faults until its end.
    coverage: Coverage,
}

#[derive(Debug)]
pub(crate) struct Memory {
    ledger: Ledger,
    stacks: DistinctStacks,
    /// The faults, and the samples in their place.
    summed: SummedSamples,
    looks: Arc<Looks>,
    /// Events after the beginning of a look that is not complete.
    waiting: VecDeque<Event>,
    /// The command, or the attached processes, that have not ended.
    targets: FxHashSet<i32>,
    /// Attached processes without a look.
    unseen: FxHashSet<i32>,
    /// Live threads by process. A process ends with its last thread.
    threads: FxHashMap<i32, FxHashSet<i32>>,
    /// Process and pages of the last fault, by thread: one, or those of a huge page.
    last_faults: FxHashMap<i32, (i32, Range<u64>)>,
    releases: Releases,
    heaps: FxHashMap<i32, Heap>,
    /// Process, pages and time of a thread's last release, while no later event shows its end.
    releasing: FxHashMap<i32, (i32, Range<u64>, u64)>,
    born: FxHashMap<i32, u64>,
    /// Last look at each process.
    looked: FxHashMap<i32, LastLook>,
    /// Processes without the coverage of their last look.
    uncovered: Vec<i32>,
    peak: Moment,
    /// Resident pages at the last snapshot.
    history: History<ShareKey>,
    /// Changes that are not written yet, with the times of their snapshots.
    steps: Vec<(u64, Step<ShareKey>)>,
    /// State when the last target ended.
    end: Option<Moment>,
    faults: u64,
    taken_looks: u64,
    last: u64,
}

/// Returns the attached threads by process. They have no records before those of threads that begin
/// and end meanwhile.
fn threads_of(session: &Session) -> FxHashMap<i32, FxHashSet<i32>> {
    let mut threads = FxHashMap::<i32, FxHashSet<i32>>::default();
    for thread in session.attached() {
        if let (Ok(pid), Ok(tid)) = (i32::try_from(thread.pid), i32::try_from(thread.tid)) {
            threads.entry(pid).or_default().insert(tid);
        }
    }
    threads
}

impl Memory {
    /// Follows the page faults of a session's first event. `attr` describes them after unwinding.
    pub(crate) fn of(
        session: &Session,
        attr: &Attr,
        names: &InterpretedNames,
        layouts: &Arc<Layouts>,
    ) -> Memory {
        let event = session.events().first();
        let ids = event.map_or(&[][..], |event| &event.ids);
        let attached: FxHashSet<i32> = (session.attached().iter())
            .filter_map(|thread| i32::try_from(thread.pid).ok())
            .collect();
        let command = session.child().map(Child::pid);
        let command = command.filter(|_| *session.target() == Target::Command);
        let page_bytes = rustix::param::page_size() as u64;
        let targets: FxHashSet<i32> = attached.iter().copied().chain(command).collect();
        let looks = Arc::new(Looks::new(
            session.clock(),
            page_bytes,
            targets.iter().copied(),
        ));
        for name in FIRST_FRAMES {
            let _ = names.address_of(name);
        }
        Memory {
            ledger: Ledger::new(page_bytes),
            stacks: DistinctStacks::new(names),
            summed: SummedSamples::of(ids, attr, names, layouts),
            looks,
            waiting: VecDeque::new(),
            targets,
            unseen: attached,
            threads: threads_of(session),
            last_faults: FxHashMap::default(),
            releases: Releases::of(session, page_bytes),
            heaps: FxHashMap::default(),
            releasing: FxHashMap::default(),
            born: FxHashMap::default(),
            looked: FxHashMap::default(),
            uncovered: Vec::new(),
            peak: Moment::default(),
            history: History::default(),
            steps: Vec::new(),
            end: None,
            faults: 0,
            taken_looks: 0,
            last: 0,
        }
    }

    pub(crate) fn looks(&self) -> &Arc<Looks> {
        &self.looks
    }

    /// Handles the next record, and passes it on unless it is a page fault.
    pub(crate) fn handle(
        &mut self,
        released: &Released<'_>,
        event: Option<&ProcessEvent<'_>>,
        output: &mut RotatingOutput,
    ) -> io::Result<()> {
        self.last = self.last.max(released.time);
        let (change, is_own) = match self.fault(released) {
            Some((pid, change)) => {
                self.summed.announce(pid, released, output)?;
                (Some(change), true)
            }
            None => match self.releases.read(released) {
                (true, change) => (change, true),
                (false, _) => (event.and_then(Change::of), false),
            },
        };
        if let Some(change) = change {
            let time = released.time;
            self.take_looks(time);
            let event = Event { time, change };
            if self.waiting.is_empty() && !self.looks.is_before(time) {
                self.apply(event);
            } else {
                self.waiting.push_back(event);
                if self.waiting.len() > MAX_WAITING {
                    self.looks.give_up();
                    self.take_looks(time);
                }
            }
        }
        match is_own {
            true => Ok(()),
            false => output.put(released, event),
        }
    }

    /// Returns the process and the event of a page fault's sample.
    fn fault(&mut self, released: &Released<'_>) -> Option<(i32, Change)> {
        let (misc, sample) = self.summed.sample(released)?;
        let (pid, tid, address) = (sample.pid()?, sample.tid()?, sample.addr()?);
        self.faults += 1;
        let stack = (self.stacks).intern(&sample, misc, released.time, |_| false);
        let change = Change::Fault {
            pid,
            tid,
            address,
            stack,
        };
        Some((pid, change))
    }

    /// Applies looks that are complete, and the events that waited for them. All records before
    /// `now` were handled.
    pub(crate) fn take_looks(&mut self, now: u64) {
        loop {
            let limit = self.looks.earliest().unwrap_or(u64::MAX);
            while let Some(event) = self.waiting.pop_front_if(|event| event.time <= limit) {
                self.apply(event);
            }
            match self.looks.next_complete(now) {
                Some((time, Some(mut reading))) => {
                    let pid = reading.look.pid;
                    reading.look.later = self.waiting_faults(pid, reading.until);
                    let last = self.last_faults.values().filter(|(of, _)| *of == pid);
                    reading.look.unfinished = last.flat_map(|(_, pages)| pages.clone()).collect();
                    reading.look.released = self.waiting_releases(pid, reading.until);
                    let is_recent = |at: u64| time.saturating_sub(at) < LONGEST_RELEASE;
                    reading.look.releasing = (self.releasing.values())
                        .filter(|(of, _, at)| *of == pid && is_recent(*at))
                        .map(|(_, pages, _)| pages.clone())
                        .collect();
                    self.look(time, &reading);
                }
                Some((_, None)) => {}
                None => return,
            }
        }
    }

    /// Returns the pages of a process that fault until a moment, in events that wait.
    fn waiting_faults(&self, process: i32, until: u64) -> FxHashSet<u64> {
        let page = self.ledger.page_bytes();
        let waiting = self.waiting.iter().take_while(|event| event.time <= until);
        let faults = waiting.filter_map(|event| match event.change {
            Change::Fault { pid, address, .. } if pid == process => Some(address / page),
            _ => None,
        });
        faults.collect()
    }

    /// Returns the pages that a process gives back or moves until a moment, in events that wait.
    fn waiting_releases(&self, process: i32, until: u64) -> Vec<Range<u64>> {
        let mut heap = self.heaps.get(&process).cloned().unwrap_or_default();
        let waiting = self.waiting.iter().take_while(|event| event.time <= until);
        let releases = waiting.filter_map(|event| match &event.change {
            Change::Released { pid, pages, .. } | Change::Moved { pid, pages, .. }
                if *pid == process =>
            {
                Some(pages.clone())
            }
            Change::Heap {
                pid,
                end,
                is_result,
                ..
            } if *pid == process => heap.set(*end, *is_result),
            _ => None,
        });
        releases.collect()
    }

    fn look(&mut self, time: u64, reading: &Reading) {
        let pid = reading.look.pid;
        let unseen = match self.unseen.remove(&pid) {
            true => Owner::Before,
            false => Owner::Unseen,
        };
        self.ledger.look(&reading.look, unseen);
        self.taken_looks += 1;
        let [explained, ..] = self.ledger.resident_of(pid);
        let coverage = Coverage {
            resident: reading.resident,
            explained: explained * self.ledger.page_bytes(),
            ..Coverage::default()
        };
        let look = LastLook {
            from: time,
            until: reading.until,
            coverage,
        };
        self.looked.insert(pid, look);
        self.uncovered.push(pid);
        self.note_peak(time);
        self.take_snapshot(time);
    }

    /// Compares the looks that ended before `now` with the ledger, which has all faults until then.
    fn cover(&mut self, now: u64) {
        let page = self.ledger.page_bytes();
        let (ledger, looked) = (&self.ledger, &mut self.looked);
        self.uncovered.retain(|pid| {
            let Some(look) = looked.get_mut(pid) else {
                return false;
            };
            if look.until >= now {
                return true;
            }
            let [explained, before, unseen] = ledger.resident_of(*pid).map(|pages| pages * page);
            // The kernel's figure is between the beginning and the end, and faults and releases went
            // on.
            let others = before.saturating_add(unseen);
            let explained = explained.max(look.coverage.explained);
            let explained = explained.min(look.coverage.resident.saturating_sub(others));
            look.coverage = Coverage {
                explained,
                before,
                unseen,
                ..look.coverage
            };
            false
        });
    }

    fn note_peak(&mut self, time: u64) {
        if self.ledger.resident() > self.peak.pages {
            self.peak = self.moment_without_coverage(time);
        }
    }

    fn release(&mut self, (pid, tid): (i32, i32), pages: Range<u64>, time: u64) {
        self.note_peak_before_release(time);
        self.ledger.release(pid, pages.clone());
        self.releasing.insert(tid, (pid, pages, time));
    }

    fn note_peak_before_release(&mut self, time: u64) {
        let peak = self.peak.pages;
        if self.ledger.resident() > peak + peak / PEAK_STEP {
            self.note_peak(time);
        }
    }

    fn moment(&mut self, time: u64) -> Moment {
        self.cover(u64::MAX);
        let mut coverage = Coverage::default();
        for look in self.looked.values() {
            coverage.add(&Coverage {
                before_end: Duration::from_nanos(time.saturating_sub(look.from)),
                ..look.coverage
            });
        }
        Moment {
            coverage,
            ..self.moment_without_coverage(time)
        }
    }

    fn moment_without_coverage(&self, time: u64) -> Moment {
        Moment {
            time,
            pages: self.ledger.resident(),
            shares: self.ledger.live(),
            coverage: Coverage::default(),
        }
    }

    fn apply(&mut self, Event { time, change }: Event) {
        if !self.uncovered.is_empty() {
            self.cover(time);
        }
        // Looks take snapshots; without permission for looks, faults do.
        if self.history.is_late(time) {
            self.take_snapshot(time);
        }
        match change {
            Change::Fault {
                pid,
                tid,
                address,
                stack,
            } => {
                let page = address / self.ledger.page_bytes();
                self.releasing.remove(&tid);
                self.last_faults.insert(tid, (pid, page..page + 1));
                self.ledger.fault(pid, address, stack);
            }
            Change::Released { pid, tid, pages } => self.release((pid, tid), pages, time),
            Change::Heap {
                pid,
                tid,
                end,
                is_result,
            } => {
                if let Some(pages) = self.heaps.entry(pid).or_default().set(end, is_result) {
                    self.release((pid, tid), pages, time);
                }
            }
            Change::Moved {
                pid,
                pages,
                kept,
                to,
            } => {
                self.note_peak_before_release(time);
                let end = pages.end.min(pages.start.saturating_add(kept));
                self.ledger.release(pid, end..pages.end);
                if to != pages.start {
                    self.ledger.move_pages(pid, pages.start..end, to);
                }
            }
            Change::Huge { pid, tid, pages } => {
                if let Some((of, last)) = self.last_faults.get_mut(&tid)
                    && *of == pid
                {
                    let address = last.start * self.ledger.page_bytes();
                    self.ledger.huge_fault(pid, address, pages);
                    let first = last.start - last.start % pages;
                    *last = first..first + pages;
                }
            }
            Change::Mapped {
                pid,
                range,
                name,
                is_read_only_file,
            } => match is_read_only_file {
                true => self.ledger.map_read_only_file(pid, range, &name),
                false => self.ledger.map(pid, range, &name),
            },
            Change::Started { pid, tid, parent } => {
                self.threads.entry(pid).or_default().insert(tid);
                if let Some(parent) = parent.filter(|parent| *parent != pid) {
                    self.ledger.fork(parent, pid);
                    if let Some(heap) = self.heaps.get(&parent) {
                        self.heaps.insert(pid, heap.clone());
                    }
                    self.born.insert(pid, time);
                    self.looks.watch(pid);
                }
            }
            Change::Executed { pid } => {
                self.threads.insert(pid, FxHashSet::from_iter([pid]));
                self.unseen.remove(&pid);
                self.heaps.remove(&pid);
                self.ledger.end(pid);
                self.summed.execute(pid);
                self.looked.remove(&pid);
                self.looks.watch(pid);
            }
            Change::Ended { pid, tid } => {
                self.last_faults.remove(&tid);
                self.releasing.remove(&tid);
                if let Some(threads) = self.threads.get_mut(&pid) {
                    threads.remove(&tid);
                    if !threads.is_empty() {
                        return;
                    }
                }
                self.end_process(pid, time);
            }
        }
    }

    fn end_process(&mut self, pid: i32, time: u64) {
        self.threads.remove(&pid);
        self.ledger.add_neighbours(pid);
        if self.targets.remove(&pid) && self.targets.is_empty() {
            let end = self.moment(time);
            self.take_snapshot_of(&end.shares, time);
            self.end = Some(end);
        }
        self.note_peak(time);
        self.heaps.remove(&pid);
        self.ledger.end(pid);
        self.looked.remove(&pid);
        self.looks.forget(pid);
    }

    /// Writes the samples of all moments.
    ///
    /// # Errors
    /// Errors of writing.
    pub(crate) fn finish(&mut self, output: &mut RotatingOutput) -> io::Result<MemoryUse> {
        self.looks.close();
        self.take_looks(u64::MAX);
        let last = self.last;
        self.note_peak(last);
        let end = match self.end.take() {
            Some(end) => end,
            None => {
                let end = self.moment(last);
                self.take_snapshot_of(&end.shares, last);
                end
            }
        };
        self.write_steps(output)?;
        let peak = std::mem::take(&mut self.peak);
        let touched = self.ledger.touched();
        let moments = [&end.shares, &peak.shares, &touched];
        for (event, shares) in moments.into_iter().enumerate() {
            for share in shares {
                self.write(event, share, output)?;
            }
        }
        let page = self.ledger.page_bytes();
        let touched: u64 = touched.iter().map(|share| share.pages).sum();
        Ok(MemoryUse {
            faults: self.faults,
            looks: self.taken_looks,
            end: end.pages * page,
            peak: peak.pages * page,
            peak_time: peak.time,
            touched: touched * page,
            coverage: end.coverage,
            most_resident: 0,
            refusal: self.looks.refusal(),
            further_stacks: self.stacks.refused(),
        })
    }
}
