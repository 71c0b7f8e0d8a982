//! [`WaitEnd`]: what ended a wait, in samples of `offcpu-time`.

/// Number of an interrupt in place of a thread: process 0 has none of it.
const INTERRUPT: u64 = 1;

/// Number of the time behind a wakeup in place of a thread.
const AWAKE: u64 = 2;

/// End of a wait: its waker, or that the thread was awake by then. The address (`PERF_SAMPLE_ADDR`) of samples of `offcpu-time` holds it,
/// where wakers were recorded.
///
/// The address of a thread is its process in the upper 32 bits, and its own number in the lower; 0 is not known, 1 an interrupt and 2
/// [`Awake`](Self::Awake), which are no threads, as no thread is of process 0.
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
    /// Not known: no wakeup was recorded.
    #[default]
    Unknown,
    /// This thread woke the one that waited.
    Thread {
        /// Process of the waker.
        pid: i32,
        /// Number of the waking thread.
        tid: i32,
    },
    /// An interrupt did: a timer, a device, or what the kernel does behind one.
    Interrupt,
    /// The thread had been woken already, and waited for a CPU.
    Awake,
}

impl WaitEnd {
    /// Reads the address of a sample.
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

    /// Makes the address of a sample.
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
