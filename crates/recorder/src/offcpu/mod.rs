//! Off-CPU time: converts context switches of threads to samples of their waits.
//!
//! ```text
//!   sample of a thread that leaves its CPU, unwound --+
//!   switch out ------- switch in ---------------------+--> Pairing --> Wait --> Sums --> SAMPLE of offcpu-time
//!   births, ends, samples of what runs, losses -------+        |
//!                                                              +--> ThreadTime
//! ```
//!
//! Input records are sorted by time and have final stacks. A wait is written at its end as a
//! sample. Its period is its length in nanoseconds, so readers only sum periods.
//!
//! | module | contents |
//! |---|---|
//! | `pairing` | pairs switches out and in to waits |
//! | `thread` | state of a thread |
//! | `sleepers` | stacks of threads that were asleep at the start |
//! | `kernel_functions` | addresses of kernel functions in their stacks |
//! | `cpus` | state of each CPU |
//! | `cuts` | stacks for waits that began before a window |
//! | `pace` | limits the cost of recording switches with time windows |
//! | `boundaries` | starts and ends of windows |
//! | `windows` | begins and ends windows |
//! | `slices` | extrapolates a window to the gap after it |
//! | `carried` | carries stacks from one window to the next |
//! | `sleeping` | threads that sleep at the end of a window |
//! | `output` | the record sink with off-CPU analysis |
//! | `sums` | sums of short waits with the same stack |
//! | `wait` | a wait |
//! | `wakeups` | reads wakeups and wakers, if they are recorded |
//! | `time` | [`ThreadTime`]: time of all threads by state |

mod boundaries;
mod carried;
mod cpus;
mod cuts;
mod kernel_functions;
mod output;
mod pace;
mod pairing;
mod sleepers;
mod sleeping;
mod slices;
mod sums;
mod thread;
mod time;
mod wait;
mod wakeups;
mod windows;

pub(crate) use boundaries::Boundaries;
pub(crate) use output::{FinalSums, WaitOutput};
pub(crate) use pace::Pace;
pub use time::ThreadTime;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rprof_launch::Target;
use rprof_processes::PrivilegedExecs;
use rprof_records::{
    Attr, AttrFlags, Endian, Misc, ProcessEvent, RawBytes, RawRecord, RecordType, Sample,
    SampleFields, SampleLayout, SampleType,
};
use rprof_sampler::{Clock, EventIds, Role, Session, Stream};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::described::{Rewriting, attr_of_waits};
use crate::output::RotatingOutput;
use crate::pipeline::deferred::RecordSink;
use crate::pipeline::layouts::Layouts;
use crate::pipeline::merge::Released;
use crate::progress::LiveCounts;
use crate::unwind::Unwinding;
use kernel_functions::KernelFunctions;
use pairing::Pairing;
use sums::{Sums, WaitSum};
use wait::{Moment, Wait};
use wakeups::WakeupReader;

/// Nanoseconds until an unchanged sum is written.
const FLUSH: u64 = 500_000_000;

#[derive(Clone, Debug)]
struct Watched {
    /// Attached threads, which existed before.
    attached: Vec<(i32, i32)>,
    clock: Clock,
    by_cpu: bool,
    by_group: bool,
    inherits: bool,
    /// True if the recording starts at the command's exec instead of a given time.
    from_exec: bool,
    rewriting: Rewriting,
    /// Minimum nanoseconds of a sum of short waits for a record.
    least: u64,
}

#[derive(Debug)]
pub(crate) struct OffCpu {
    pairing: Pairing,
    /// `None` if samples still have raw stacks, which cannot be compared.
    sums: Option<Sums>,
    watched: Watched,
    wakes: Option<WakeupReader>,
    ids: FxHashSet<u64>,
    any_id: u64,
    sideband_id: u64,
    /// Layout of the switch event's samples after unwinding.
    taken: SampleLayout,
    written: SampleLayout,
    layouts: Arc<Layouts>,
    live: Arc<LiveCounts>,
    has_begun: bool,
    sleepers: Vec<(i32, i32)>,
    /// Inspected threads without addresses of their kernel functions.
    unnamed_looks: Vec<sleepers::Look>,
    /// Inspections with incomplete stacks, and the number of further tries.
    early_looks: Vec<(sleepers::Look, u32)>,
    /// `None` if samples have no kernel stack.
    kernel_functions: Option<KernelFunctions>,
    /// Threads that sleep in an unknown place in a window, with their switch counts.
    unknown: Vec<sleeping::Unknown>,
    /// Threads inspected at the last window's end: switch count and synthesized switch sample.
    looks: FxHashMap<i32, (u64, Vec<u8>)>,
    clock: Clock,
    boundaries: Arc<Boundaries>,
    changes: VecDeque<(u64, boundaries::Change)>,
    privileged_execs: PrivilegedExecs,
    last: u64,
    next_flush: u64,
    bytes: Vec<u8>,
}

impl OffCpu {
    /// Starts with a session's switch event, if it has one. `least` is the shortest wait with its
    /// own sample.
    pub(crate) fn of(
        session: &Session,
        rewriting: Rewriting,
        least: Duration,
        layouts: &Arc<Layouts>,
        live: &Arc<LiveCounts>,
    ) -> Option<OffCpu> {
        let is_it = |event: &&EventIds| event.role == Role::OffCpu;
        let event = session.events().iter().find(is_it)?;
        let by_cpu = session.target().is_by_cpu();
        let attached = session.attached().iter();
        let watched = Watched {
            attached: attached
                .filter_map(|thread| {
                    let pid = i32::try_from(thread.pid).ok()?;
                    Some((pid, i32::try_from(thread.tid).ok()?))
                })
                .collect(),
            clock: session.clock(),
            by_cpu,
            by_group: matches!(session.target(), Target::Cgroups(_)),
            inherits: by_cpu || event.attr.flags.contains(AttrFlags::INHERIT),
            from_exec: *session.target() == Target::Command && session.is_enabled_from_start(),
            rewriting,
            least: u64::try_from(least.as_nanos()).unwrap_or(u64::MAX),
        };
        let taken = rewriting.unwound(&event.attr);
        let (layouts, live) = (Arc::clone(layouts), Arc::clone(live));
        let mut off_cpu = OffCpu::new(event, &taken, watched, layouts, live);
        if !off_cpu.watched.attached.is_empty()
            && let Some(functions) = &mut off_cpu.kernel_functions
        {
            functions.load();
        }
        if let Some(cpus) = session.watched_cpus() {
            off_cpu.pairing.watch_cpus(cpus);
        }
        off_cpu.wakes = WakeupReader::of(session);
        off_cpu.pairing.records_wakeups = off_cpu.reads_wakeups();
        let sideband = (session.events().iter()).find(|event| event.role == Role::Sideband);
        off_cpu.sideband_id = sideband.map_or(0, |event| event.ids.first().copied().unwrap_or(0));
        off_cpu.boundaries = Arc::new(Boundaries::new(session.cpus()));
        Some(off_cpu)
    }

    pub(crate) fn boundaries(&self) -> &Arc<Boundaries> {
        &self.boundaries
    }

    /// Fetches changes. At the end of a window it inspects sleeping threads at once, because they
    /// may wake before its records are handled.
    pub(crate) fn take_changes(&mut self, unwinding: Option<&mut Unwinding>) {
        let changes = self.boundaries.take();
        if let Some(unwinding) = unwinding {
            for (_, change) in &changes {
                if let boundaries::Change::Pause(readings) = change {
                    self.look_early(readings, unwinding);
                }
            }
        }
        self.changes.extend(changes);
    }

    fn change_if_due(&mut self, time: u64, output: &mut RotatingOutput) -> io::Result<()> {
        while let Some((at, change)) = self.changes.pop_front_if(|(at, _)| *at <= time) {
            let ends_window = matches!(change, boundaries::Change::Pause(_));
            if ends_window {
                self.boundaries.set_sleepers(self.pairing.next_to_count());
            }
            for wait in self.pairing.change(change, at) {
                self.put_wait(Some(wait), time, output)?;
            }
            if ends_window {
                self.unknown = self.pairing.take_unknown();
                self.use_looks();
            }
        }
        Ok(())
    }

    fn new(
        event: &EventIds,
        taken: &Attr,
        watched: Watched,
        layouts: Arc<Layouts>,
        live: Arc<LiveCounts>,
    ) -> OffCpu {
        let written = attr_of_waits(taken, watched.rewriting);
        let fields = taken.sample_type;
        let fixed = SampleLayout::FIXED
            .iter()
            .filter(|field| fields.contains(**field));
        let stack_at = 8 + 8 * fixed.count();
        let is_unwound = !fields.contains(SampleType::STACK_USER);
        OffCpu {
            pairing: Pairing::new(watched.by_cpu),
            sums: is_unwound.then(|| Sums::new(watched.least, stack_at)),
            wakes: None,
            ids: event.ids.iter().copied().collect(),
            any_id: event.ids.first().copied().unwrap_or(0),
            sideband_id: 0,
            taken: SampleLayout::new(taken, Endian::NATIVE),
            written: SampleLayout::new(&written, Endian::NATIVE),
            layouts,
            live,
            has_begun: watched.from_exec,
            sleepers: Vec::new(),
            early_looks: Vec::new(),
            unnamed_looks: Vec::new(),
            kernel_functions: (fields.contains(SampleType::CALLCHAIN)
                && !(taken.flags).contains(AttrFlags::EXCLUDE_CALLCHAIN_KERNEL))
            .then(KernelFunctions::default),
            unknown: Vec::new(),
            looks: FxHashMap::default(),
            clock: watched.clock,
            boundaries: Arc::default(),
            changes: VecDeque::new(),
            privileged_execs: PrivilegedExecs::default(),
            watched,
            last: 0,
            next_flush: 0,
            bytes: Vec::new(),
        }
    }

    /// Returns true for a switch sample of a CPU's idle task, which is no wait.
    pub(crate) fn is_idle(&self, released: &Released<'_>) -> bool {
        if !self.watched.by_cpu || released.stream != Stream::Samples {
            return false;
        }
        let raw = released.raw();
        raw.is_some_and(|raw| {
            raw.kind == RecordType::SAMPLE
                && self.is_leaving(&raw)
                && self.moment_of_sample(&raw, released).is_none()
        })
    }

    fn is_leaving(&self, raw: &RawRecord<'_>) -> bool {
        (raw.body.u64(0, Endian::NATIVE)).is_some_and(|id| self.ids.contains(&id))
    }

    /// Returns the thread of any event's sample; `None` for idle tasks. All events have the same
    /// TID offset.
    fn moment_of_sample(&self, raw: &RawRecord<'_>, released: &Released<'_>) -> Option<Moment> {
        let at = self.taken.fixed_offset(SampleType::TID)?;
        let number = |at| raw.body.u32(at, Endian::NATIVE).map(u32::cast_signed);
        moment(number(at)?, number(at + 4)?, released)
    }

    /// Handles the next record, and passes it on unless it belongs to the switch events.
    fn handle(
        &mut self,
        released: &Released<'_>,
        event: Option<&ProcessEvent<'_>>,
        output: &mut RotatingOutput,
    ) -> io::Result<()> {
        self.last = self.last.max(released.time);
        self.begin_if_due(released.time);
        self.change_if_due(released.time, output)?;
        self.flush_if_due(released.time, output)?;
        if released.stream == Stream::Sideband {
            if let Some(event) = event {
                self.follow(event, released.time);
                self.flush_before(event, released.time, output)?;
            }
            return output.put(released, event);
        }
        let Some(raw) = released.raw() else {
            return output.put(released, event);
        };
        match raw.kind {
            RecordType::SAMPLE
                if self
                    .wakes
                    .as_ref()
                    .is_some_and(|wakes| wakes.is_wakeup(&raw)) =>
            {
                return self.wake(&raw, released, output);
            }
            RecordType::SAMPLE => {
                let at = self.moment_of_sample(&raw, released);
                if self.is_leaving(&raw) {
                    if let Some(at) = at {
                        self.pairing.leaving(at, released.bytes);
                    }
                    return Ok(());
                }
                let wait = at.and_then(|at| self.pairing.sampled(at));
                self.put_wait(wait, released.time, output)?;
            }
            RecordType::SWITCH | RecordType::SWITCH_CPU_WIDE => {
                if raw.misc.has(Misc::SWITCH_OUT) {
                    self.boundaries.count_switch(released.cpu);
                }
                let id = self.layouts.samples.sample_id(&raw);
                let at = (id.pid.zip(id.tid)).and_then(|(pid, tid)| moment(pid, tid, released));
                if let Some(at) = at {
                    let wait = match raw.misc.has(Misc::SWITCH_OUT) {
                        true => {
                            let runnable = raw.misc.has(Misc::SWITCH_OUT_PREEMPT);
                            self.pairing.switched_out(at, runnable);
                            None
                        }
                        false => self.pairing.switched_in(at),
                    };
                    self.put_wait(wait, released.time, output)?;
                } else if raw.misc.has(Misc::SWITCH_OUT) && id.tid == Some(0) {
                    self.pairing.idle_left(released.cpu, released.time);
                }
                if !self.watched.rewriting.keeps_switches {
                    return Ok(());
                }
            }
            RecordType::LOST => self.pairing.lost(released.cpu, released.time),
            _ => {}
        }
        output.put(released, event)
    }

    /// Returns true for a thread outside the recorded cgroup, which has no switch or sample.
    /// Process events arrive for all threads.
    fn is_outside(&self, tid: i32) -> bool {
        self.watched.by_group && !self.pairing.has_seen(tid)
    }

    fn follow(&mut self, event: &ProcessEvent<'_>, time: u64) {
        let is_privileged_exec = self.privileged_execs.handle(event);
        match *event {
            ProcessEvent::Forked {
                pid,
                tid,
                parent_tid,
                ..
            } if self.watched.inherits => {
                // A child is in the cgroup of its parent.
                let is_elsewhere = self.is_outside(parent_tid);
                let is_own = self.watched.by_cpu && pid.cast_unsigned() == std::process::id();
                if !is_elsewhere && !is_own {
                    self.pairing.forked(pid, tid, time);
                }
            }
            ProcessEvent::Found { pid, tid, .. } if self.watched.by_cpu && !self.has_begun => {
                self.pairing.found(pid, tid, time);
            }
            // Events of whole CPUs continue.
            ProcessEvent::Ended { .. } if is_privileged_exec && self.watched.by_cpu => {}
            ProcessEvent::Ended { tid, .. } if self.is_outside(tid) => self.pairing.leave_out(tid),
            ProcessEvent::Ended { pid, tid } => self.pairing.ended(pid, tid, time),
            ProcessEvent::Executed { pid, tid, .. } if !self.is_outside(tid) => {
                self.pairing.executed(pid, tid, time);
            }
            _ => {}
        }
    }

    /// Starts once the records reach the start of the recording. Sleeping threads have no record
    /// then.
    pub(crate) fn begin_if_due(&mut self, time: u64) {
        if self.has_begun {
            return;
        }
        let begun = self.live.begun.load(Ordering::SeqCst);
        if begun != 0 && time >= begun {
            self.has_begun = true;
            let attached = std::mem::take(&mut self.watched.attached);
            self.pairing.begin(begun, attached.iter().copied());
            self.set_sleepers(attached);
        }
    }

    fn flush_if_due(&mut self, time: u64, output: &mut RotatingOutput) -> io::Result<()> {
        if time < self.next_flush {
            return Ok(());
        }
        self.next_flush = time.saturating_add(FLUSH);
        let idle = self.sums.as_mut().map_or(Vec::new(), Sums::flush_idle);
        (idle.iter()).try_for_each(|sum| self.write(sum, time, output))
    }

    /// Writes the sums of waits that belong to the names and mappings before an event, to the name
    /// of the thread that ended them, or to an earlier process with this pid.
    fn flush_before(
        &mut self,
        event: &ProcessEvent<'_>,
        time: u64,
        output: &mut RotatingOutput,
    ) -> io::Result<()> {
        match *event {
            ProcessEvent::Executed { pid, tid, .. } => {
                let is_older = |wait: &Wait| wait.pid == pid || wait.is_ended_by(tid);
                self.write_before(|sums| sums.flush_of(is_older), time, output)
            }
            ProcessEvent::Renamed { tid, .. } => {
                let is_older = |wait: &Wait| wait.tid == tid || wait.is_ended_by(tid);
                self.write_before(|sums| sums.flush_of(is_older), time, output)
            }
            ProcessEvent::Forked { pid, tid, .. } if pid == tid => {
                self.write_before(|sums| sums.flush_process(pid), time, output)
            }
            ProcessEvent::Mapped(ref map) if map.executable && !map.kernel => {
                let range = map.start..map.start.saturating_add(map.len);
                self.write_before(|sums| sums.flush_code(map.pid, &range), time, output)
            }
            _ => Ok(()),
        }
    }

    /// Writes sums, before a time.
    fn write_before(
        &mut self,
        take: impl FnOnce(&mut Sums) -> Vec<WaitSum>,
        time: u64,
        output: &mut RotatingOutput,
    ) -> io::Result<()> {
        let sums = self.sums.as_mut().map_or(Vec::new(), take);
        let before = time.saturating_sub(1);
        (sums.iter()).try_for_each(|sum| self.write(sum, before, output))
    }

    fn put_wait(
        &mut self,
        wait: Option<Wait>,
        now: u64,
        output: &mut RotatingOutput,
    ) -> io::Result<()> {
        for part in wait.into_iter().flat_map(Wait::parts) {
            if part.weight == 0 {
                continue;
            }
            let sum = match &mut self.sums {
                Some(sums) => sums.add(part),
                None => Some(WaitSum::of(part)),
            };
            if let Some(sum) = sum {
                self.write(&sum, now, output)?;
            }
        }
        Ok(())
    }

    /// Writes a wait that ended before `now`, the current output time.
    fn write(&mut self, sum: &WaitSum, now: u64, output: &mut RotatingOutput) -> io::Result<()> {
        let WaitSum { wait, ns } = sum;
        let raw = (wait.stack.as_deref())
            .and_then(|bytes| RawRecord::parse(RawBytes::from(bytes), Endian::NATIVE));
        let sample = raw.and_then(|raw| {
            let sample = Sample::parse(raw.body, &self.taken).ok()?;
            Some((raw.misc, SampleFields::from(&sample)))
        });
        let without = || SampleFields {
            id: self.any_id,
            ..SampleFields::default()
        };
        let (misc, fields) = sample.unwrap_or_else(|| (Misc::USER, without()));
        let fields = SampleFields {
            pid: wait.pid,
            tid: wait.tid,
            time: now,
            cpu: wait.cpu,
            period: *ns,
            addr: wait.end().to_addr(),
            ..fields
        };
        self.bytes.clear();
        (fields.encode(misc, &self.written, &mut self.bytes)).map_err(io::Error::other)?;
        let released = Released {
            time: now,
            cpu: wait.cpu,
            stream: Stream::Samples,
            bytes: &self.bytes,
        };
        output.put_wait(wait.from, &released)
    }

    /// Ends all waits with the recording. Returns the times of the threads.
    ///
    /// # Errors
    /// Errors of writing.
    pub(crate) fn finish(&mut self, output: &mut RotatingOutput) -> io::Result<ThreadTime> {
        let ended = self.live.ended.load(Ordering::SeqCst);
        let end = self.last.max(ended);
        if !self.has_begun {
            self.begin_if_due(u64::MAX);
        }
        self.finish_looks();
        self.take_changes(None);
        self.change_if_due(end, output)?;
        let mut sums = self.sums.as_mut().map_or(Vec::new(), Sums::flush);
        let open = self.pairing.finish(end).into_iter().flat_map(Wait::parts);
        sums.extend(open.filter(|wait| wait.weight > 0).map(WaitSum::of));
        (sums.iter()).try_for_each(|sum| self.write(sum, end, output))?;
        Ok(self.pairing.time().clone())
    }
}

fn moment(pid: i32, tid: i32, released: &Released<'_>) -> Option<Moment> {
    (tid > 0).then_some(Moment {
        pid,
        tid,
        cpu: released.cpu,
        time: released.time,
    })
}
