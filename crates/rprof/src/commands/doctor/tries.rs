//! Events opened as a test.

use rprof_perf_event::{Errno, PerfFd, Ring};
use rprof_records::{Attr, AttrFlags, EventKind, SampleType};
use rprof_sampler::open::ring_sizes::UNPRIVILEGED;
use std::os::fd::AsFd;

/// Results of opening events. None of them samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tries {
    /// This process, user-mode code.
    pub(super) own_user: Result<(), Errno>,
    /// This process, with kernel code.
    pub(super) own_kernel: Result<(), Errno>,
    /// The whole first CPU.
    pub(super) system: Result<(), Errno>,
    /// This process with callchains, and with kernel code if allowed.
    pub(super) stacks: Result<(), Errno>,
    /// Hardware CPU cycles.
    pub(super) cycles: Result<(), Errno>,
    /// A ring buffer of the size that unprivileged recording uses.
    pub(super) ring: Result<(), Errno>,
}

/// Value of both PERF_COUNT_SW_CPU_CLOCK and PERF_COUNT_HW_CPU_CYCLES.
const FIRST_OF_ITS_KIND: u64 = 0;

impl Tries {
    pub(super) fn make() -> Tries {
        let first_cpu = rprof_events::cpus::online()
            .ok()
            .and_then(|cpus| cpus.first().copied());
        let user = attr(EventKind::SOFTWARE, true);
        let kernel = attr(EventKind::SOFTWARE, false);
        let own = |attr: &Attr| PerfFd::open(attr, 0, None).map(drop);
        let own_kernel = own(&kernel);
        let mut stacks = if own_kernel.is_ok() {
            kernel.clone()
        } else {
            user.clone()
        };
        stacks.sample_type |= SampleType::CALLCHAIN;
        let mut cycles = user.clone();
        cycles.kind = EventKind::HARDWARE;
        let ring = || {
            let fd = PerfFd::open(&user, 0, None)?;
            Ring::map(fd.as_fd(), UNPRIVILEGED.samples).map(drop)
        };
        Tries {
            own_user: own(&user),
            own_kernel,
            system: PerfFd::open(&kernel, -1, Some(first_cpu.unwrap_or(0))).map(drop),
            stacks: own(&stacks),
            cycles: own(&cycles),
            ring: ring(),
        }
    }
}

fn attr(kind: EventKind, user_only: bool) -> Attr {
    let mut flags = AttrFlags::DISABLED | AttrFlags::FREQ;
    flags.set(AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV, user_only);
    Attr {
        kind,
        config: FIRST_OF_ITS_KIND,
        // The lowest frequency, which no limit forbids.
        period_or_freq: 1,
        sample_type: SampleType::IP | SampleType::TID | SampleType::TIME,
        flags,
        ..Attr::default()
    }
}
