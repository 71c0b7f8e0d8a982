//! [`WaitEnd`]: the waker of a wait, in samples of `offcpu-time`.

/// Process 0 has no threads, so no thread has this value.
const INTERRUPT: u64 = 1;

/// Represents a wait for a CPU after a wakeup.
const AWAKE: u64 = 2;

/// End of a wait: its waker, or the fact that the thread was already awake. Stored in the address
/// (`PERF_SAMPLE_ADDR`) of `offcpu-time` samples, if wakers were recorded.
///
/// A thread is its process id in the upper 32 bits and its thread id in the lower. The values 0
/// (unknown), 1 (interrupt) and 2 ([`Awake`](Self::Awake)) are free: process 0 has no threads.
///
/// # Examples
/// ```
/// use rprof_records::WaitEnd;
///
/// let by = WaitEnd::Thread { pid: 7, tid: 8 };
/// assert_eq!(by.to_addr(), 7 << 32 | 8);
/// assert_eq!(WaitEnd::from_addr(by.to_addr()), by);
/// assert_eq!(WaitEnd::from_addr(0), WaitEnd::Unknown);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WaitEnd {
    /// Unknown: no wakeup was recorded.
    #[default]
    Unknown,
    /// A thread woke the waiting one.
    Thread {
        /// Process id of the waker.
        pid: i32,
        /// Thread id of the waker.
        tid: i32,
    },
    /// An interrupt: a timer, a device, or the kernel's work after one.
    Interrupt,
    /// The thread was already awake, and waited for a CPU.
    Awake,
}

impl WaitEnd {
    /// Decodes the address of a sample.
    pub fn from_addr(addr: u64) -> WaitEnd {
        match addr {
            INTERRUPT => WaitEnd::Interrupt,
            AWAKE => WaitEnd::Awake,
            _ if addr >> 32 == 0 => WaitEnd::Unknown,
            _ => WaitEnd::Thread {
                pid: ((addr >> 32) as u32).cast_signed(),
                tid: (addr as u32).cast_signed(),
            },
        }
    }

    /// Encodes the address of a sample.
    pub fn to_addr(self) -> u64 {
        match self {
            WaitEnd::Unknown => 0,
            WaitEnd::Interrupt => INTERRUPT,
            WaitEnd::Awake => AWAKE,
            WaitEnd::Thread { pid, tid } => {
                u64::from(pid.cast_unsigned()) << 32 | u64::from(tid.cast_unsigned())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_were_made() {
        let threads = [(1, 1), (4_194_304, 4_194_303), (i32::MAX, i32::MAX)];
        let threads = threads.map(|(pid, tid)| WaitEnd::Thread { pid, tid });
        for end in [WaitEnd::Unknown, WaitEnd::Interrupt, WaitEnd::Awake]
            .into_iter()
            .chain(threads)
        {
            assert_eq!(WaitEnd::from_addr(end.to_addr()), end);
        }
        assert_eq!(WaitEnd::from_addr(77), WaitEnd::Unknown);
    }
}
