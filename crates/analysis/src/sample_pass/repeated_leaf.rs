//! Repeated leaf of events that the kernel counts in its own code.
//!
//! Up to Linux 5.10 at least, the callchain of a tracepoint begins with its address twice
//! (`__schedule;__schedule`): from the registers that `perf_fetch_caller_regs` took, and from the
//! unwinding that begins there. perf shows both.

use rprof_perfdata::RecordedEvent;
use rprof_profile::waits::WAITS;
use rprof_records::{CpuMode, EventKind};

use crate::location::leaf;
use crate::sample_pass::pending::Chain;

/// `PERF_COUNT_SW_CONTEXT_SWITCHES` and `PERF_COUNT_SW_CPU_MIGRATIONS`.
const IN_THE_SCHEDULER: [u64; 2] = [3, 4];

/// Returns true if the event's registers come from `perf_fetch_caller_regs`. Other events are
/// interrupts, where equal addresses are a recursion.
pub(crate) fn may_repeat(event: &RecordedEvent) -> bool {
    let attr = &event.attr;
    let is_switch = attr.kind == EventKind::SOFTWARE && IN_THE_SCHEDULER.contains(&attr.config);
    attr.kind == EventKind::TRACEPOINT || is_switch || event.name == WAITS
}

/// Drops the first of two equal kernel addresses at the leaf. Returns the mode of the remaining
/// chain.
pub(crate) fn without_repeated(chain: Chain<'_>, mode: CpuMode) -> (Chain<'_>, CpuMode) {
    let word = |word: &[u8; 8]| u64::from_ne_bytes(*word);
    let repeated = |found: Option<(u64, CpuMode, usize)>, at: &dyn Fn(usize) -> Option<u64>| {
        let (address, mode, next) = found.filter(|found| found.1 == CpuMode::Kernel)?;
        (at(next) == Some(address)).then_some((mode, next))
    };
    match chain {
        Chain::Raw(words) => {
            let found = leaf(words.iter().map(word), mode);
            match repeated(found, &|at| words.get(at).map(word)) {
                Some((mode, next)) => (Chain::Raw(&words[next..]), mode),
                None => (Chain::Raw(words), mode),
            }
        }
        Chain::Words(words) => {
            let found = leaf(words.iter().copied(), mode);
            match repeated(found, &|at| words.get(at).copied()) {
                Some((mode, next)) => (Chain::Words(&words[next..]), mode),
                None => (Chain::Words(words), mode),
            }
        }
        Chain::Turned(words) => {
            let found = leaf(words.iter().copied(), mode);
            match repeated(found, &|at| words.get(at).copied()) {
                Some((mode, next)) => (Chain::Turned(words[next..].into()), mode),
                None => (Chain::Turned(words), mode),
            }
        }
        Chain::Ip(ip) => (Chain::Ip(ip), mode),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_records::ContextMarker;

    /// Leaf and caller of `perf script` for sched:sched_switch on Linux 5.10.
    const SCHEDULE: u64 = 0xffff_ffff_818b_7a5b;
    const CALLER: u64 = 0xffff_ffff_818b_8086;

    fn left(words: &[u64], mode: CpuMode) -> (Vec<u64>, CpuMode) {
        let bytes: Vec<[u8; 8]> = words.iter().map(|word| word.to_ne_bytes()).collect();
        let mut all = [
            Chain::Words(words),
            Chain::Raw(&bytes),
            Chain::Turned(words.into()),
        ]
        .map(|chain| match without_repeated(chain, mode) {
            (Chain::Words(words), mode) => (words.to_vec(), mode),
            (Chain::Turned(words), mode) => (words.to_vec(), mode),
            (Chain::Raw(words), mode) => {
                let words = words.iter().map(|word| u64::from_ne_bytes(*word));
                (words.collect(), mode)
            }
            (Chain::Ip(_), _) => unreachable!(),
        })
        .into_iter();
        let first = all.next().unwrap();
        assert!(all.all(|other| other == first));
        first
    }

    #[test]
    fn a_repeated_kernel_leaf_is_dropped_once() {
        let marker = ContextMarker::KERNEL.0;
        let user = ContextMarker::USER.0;
        assert_eq!(
            left(
                &[marker, SCHEDULE, SCHEDULE, CALLER, user, 5, 5],
                CpuMode::User
            ),
            (vec![SCHEDULE, CALLER, user, 5, 5], CpuMode::Kernel)
        );
        for same in [
            vec![marker, SCHEDULE, CALLER, CALLER],
            vec![user, 5, 5, 6],
            vec![marker, SCHEDULE],
            vec![marker, SCHEDULE, user, SCHEDULE],
            vec![],
        ] {
            assert_eq!(left(&same, CpuMode::User), (same, CpuMode::User));
        }
        let three = [marker, SCHEDULE, SCHEDULE, SCHEDULE];
        assert_eq!(left(&three, CpuMode::Kernel).0, [SCHEDULE, SCHEDULE]);
    }
}
