//! Sizes of the rings, and their reasons.
//!
//! An unprivileged user may lock `perf_event_mlock_kb` of ring memory for each CPU: by default 516
//! KiB, 128 data pages and the control page of one ring. Two rings of 256 and 128 KiB and a page
//! each take 392 KiB. The limit does not apply with CAP_IPC_LOCK (CAP_PERFMON is not enough: see
//! `perf_mmap`), with a sufficient RLIMIT_MEMLOCK, or if `perf_event_paranoid` is -1.
//!
//! | ring | privileged | else | holds, at 999 Hz and 200 bytes a sample |
//! |---|---|---|---|
//! | samples | 1 MiB | 256 KiB | 5 s, 1.3 s |
//! | sideband | 256 KiB | 128 KiB | about 2,600 and 1,300 mappings |
//!
//! For whole CPUs the sideband ring has 2 MiB, and less on many CPUs (64 MiB in total).
//!
//! The smaller pair replaces the larger silently, since it still holds much more than 100 ms, the
//! interval of an idle ring. Below that, and below a requested size, each halving is reported.

use rustix::param::page_size;

/// Sizes in bytes of a CPU's two rings, powers of two of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSizes {
    /// Sample ring.
    pub samples: usize,
    /// Sideband ring.
    pub sideband: usize,
}

/// Sizes to try first.
pub const PRIVILEGED: RingSizes = RingSizes {
    samples: 1 << 20,
    sideband: 256 << 10,
};

/// Sizes within the default limit of an unprivileged user.
pub const UNPRIVILEGED: RingSizes = RingSizes {
    samples: 256 << 10,
    sideband: 128 << 10,
};

/// Returns the default size of a sample ring with stack copies: about 130 of the longest. Many CPUs
/// get less, 256 MiB in total, but at least 25 ms of the longest at 999 Hz: 512 MiB for 256 CPUs.
pub fn with_stacks(cpus: usize) -> usize {
    let fair = (256 << 20) / cpus.max(1);
    fair.clamp(2 << 20, 8 << 20).next_power_of_two()
}

/// Returns the default size of a CPU's sample ring with stack copies at `hertz`: half a second of
/// the longest, since a busy machine delays the drain thread. 32 MiB at 999 Hz.
pub(crate) fn with_stacks_of_everybody(cpus: usize, hertz: u64) -> usize {
    let half_a_second = (hertz / 2).saturating_mul(LONGEST_SAMPLE);
    let half_a_second = usize::try_from(half_a_second).unwrap_or(usize::MAX);
    let most = with_switches(cpus);
    most.min(
        half_a_second
            .clamp(with_stacks(cpus), most)
            .next_power_of_two(),
    )
}

/// Returns the default size of a sample ring with a stack copy for each switch: 32 MiB. A quarter
/// of it lasts for one interval of switch recording, so that the drain thread does not preempt the
/// workload. Many CPUs get less, 256 MiB in total.
pub fn with_switches(cpus: usize) -> usize {
    let fair = (256 << 20) / cpus.max(1);
    fair.clamp(2 << 20, 32 << 20).next_power_of_two()
}

/// Returns the default size of a CPU's sideband ring: 2 MiB, which a process that maps or renames
/// in a loop fills in 40 ms. Many CPUs get less, 64 MiB in total.
pub(crate) fn sideband_of_everybody(cpus: usize) -> usize {
    let fair = (64 << 20) / cpus.max(1);
    fair.clamp(PRIVILEGED.sideband, 2 << 20).next_power_of_two()
}

/// Minimum number of bytes of a stack copy at any sampling rate.
pub(crate) const SHORTEST_STACK: u32 = 4 << 10;

const LONGEST_SAMPLE: u64 = 64 << 10;

/// Minimum size of a ring in bytes, the maximum of a record.
pub const SMALLEST: usize = 64 << 10;

impl RingSizes {
    /// Returns the initial sizes: as requested, or the larger defaults.
    pub(super) fn first(samples: Option<usize>, sideband: Option<usize>) -> RingSizes {
        RingSizes {
            samples: samples.map_or(PRIVILEGED.samples, whole_pages),
            sideband: sideband.map_or(PRIVILEGED.sideband, whole_pages),
        }
    }

    pub(super) fn halved(self) -> Option<RingSizes> {
        let half = |bytes: usize| (bytes / 2).max(SMALLEST.min(bytes));
        let halved = match self.samples > self.sideband || self.sideband <= SMALLEST {
            true => RingSizes {
                samples: half(self.samples),
                ..self
            },
            false => RingSizes {
                sideband: half(self.sideband),
                ..self
            },
        };
        (halved != self).then_some(halved)
    }
}

fn whole_pages(bytes: usize) -> usize {
    bytes.clamp(page_size(), 1 << 30).next_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_small_pair_fits_the_default_allowance() {
        let page = 4096;
        let locked = UNPRIVILEGED.samples + page + UNPRIVILEGED.sideband + page;
        assert!(locked <= 516 << 10);
    }

    #[test]
    fn sizes_asked_for_are_rounded_up() {
        let sizes = RingSizes::first(Some(300_000), Some(1));
        assert_eq!((sizes.samples, sizes.sideband), (512 << 10, page_size()));
    }

    #[test]
    fn many_cpus_have_smaller_rings() {
        assert_eq!(with_stacks(2), 8 << 20);
        assert_eq!(with_stacks(64), 4 << 20);
        assert_eq!(with_stacks(1024), 2 << 20);
        let sizes = [1, 8, 16, 64, 1024].map(|cpus| with_switches(cpus) >> 20);
        assert_eq!(sizes, [32, 32, 16, 4, 2]);
    }

    #[test]
    fn rings_of_whole_cpus_hold_half_a_second() {
        let of = |cpus, hertz| with_stacks_of_everybody(cpus, hertz) >> 20;
        assert_eq!(
            [19, 97, 499, 999, 9999, u64::MAX].map(|hertz| of(2, hertz)),
            [8, 8, 16, 32, 32, 32]
        );
        assert_eq!([8, 16, 64, 1024].map(|cpus| of(cpus, 999)), [32, 16, 4, 2]);
    }

    #[test]
    fn halving_ends() {
        let mut sizes = RingSizes::first(Some(16 << 20), None);
        let mut steps = 0;
        while let Some(next) = sizes.halved() {
            sizes = next;
            steps += 1;
        }
        assert_eq!((sizes.samples, sizes.sideband), (SMALLEST, SMALLEST));
        assert_eq!(steps, 8 + 2);
        assert_eq!(RingSizes::first(Some(4096), Some(4096)).halved(), None);
    }
}
