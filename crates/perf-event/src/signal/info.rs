//! `siginfo_t` of event signals, decoded.

/// Size of `siginfo_t` (asm-generic/siginfo.h, `SI_MAX_SIZE`).
const SIZE: usize = 128;

/// `TRAP_PERF`: code of an event's SIGTRAP.
const TRAP_PERF: i32 = 6;
/// `TRAP_PERF_FLAG_ASYNC`.
const ASYNC: u32 = 1;

/// Meaning of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SignalInfo {
    /// Overflow of an event with overflow signals.
    Overflow(Overflow),
    /// SIGTRAP of an event with [`sigtrap`](crate::Builder::sigtrap).
    Trap(Trap),
    /// Signal from another source.
    Other {
        /// Number of the signal.
        signal: i32,
        /// `si_code`.
        code: i32,
    },
}

/// Overflow of an event (perf_event_open(2), "Overflow handling").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overflow {
    /// Number of the delivered signal (`si_signo`).
    pub signal: i32,
    /// Cause.
    pub code: OverflowCode,
    /// Descriptor of the event; meaningless with [`OverflowCode::QUEUE_FULL`].
    pub fd: i32,
    /// Event mask, as in poll(2).
    pub band: i64,
}

/// Cause of a signal, `si_code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OverflowCode(pub i32);

impl OverflowCode {
    /// An overflow (`POLL_IN`).
    pub const IN: OverflowCode = OverflowCode(1);
    /// The last overflow allowed by [`PerfFd::refresh`](crate::PerfFd::refresh): the event is
    /// disabled (`POLL_HUP`).
    pub const HUP: OverflowCode = OverflowCode(6);
    /// Signals were dropped because too many were queued (`SI_KERNEL`). Their events are unknown.
    pub const QUEUE_FULL: OverflowCode = OverflowCode(0x80);
}

/// SIGTRAP of an event with [`sigtrap`](crate::Builder::sigtrap) (sigaction(2), `TRAP_PERF`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trap {
    /// Word set by [`signal_data`](crate::Builder::signal_data).
    pub data: u64,
    /// Address of the event; for a breakpoint, the accessed address.
    pub address: u64,
    /// Type of the event (`perf_event_attr.type`).
    pub kind: u32,
    /// True if the signal was blocked at the event, and so delivered later.
    pub is_async: bool,
    /// Id of the trapped thread; 0 if unknown.
    pub thread: i32,
}

impl SignalInfo {
    /// Decodes the bytes of a `siginfo_t` of a 64-bit machine. Accepts arbitrary bytes; missing
    /// ones are zero.
    pub fn from_bytes(bytes: &[u8]) -> SignalInfo {
        let mut info = [0; SIZE];
        let length = bytes.len().min(SIZE);
        info[..length].copy_from_slice(&bytes[..length]);
        let i32_at = |at: usize| {
            let [a, b, c, d] = [info[at], info[at + 1], info[at + 2], info[at + 3]];
            i32::from_ne_bytes([a, b, c, d])
        };
        let u64_at = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&info[at..at + 8]);
            u64::from_ne_bytes(word)
        };
        let (signal, code) = (i32_at(0), i32_at(8));
        match (signal, code) {
            (libc::SIGTRAP, TRAP_PERF) => SignalInfo::Trap(Trap {
                address: u64_at(16),
                data: u64_at(24),
                kind: i32_at(32) as u32,
                is_async: i32_at(36) as u32 & ASYNC != 0,
                thread: 0,
            }),
            // POLL_IN to POLL_HUP, for these signals only.
            (signal, 1..=6) if is_for_io(signal) => SignalInfo::Overflow(Overflow {
                signal,
                code: OverflowCode(code),
                band: u64_at(16) as i64,
                fd: i32_at(24),
            }),
            (libc::SIGIO, 0x80) => SignalInfo::Overflow(Overflow {
                signal,
                code: OverflowCode::QUEUE_FULL,
                band: 0,
                fd: -1,
            }),
            _ => SignalInfo::Other { signal, code },
        }
    }

    /// Decodes a `siginfo_t` from the kernel.
    pub fn from_siginfo(info: &libc::siginfo_t) -> SignalInfo {
        const { assert!(size_of::<libc::siginfo_t>() <= SIZE) };
        let bytes = std::ptr::from_ref(info).cast::<u8>();
        // SAFETY: the slice covers exactly the struct, which the kernel or a zeroed value has
        // filled.
        let bytes = unsafe { std::slice::from_raw_parts(bytes, size_of::<libc::siginfo_t>()) };
        SignalInfo::from_bytes(bytes)
    }
}

/// Returns true for signals that F_SETSIG can choose and that have no other meaning: SIGIO, SIGURG
/// and real-time ones.
fn is_for_io(signal: i32) -> bool {
    signal == libc::SIGIO || signal == libc::SIGURG || (32..=64).contains(&signal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(signal: i32, code: i32, words: &[(usize, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0; SIZE];
        bytes[..4].copy_from_slice(&signal.to_ne_bytes());
        bytes[8..12].copy_from_slice(&code.to_ne_bytes());
        for (at, field) in words {
            bytes[*at..][..field.len()].copy_from_slice(field);
        }
        bytes
    }

    #[test]
    fn an_overflow_names_its_event() {
        let fields: [(usize, &[u8]); 2] =
            [(16, &0x41_u64.to_ne_bytes()), (24, &7_i32.to_ne_bytes())];
        for (code, expected) in [(1, OverflowCode::IN), (6, OverflowCode::HUP)] {
            let overflow = SignalInfo::from_bytes(&info(libc::SIGIO, code, &fields));
            let expected = Overflow {
                signal: libc::SIGIO,
                code: expected,
                fd: 7,
                band: 0x41,
            };
            assert_eq!(overflow, SignalInfo::Overflow(expected));
        }
    }

    #[test]
    fn a_trap_has_its_data() {
        let fields: [(usize, &[u8]); 4] = [
            (16, &0x1000_u64.to_ne_bytes()),
            (24, &42_u64.to_ne_bytes()),
            (32, &5_u32.to_ne_bytes()),
            (36, &1_u32.to_ne_bytes()),
        ];
        let expected = Trap {
            data: 42,
            address: 0x1000,
            kind: 5,
            is_async: true,
            thread: 0,
        };
        let trap = SignalInfo::from_bytes(&info(libc::SIGTRAP, TRAP_PERF, &fields));
        assert_eq!(trap, SignalInfo::Trap(expected));
    }

    #[test]
    fn signals_of_others_are_told_apart() {
        for (signal, code) in [
            (libc::SIGTRAP, 1),
            (libc::SIGIO, 0),
            (libc::SIGUSR1, -6),
            (libc::SIGCHLD, 1),
            (libc::SIGSEGV, 1),
        ] {
            let other = SignalInfo::from_bytes(&info(signal, code, &[]));
            assert_eq!(other, SignalInfo::Other { signal, code });
        }
        let none = SignalInfo::Other { signal: 0, code: 0 };
        assert_eq!(SignalInfo::from_bytes(&[]), none);
    }
}
