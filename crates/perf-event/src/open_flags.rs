//! Flags of the system call itself.

use bitflags::bitflags;

bitflags! {
    /// Flags of perf_event_open(2), the call's last argument.
    ///
    /// [`OpenOptions`](crate::OpenOptions) sets [`PID_CGROUP`](Self::PID_CGROUP) by itself where a
    /// control group is counted, and [`CLOEXEC`](Self::CLOEXEC) unless it is told otherwise.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct OpenFlags: u64 {
        /// Ignores the group's leader but for the redirection of output
        /// (`PERF_FLAG_FD_NO_GROUP`).
        const NO_GROUP = 1;
        /// Sends records to the ring of the group's leader (`PERF_FLAG_FD_OUTPUT`). No kernel since
        /// 2.6.35 heeds it; [`PerfFd::redirect_to`](crate::PerfFd::redirect_to) does that.
        const OUTPUT = 1 << 1;
        /// Takes the process id for the descriptor of a control group's directory
        /// (`PERF_FLAG_PID_CGROUP`).
        const PID_CGROUP = 1 << 2;
        /// Closes the descriptor on exec (`PERF_FLAG_FD_CLOEXEC`, Linux 3.14).
        const CLOEXEC = 1 << 3;
        const _ = !0;
    }
}

impl Default for OpenFlags {
    /// [`OpenFlags::CLOEXEC`].
    fn default() -> OpenFlags {
        OpenFlags::CLOEXEC
    }
}
