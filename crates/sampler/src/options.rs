//! Options of a recording, as the caller sets them.

use crate::memory::memory_limit;
use rprof_events::Rate;
use rprof_launch::Target;
use rprof_perf_event::Clock;
use rprof_perf_event::ring::MAX_RECORD;
use rprof_records::{AttrFlags, BranchSampleType, SampleType};
use std::time::Duration;

/// Settings of a recording. Made by [`Session::builder`](crate::Session::builder), or by hand from
/// [`SamplingOptions::default`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SamplingOptions {
    /// Sampling rate. Default: 999 a second, not 1000, so as not to beat with the kernel's timer tick.
    pub rate: Rate,
    /// True if `rate` is the default, which nobody asked for: tracepoints, probes and breakpoints
    /// then use period 1, as in perf. Default: yes.
    pub rate_is_default: bool,
    /// True to fail when the kernel does not allow the frequency, in place of lowering it. Default: no.
    pub strict_frequency: bool,
    /// Record callchains. Default: yes.
    pub callchains: bool,
    /// Largest number of addresses in a callchain. Default: the system's limit (`perf_event_max_stack`).
    pub max_stack: Option<u16>,
    /// Leave out samples in the kernel. Default: no.
    pub exclude_kernel: bool,
    /// Leave out samples in user mode. Default: no.
    pub exclude_user: bool,
    /// Watch the threads and processes that the target starts as well. Default: yes.
    pub inherit: bool,
    /// Bytes of sample ring for each CPU, rounded up to a power of two of pages.
    /// Default: see [`ring_sizes`](crate::open::ring_sizes).
    pub ring_bytes: Option<usize>,
    /// Bytes of sideband ring for each CPU, rounded as the other.
    pub sideband_ring_bytes: Option<usize>,
    /// Target of the recording. Default: the command.
    pub target: Target,
    /// CPUs to watch; none means all that are online. With `off_cpu`, switches are told of on the others as well. Default: none.
    pub cpus: Vec<u32>,
    /// True if sampling begins with the command (or at [`Session::start`](crate::Session::start)
    /// where there is none), or only at [`Session::enable`](crate::Session::enable). Default: yes.
    pub enabled_from_start: bool,
    /// Leave this process itself out. Default: no.
    pub exclude_self: bool,
    /// Leave out samples of clocks on CPUs that have nothing to do (`exclude_idle`). Events of other kinds, which an idle CPU
    /// hardly counts, are taken as they come: many units refuse to leave it out. Default: no.
    pub exclude_idle: bool,
    /// Bytes of the user's stack to copy into each sample, with the user's registers, in
    /// place of the user part of the callchain. Default: none.
    pub user_stack: Option<u32>,
    /// Take the user's side of callchains from the processor's record of branches, where it keeps
    /// one of calls (Intel's LBR, since Haswell). Default: no.
    pub branch_call_stacks: bool,
    /// Take `user_stack` for an upper bound, and copy fewer bytes where the ring would not hold the
    /// samples of 25 ms. For those who unwind at once: callchains keep the user's side, which leads on where
    /// a stack that was not copied begins. Default: no.
    pub fit_user_stack: bool,
    /// What samples hold beyond address, thread, time, CPU, period and callchain, and which records
    /// come beyond those of processes.
    pub extras: Extras,
    /// Keep the last samples of each CPU in its ring, where later ones overwrite them, until
    /// [`Session::snapshot`](crate::Session::snapshot) or the end: a flight recorder. Default: no.
    pub overwrite: bool,
    /// Bytes of the AUX area of each CPU for the trace of an event that writes one (Intel PT), rounded up to a power of
    /// two of pages. Default: 4 MiB with the right to lock as much, less without.
    pub trace_bytes: Option<usize>,
    /// Clock of the times of records, in place of CLOCK_MONOTONIC, which kernels before 4.1 may go without.
    /// Default: none.
    pub clock: Option<Clock>,
    /// Tell when threads leave their CPU and come back, and take the stack with which each leaves: one more event, of
    /// [`Role::OffCpu`](crate::Role::OffCpu). Without named events, `cpu-clock` is sampled beside it, whose samples and
    /// the times between switches have one unit. Default: no.
    pub off_cpu: bool,
    /// With `off_cpu`, record who wakes threads as well: one more event of each CPU, of [`Role::Wakeups`](crate::Role::Wakeups), the tracepoint
    /// `sched:sched_waking`. Where it may not be had, that is a step down. Default: no.
    pub wakers: bool,
    /// Options of the drain threads.
    pub drain: DrainOptions,
}

/// Parts of samples and kinds of records that are not recorded unless asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Extras {
    /// Fields of samples that hold one word: address, data source, weight, transaction, physical address,
    /// page sizes, control group. Others have no effect. [`SampleType::WEIGHT_STRUCT`] becomes
    /// [`SampleType::WEIGHT`] where the kernel does not know it.
    pub fields: SampleType,
    /// Records: [`AttrFlags::MMAP_DATA`], [`AttrFlags::CONTEXT_SWITCH`], [`AttrFlags::NAMESPACES`],
    /// [`AttrFlags::CGROUP`], [`AttrFlags::TEXT_POKE`]. Others have no effect.
    pub records: AttrFlags,
    /// Count each thread for itself: a READ record with its counts when it ends (`inherit_stat`).
    pub thread_counts: bool,
    /// Branches before each sample, from the processor's record of them; empty for none.
    pub branches: BranchSampleType,
    /// Mask of user registers; numbers are the architecture's (`asm/perf_regs.h`).
    pub user_registers: u64,
    /// Mask of registers at the moment of the sample, in the kernel as well.
    pub interrupt_registers: u64,
}

impl Extras {
    /// Fields that samples may have by [`fields`](Self::fields).
    pub const FIELDS: SampleType = SampleType::ADDR
        .union(SampleType::WEIGHT)
        .union(SampleType::WEIGHT_STRUCT)
        .union(SampleType::DATA_SRC)
        .union(SampleType::TRANSACTION)
        .union(SampleType::PHYS_ADDR)
        .union(SampleType::CGROUP)
        .union(SampleType::DATA_PAGE_SIZE)
        .union(SampleType::CODE_PAGE_SIZE);

    /// Records that may be asked for by [`records`](Self::records).
    pub const RECORDS: AttrFlags = AttrFlags::MMAP_DATA
        .union(AttrFlags::CONTEXT_SWITCH)
        .union(AttrFlags::NAMESPACES)
        .union(AttrFlags::CGROUP)
        .union(AttrFlags::TEXT_POKE);
}

impl Default for SamplingOptions {
    fn default() -> Self {
        SamplingOptions {
            rate: Rate::Frequency(999),
            rate_is_default: true,
            strict_frequency: false,
            callchains: true,
            max_stack: None,
            exclude_kernel: false,
            exclude_user: false,
            inherit: true,
            ring_bytes: None,
            sideband_ring_bytes: None,
            target: Target::Command,
            cpus: Vec::new(),
            enabled_from_start: true,
            exclude_self: false,
            exclude_idle: false,
            user_stack: None,
            branch_call_stacks: false,
            fit_user_stack: false,
            extras: Extras::default(),
            overwrite: false,
            trace_bytes: None,
            clock: None,
            off_cpu: false,
            wakers: false,
            drain: DrainOptions::default(),
        }
    }
}

/// Options of the drain threads, and how much memory they may take.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DrainOptions {
    /// Longest time between two watermarks of an idle CPU. Default: 100 ms.
    pub idle: Duration,
    /// Longest time between two looks at a ring during [fast draining](crate::FastDrain), on up to 64 CPUs; beyond, it grows
    /// with them up to 5 ms. Default: 2 ms.
    pub fast: Duration,
    /// Bytes in a batch of samples, at least one record's 64 KiB. Default: 128 KiB.
    pub batch_bytes: usize,
    /// Sample buffers for each CPU. With all of them in the receiver's hands, samples stay in
    /// the ring until it is full. Default: 16. Many CPUs have [fewer](Self::buffers).
    pub sample_buffers: usize,
    /// Bytes of further sample buffers, which all CPUs share, for a receiver that is late. They take memory only while batches
    /// wait in them. Default: a sixteenth of the memory that this process may have, at most 256 MiB.
    pub reserve_bytes: Option<usize>,
    /// Sideband buffers for each CPU, of up to 64 KiB. Default: 256, so that at least 4 MiB of
    /// sideband (and up to 16 MiB), some 40,000 mappings, can wait for a receiver that stands still. Many CPUs have
    /// [fewer](Self::buffers).
    pub sideband_buffers: usize,
    /// Bind each drain thread to the CPU it drains, where this process may run there. Default: yes.
    ///
    /// Bound, the thread can never look at a ring while the kernel is in the middle of
    /// writing a record there, since the kernel does that with preemption off. A watermark is then
    /// exact, and it is memory of its own node that the thread copies.
    pub pin: bool,
    /// Nice value for the drain threads. Default: a low one where that is allowed.
    pub nice: Option<i32>,
    /// Run the drain threads under SCHED_FIFO (sched(7)) with this priority, 1 to 99, so that
    /// nothing but a higher one keeps them waiting. Default: where that is allowed, each runs with a low one from when it finds
    /// its ring half full until two seconds after; all the while where events with a fixed period have copies of stacks, which
    /// come in bursts.
    pub realtime: Option<u8>,
}

/// Sample buffers that each CPU may have, however many there are.
const LEAST_SAMPLE_BUFFERS: usize = 4;

/// Sideband buffers that each CPU may have, however many there are.
const LEAST_SIDEBAND_BUFFERS: usize = 8;

/// Most bytes in a sideband batch.
pub(crate) const SIDEBAND_BATCH: usize = 64 << 10;

/// Bytes in the sample buffers of all CPUs together, beyond which each has fewer: 256 CPUs have all of them.
const MOST_SAMPLES: usize = 512 << 20;

/// Bytes of the reserve, at most.
const MOST_RESERVE: usize = 256 << 20;

/// Part of the memory that the reserve may take: 1/16.
const RESERVE_OF_MEMORY: u64 = 16;

/// Bytes in the sideband buffers of all CPUs together, beyond which each has fewer: 16 CPUs have all of them.
const MOST_SIDEBAND: usize = 256 << 20;

impl DrainOptions {
    /// Returns the number of sample buffers and of sideband buffers that each of so many CPUs has: those that are set,
    /// but fewer where all together would take more than half a GiB and a quarter.
    pub fn buffers(&self, cpus: usize) -> (usize, usize) {
        let share =
            |most: usize, bytes: usize, least| (most / bytes.max(1) / cpus.max(1)).max(least);
        let samples = share(MOST_SAMPLES, self.batch_bytes, LEAST_SAMPLE_BUFFERS);
        let sideband = share(MOST_SIDEBAND, SIDEBAND_BATCH, LEAST_SIDEBAND_BUFFERS);
        (
            self.sample_buffers.min(samples).max(1),
            self.sideband_buffers.min(sideband).max(1),
        )
    }

    /// Returns the number of sample buffers that all CPUs share beyond those that each [has](Self::buffers): together not
    /// more than half a GiB, or as many as each has.
    pub fn reserve(&self, cpus: usize) -> usize {
        let bytes = self.reserve_bytes.unwrap_or_else(|| {
            let share = memory_limit().map(|bytes| bytes / RESERVE_OF_MEMORY);
            let share = share.and_then(|bytes| usize::try_from(bytes).ok());
            share.unwrap_or(0).min(MOST_RESERVE)
        });
        let own = self.buffers(cpus).0 * cpus;
        let buffers = |bytes: usize| bytes / self.batch_bytes.max(MAX_RECORD);
        buffers(bytes).min(buffers(MOST_SAMPLES).saturating_sub(own))
    }
}

impl Default for DrainOptions {
    fn default() -> Self {
        DrainOptions {
            idle: Duration::from_millis(100),
            fast: Duration::from_millis(2),
            batch_bytes: 128 << 10,
            sample_buffers: 16,
            reserve_bytes: None,
            sideband_buffers: 256,
            pin: true,
            nice: None,
            realtime: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_all_cpus_together_are_bounded() {
        let options = DrainOptions::default();
        assert_eq!(options.buffers(2), (16, 256));
        assert_eq!(options.buffers(16), (16, 256));
        assert_eq!(options.buffers(256), (16, 16));
        assert_eq!(options.buffers(4096), (4, 8));
        let one = DrainOptions {
            sample_buffers: 1,
            ..DrainOptions::default()
        };
        assert_eq!(one.buffers(4096).0, 1);
    }

    #[test]
    fn the_reserve_and_the_buffers_of_all_cpus_together_are_bounded() {
        let options = DrainOptions {
            reserve_bytes: Some(MOST_RESERVE),
            ..DrainOptions::default()
        };
        assert_eq!(options.reserve(2), 2048);
        assert_eq!(options.reserve(128), 2048);
        assert_eq!(options.reserve(192), 1024);
        assert_eq!((options.reserve(256), options.reserve(4096)), (0, 0));
        let default = DrainOptions::default().reserve(2);
        assert!((1..=2048).contains(&default), "{default}");
        let none = DrainOptions {
            reserve_bytes: Some(0),
            ..DrainOptions::default()
        };
        assert_eq!(none.reserve(2), 0);
    }
}
