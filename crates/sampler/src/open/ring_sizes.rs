//! Sizes of the rings, and their reasons.
//!
//! A user without privileges may lock `perf_event_mlock_kb` of ring memory for each CPU: 516
//! KiB unless set otherwise, which is 128 pages of data and the control page of one ring. Two
//! rings for each CPU, of 256 and 128 KiB and a page each, take 392 KiB of it; the next
//! power of two would not fit. Processes with CAP_IPC_LOCK are not bound by it (CAP_PERFMON does not help: `perf_mmap` asks
//! for the other), nor is anybody whose RLIMIT_MEMLOCK leaves room beyond, or where `perf_event_paranoid` is -1.
//!
//! | ring | privileged | else | holds, at 999 Hz and 200 bytes a sample |
//! |---|---|---|---|
//! | samples | 1 MiB | 256 KiB | 5 s, 1.3 s |
//! | sideband | 256 KiB | 128 KiB | about 2,600 and 1,300 mappings |
//!
//! The sideband ring is larger where whole CPUs are watched: [`sideband_of_everybody`].
//!
//! The larger pair is tried first. When it is refused, the smaller one is taken without a
//! word, as it too holds far more than the 100 ms between two looks at an idle ring. Below that,
//! and below a size the user asked for, each halving is reported.

use rustix::param::page_size;

/// Sizes in bytes of the two rings of a CPU; each a power of two of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSizes {
    /// Ring of samples.
    pub samples: usize,
    /// Ring of sideband.
    pub sideband: usize,
}

/// Sizes that are tried first.
pub const PRIVILEGED: RingSizes = RingSizes {
    samples: 1 << 20,
    sideband: 256 << 10,
};

/// Sizes that fit into the default allowance of a user without privileges.
pub const UNPRIVILEGED: RingSizes = RingSizes {
    samples: 256 << 10,
    sideband: 128 << 10,
};

/// Returns the default size of the sample ring where samples have stack copies: room for some 130 of
/// the longest. Less where there are so many CPUs that it would be 256 MiB in all, but as much as holds 25 ms of the
/// longest copies at 999 Hz: 512 MiB for 256 CPUs.
pub fn with_stacks(cpus: usize) -> usize {
    let fair = (256 << 20) / cpus.max(1);
    fair.clamp(2 << 20, 8 << 20).next_power_of_two()
}

/// Returns the default size of the sample ring where samples of whole CPUs, so many a second, have stack copies: room for half
/// a second of the longest, since a machine with much to do lets the thread wait that drains it. 32 MiB at 999 Hz; between [`with_stacks`] and
/// [`with_switches`].
pub fn with_stacks_of_everybody(cpus: usize, hertz: u64) -> usize {
    let half_a_second = (hertz / 2).saturating_mul(LONGEST_SAMPLE);
    let half_a_second = usize::try_from(half_a_second).unwrap_or(usize::MAX);
    let most = with_switches(cpus);
    most.min(
        half_a_second
            .clamp(with_stacks(cpus), most)
            .next_power_of_two(),
    )
}

/// Returns the default size of the sample ring where each switch of a thread has a stack copy: 32 MiB, a quarter of which takes as long to fill as a
/// time of such records lasts. The thread that drains a ring preempts what it watches, and makes waits that are not there otherwise. Less
/// where there are so many CPUs that it would be 256 MiB in all.
pub fn with_switches(cpus: usize) -> usize {
    let fair = (256 << 20) / cpus.max(1);
    fair.clamp(2 << 20, 32 << 20).next_power_of_two()
}

/// Returns the default size of the sideband ring where whole CPUs are watched, and with them whoever maps and renames
/// without end: 2 MiB, which such a loop fills in 40 ms. Less where there are so many CPUs that it would be 64 MiB
/// in all.
pub fn sideband_of_everybody(cpus: usize) -> usize {
    let fair = (64 << 20) / cpus.max(1);
    fair.clamp(PRIVILEGED.sideband, 2 << 20).next_power_of_two()
}

/// Smallest number of bytes of a stack that are copied, however high the sampling rate.
pub const SHORTEST_STACK: u32 = 4 << 10;

/// Bytes of the longest sample with a stack copy, roughly.
const LONGEST_SAMPLE: u64 = 64 << 10;

/// Smallest ring in bytes: a record can be 64 KiB long.
pub const SMALLEST: usize = 64 << 10;

impl RingSizes {
    /// Returns the sizes to begin with: those asked for, else the larger defaults.
    pub(super) fn first(samples: Option<usize>, sideband: Option<usize>) -> RingSizes {
        RingSizes {
            samples: samples.map_or(PRIVILEGED.samples, whole_pages),
            sideband: sideband.map_or(PRIVILEGED.sideband, whole_pages),
        }
    }

    /// Returns these sizes with the larger ring halved; `None` when both are the smallest already.
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

/// Rounds up to a power of two of pages; at most 1 GiB.
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
        // Smaller ones asked for stay as they are.
        assert_eq!(RingSizes::first(Some(4096), Some(4096)).halved(), None);
    }
}
