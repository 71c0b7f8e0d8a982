//! Blocks and queries signals.

use std::mem::MaybeUninit;

/// Blocks every signal for the calling thread. Returns the previously blocked set.
///
/// rustix lacks this call, which belongs to the C library's threads.
pub fn block_all_signals() -> libc::sigset_t {
    let mut all = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: sigfillset initialises the first set, pthread_sigmask (which cannot fail with
    // SIG_SETMASK) the second.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    }
}

/// Returns true if this process ignores a signal, for example because of nohup(1).
pub fn signal_is_ignored(signal: i32) -> bool {
    // SAFETY: sigaction is plain data. Without a new action, the call only writes to it.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    }
}
