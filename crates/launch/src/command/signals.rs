//! Signals blocked over a fork, or for a thread.

use std::mem::MaybeUninit;

/// Blocks every signal for the calling thread; returns the set that was blocked before.
///
/// rustix does not have the call, as it belongs to the C library's threads.
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
