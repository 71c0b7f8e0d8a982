//! Options of a recording.

use crate::memory::memory_limit;
use rprof_events::SamplingRate;
use rprof_launch::Target;
use rprof_perf_event::Clock;
use rprof_perf_event::ring::MAX_RECORD;
use rprof_records::{AttrFlags, BranchSampleType, SampleType};
use std::time::Duration;

/// Settings of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SamplingOptions {
    /// Sampling rate. Default: 999 Hz, not 1000, to avoid beating with the kernel's timer tick.
    pub rate: SamplingRate,
    /// True if the user did not choose `rate`: tracepoints, probes and breakpoints then use period
    /// 1, as in perf. Default: yes.
    pub rate_is_default: bool,
    /// Fail instead of lowering a frequency above the kernel's limit. Default: no.
    pub strict_frequency: bool,
    /// Record callchains. Default: yes.
    pub callchains: bool,
    /// Maximum number of addresses in a callchain. Default: the system's limit
    /// (`perf_event_max_stack`).
    pub max_stack: Option<u16>,
    /// Exclude samples in the kernel. Default: no.
    pub exclude_kernel: bool,
    /// Exclude samples in user mode. Default: no.
    pub exclude_user: bool,
    /// Samples threads and processes that the target starts, too. Default: yes.
    pub inherit: bool,
    /// Size of each CPU's sample ring in bytes, rounded up to a power of two of pages. Default: see
    /// [`ring_sizes`](crate::open::ring_sizes).
    pub ring_bytes: Option<usize>,
    /// Size of each CPU's sideband ring in bytes, rounded likewise.
    pub sideband_ring_bytes: Option<usize>,
    /// Target of the recording. Default: the command.
    pub target: Target,
    /// CPUs to sample; empty for all online ones. `off_cpu` records switches on the others too.
    /// Default: empty.
    pub cpus: Vec<u32>,
    /// Start sampling with the command or [`Session::start`](crate::Session::start), not with
    /// [`Session::enable`](crate::Session::enable). Default: yes.
    pub enabled_from_start: bool,
    /// Exclude this process. Default: no.
    pub exclude_self: bool,
    /// Exclude clock samples on idle CPUs (`exclude_idle`). Other events ignore it, because many
    /// PMUs refuse this flag. Default: no.
    pub exclude_idle: bool,
    /// Stack bytes to copy into each sample, with the user registers, instead of the user
    /// callchain. Default: none.
    pub user_stack: Option<u32>,
    /// Take the user callchain from the processor (Intel's LBR, since Haswell). Default: no.
    pub branch_call_stacks: bool,
    /// Copy less than `user_stack` if the ring could not hold the samples of 25 ms. Keeps the user
    /// callchain, for callers who unwind at once. Default: no.
    pub fit_user_stack: bool,
    /// Additional sample fields and records.
    pub extras: Extras,
    /// Keep the last samples of each CPU in an overwritten ring until
    /// [`Session::snapshot`](crate::Session::snapshot) or the end (flight recorder). Default: no.
    pub overwrite: bool,
    /// Size of each CPU's AUX area (Intel PT) in bytes, rounded likewise. Default: 4 MiB, or less
    /// without the right to lock as much.
    pub trace_bytes: Option<usize>,
    /// Clock of the records. Default: CLOCK_MONOTONIC, or the kernel's own clock before Linux 4.1.
    pub clock: Option<Clock>,
    /// Record when threads leave their CPU, with their stacks, and come back
    /// ([`Role::OffCpu`](crate::Role::OffCpu)). The default event is then `cpu-clock`, with the
    /// same unit. Default: no.
    pub off_cpu: bool,
    /// Record who wakes threads, with `off_cpu`, by `sched:sched_waking`
    /// ([`Role::Wakeups`](crate::Role::Wakeups)). If refused, this is a step down. Default: no.
    pub wakers: bool,
    /// Record each sample's request from OpenTelemetry's thread context
    /// ([`Role::Contexts`](crate::Role::Contexts)). If refused, this is a step down. Default: no.
    pub requests: bool,
    /// Options of the drain threads.
    pub drain: DrainOptions,
}

/// Additional sample fields and records of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Extras {
    /// One-word sample fields, see [`FIELDS`](Self::FIELDS). Others are ignored. Kernels without
    /// [`SampleType::WEIGHT_STRUCT`] use [`SampleType::WEIGHT`].
    pub fields: SampleType,
    /// Additional records, see [`RECORDS`](Self::RECORDS). Others are ignored.
    pub records: AttrFlags,
    /// Write a READ record with a thread's counts when it ends (`inherit_stat`).
    pub thread_counts: bool,
    /// Branches before each sample, from the processor's branch record; empty for none.
    pub branches: BranchSampleType,
    /// Mask of user registers, numbered as in the architecture's `asm/perf_regs.h`.
    pub user_registers: u64,
    /// Mask of registers at the sample, also in the kernel.
    pub interrupt_registers: u64,
}

impl Extras {
    /// Supported [`fields`](Self::fields).
    pub const FIELDS: SampleType = SampleType::ADDR
        .union(SampleType::WEIGHT)
        .union(SampleType::WEIGHT_STRUCT)
        .union(SampleType::DATA_SRC)
        .union(SampleType::TRANSACTION)
        .union(SampleType::PHYS_ADDR)
        .union(SampleType::CGROUP)
        .union(SampleType::DATA_PAGE_SIZE)
        .union(SampleType::CODE_PAGE_SIZE);

    /// Supported [`records`](Self::records).
    pub const RECORDS: AttrFlags = AttrFlags::MMAP_DATA
        .union(AttrFlags::CONTEXT_SWITCH)
        .union(AttrFlags::NAMESPACES)
        .union(AttrFlags::CGROUP)
        .union(AttrFlags::TEXT_POKE);
}

impl Default for SamplingOptions {
    fn default() -> Self {
        SamplingOptions {
            rate: SamplingRate::Frequency(999),
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
            requests: false,
            drain: DrainOptions::default(),
        }
    }
}

/// Options of the drain threads and their memory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DrainOptions {
    /// Maximum time between two watermarks of an idle CPU. Default: 100 ms.
    pub idle: Duration,
    /// Interval of [fast draining](crate::FastDrain). On more than 64 CPUs it grows up to 5 ms.
    /// Default: 2 ms.
    pub fast: Duration,
    /// Size of a batch of samples in bytes, at least a record's 64 KiB. Default: 128 KiB.
    pub batch_bytes: usize,
    /// Sample buffers of each CPU. If the receiver holds all of them, samples stay in the ring.
    /// Default: 16. Many CPUs have [fewer](Self::buffers).
    pub sample_buffers: usize,
    /// Bytes of sample buffers shared by all CPUs, for a late receiver, used only while batches
    /// wait. Default: 1/16 of the available memory, at most 256 MiB.
    pub reserve_bytes: Option<usize>,
    /// Sideband buffers of each CPU, up to 64 KiB each. Default: 256, enough for 40,000 mappings if
    /// the receiver stalls. Many CPUs have [fewer](Self::buffers).
    pub sideband_buffers: usize,
    /// Pin each drain thread to its CPU, if this process may run there. Default: yes.
    ///
    /// The kernel writes a record with preemption disabled, so a pinned thread never sees a partial
    /// one. Its watermarks are exact, and it copies memory of its own node.
    pub pin: bool,
    /// Nice value of the drain threads. Default: a low one if permitted.
    pub nice: Option<i32>,
    /// Run the drain threads under SCHED_FIFO (sched(7)) with this priority, 1 to 99. Default, if
    /// permitted: a low priority for two seconds after a thread finds its ring half full; always if
    /// events with a fixed period have stack copies.
    pub realtime: Option<u8>,
}

const MIN_SAMPLE_BUFFERS: usize = 4;

const MIN_SIDEBAND_BUFFERS: usize = 8;

pub(crate) const SIDEBAND_BATCH: usize = 64 << 10;

const MAX_SAMPLES: usize = 512 << 20;

const MAX_RESERVE: usize = 256 << 20;

const RESERVE_OF_MEMORY: u64 = 16;

const MAX_SIDEBAND: usize = 256 << 20;

impl DrainOptions {
    /// Returns the numbers of sample and sideband buffers of each CPU: as set, or within 512 MiB
    /// and 256 MiB in total.
    pub fn buffers(&self, cpus: usize) -> (usize, usize) {
        let share =
            |most: usize, bytes: usize, least| (most / bytes.max(1) / cpus.max(1)).max(least);
        let samples = share(MAX_SAMPLES, self.batch_bytes, MIN_SAMPLE_BUFFERS);
        let sideband = share(MAX_SIDEBAND, SIDEBAND_BATCH, MIN_SIDEBAND_BUFFERS);
        (
            self.sample_buffers.min(samples).max(1),
            self.sideband_buffers.min(sideband).max(1),
        )
    }

    /// Returns the number of sample buffers shared by all CPUs. With the [own](Self::buffers) ones
    /// they take at most 512 MiB.
    pub fn reserve(&self, cpus: usize) -> usize {
        let bytes = self.reserve_bytes.unwrap_or_else(|| {
            let share = memory_limit().map(|bytes| bytes / RESERVE_OF_MEMORY);
            let share = share.and_then(|bytes| usize::try_from(bytes).ok());
            share.unwrap_or(0).min(MAX_RESERVE)
        });
        let own = self.buffers(cpus).0 * cpus;
        let buffers = |bytes: usize| bytes / self.batch_bytes.max(MAX_RECORD);
        buffers(bytes).min(buffers(MAX_SAMPLES).saturating_sub(own))
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
            reserve_bytes: Some(MAX_RESERVE),
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
