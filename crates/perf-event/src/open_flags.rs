//! Flags of the system call itself.

use bitflags::bitflags;

bitflags! {
    /// Flags of perf_event_open(2), its last argument.
    ///
    /// [`OpenOptions`](crate::OpenOptions) sets [`PID_CGROUP`](Self::PID_CGROUP) for control
    /// groups, and [`CLOEXEC`](Self::CLOEXEC) by default.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct OpenFlags: u64 {
        /// Uses the group's leader only to redirect output (`PERF_FLAG_FD_NO_GROUP`).
        const NO_GROUP = 1;
        /// Sends records to the ring buffer of the group's leader (`PERF_FLAG_FD_OUTPUT`). Kernels
        /// since 2.6.35 ignore it. Use [`PerfFd::redirect_to`](crate::PerfFd::redirect_to) instead.
        const OUTPUT = 1 << 1;
        /// Treats the process id as a descriptor of a control group's directory
        /// (`PERF_FLAG_PID_CGROUP`).
        const PID_CGROUP = 1 << 2;
        /// Closes the descriptor on exec (`PERF_FLAG_FD_CLOEXEC`, Linux 3.14).
        const CLOEXEC = 1 << 3;
        const _ = !0;
    }
}

impl Default for OpenFlags {
    fn default() -> OpenFlags {
        OpenFlags::CLOEXEC
    }
}
