//! Dispositions of signals.

/// Returns whether this process ignores a signal, as one does that was started by nohup(1).
pub fn signal_is_ignored(signal: i32) -> bool {
    // SAFETY: sigaction is plain data, and with no new action the call only writes the one in
    // force to it.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    }
}
