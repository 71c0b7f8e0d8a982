//! [`Traps`]: SIGTRAP, which an event sends to the very instruction behind it.

use super::info::{SignalInfo, Trap};
use crate::errno::{self, Errno, ErrnoText};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};

/// Traps that are kept until they are taken.
const KEPT: usize = 1024;

/// Receiver of the SIGTRAPs that events with [`sigtrap`](crate::Builder::sigtrap) send, of all threads of this
/// process. There is one at a time.
///
/// The handler notes them down, and does nothing else. Events must be disabled or closed before it is
/// dropped: a SIGTRAP that nobody handles ends the process. A SIGTRAP of another cause, a debugger's for one,
/// goes to the handler that was there before.
///
/// ```no_run
/// use rprof_perf_event::{Breakpoint, Builder, Traps};
///
/// let value = 5_u64;
/// let mut traps = Traps::install()?;
/// let writes = Builder::breakpoint(Breakpoint::writes_to(&value))
///     .exclude_kernel(true)
///     .period(1)
///     .sigtrap(true)
///     .remove_on_exec(true)
///     .signal_data(42)
///     .open()?;
/// writes.enable()?;
/// // … code that may write `value` …
/// writes.disable()?;
/// for trap in traps.take() {
///     println!("a write to {:#x}, event {}", trap.address, trap.data);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Traps {
    before: Before,
}

/// Failure to receive SIGTRAPs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TrapsError {
    /// There is a receiver already.
    #[error("SIGTRAP already has a receiver in this process; only one is allowed")]
    Taken,
    /// The handler was refused.
    #[error("cannot handle SIGTRAP: {}", ErrnoText(*_0))]
    Refused(Errno),
}

/// `struct sigaction` that was there before.
struct Before(libc::sigaction);

impl std::fmt::Debug for Before {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Before")
    }
}

/// One trap, noted down. `number` is set last: the count of traps with this one.
struct Note {
    number: AtomicUsize,
    data: AtomicU64,
    address: AtomicU64,
    kind: AtomicU64,
    thread: AtomicI32,
}

/// A queue without locks, which a handler of a signal may write.
static NOTES: [Note; KEPT] = [const {
    Note {
        number: AtomicUsize::new(0),
        data: AtomicU64::new(0),
        address: AtomicU64::new(0),
        kind: AtomicU64::new(0),
        thread: AtomicI32::new(0),
    }
}; KEPT];
/// Traps noted down so far, and of these those that were taken.
static NOTED: AtomicUsize = AtomicUsize::new(0);
static TAKEN: AtomicUsize = AtomicUsize::new(0);
/// Traps for which there was no room.
static MISSED: AtomicU64 = AtomicU64::new(0);
static INSTALLED: AtomicBool = AtomicBool::new(false);
/// Handler that was there before, and its flags.
static BEFORE: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);
static BEFORE_FLAGS: AtomicI32 = AtomicI32::new(0);

/// Bit of a note's `kind` for `is_async`.
const ASYNC: u64 = 1 << 32;

impl Traps {
    /// Handles SIGTRAP from now on.
    ///
    /// # Errors
    /// [`TrapsError`].
    pub fn install() -> Result<Traps, TrapsError> {
        if INSTALLED.swap(true, Ordering::AcqRel) {
            return Err(TrapsError::Taken);
        }
        TAKEN.store(NOTED.load(Ordering::Acquire), Ordering::Release);
        MISSED.store(0, Ordering::Relaxed);
        let refused = || {
            let errno = errno::last();
            INSTALLED.store(false, Ordering::Release);
            TrapsError::Refused(errno)
        };
        // SAFETY: zeroes are a sigaction without handler, flags and mask.
        let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        let mut before = action;
        // Known before the handler may need it.
        // SAFETY: the kernel writes what is in force now.
        if unsafe { libc::sigaction(libc::SIGTRAP, std::ptr::null(), &mut before) } != 0 {
            return Err(refused());
        }
        BEFORE.store(before.sa_sigaction, Ordering::Release);
        BEFORE_FLAGS.store(before.sa_flags, Ordering::Release);
        let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = note;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
        // SAFETY: the handler has the signature that SA_SIGINFO asks for, and calls nothing but atomics,
        // gettid and what was there before.
        if unsafe { libc::sigaction(libc::SIGTRAP, &action, std::ptr::null_mut()) } != 0 {
            return Err(refused());
        }
        Ok(Traps {
            before: Before(before),
        })
    }

    /// Takes the traps that came so far, oldest first.
    pub fn take(&mut self) -> Vec<Trap> {
        let mut traps = Vec::new();
        loop {
            let taken = TAKEN.load(Ordering::Relaxed);
            let note = &NOTES[taken % KEPT];
            if note.number.load(Ordering::Acquire) != taken.wrapping_add(1) {
                return traps;
            }
            let kind = note.kind.load(Ordering::Relaxed);
            traps.push(Trap {
                data: note.data.load(Ordering::Relaxed),
                address: note.address.load(Ordering::Relaxed),
                kind: kind as u32,
                is_async: kind & ASYNC != 0,
                thread: note.thread.load(Ordering::Relaxed),
            });
            TAKEN.store(taken.wrapping_add(1), Ordering::Release);
        }
    }

    /// Returns the number of traps for which there was no room, since there is room for 1,024 between two
    /// calls of [`take`](Self::take).
    pub fn missed(&self) -> u64 {
        MISSED.load(Ordering::Relaxed)
    }
}

impl Drop for Traps {
    fn drop(&mut self) {
        // SAFETY: what the kernel said was in force before.
        unsafe { libc::sigaction(libc::SIGTRAP, &self.before.0, std::ptr::null_mut()) };
        INSTALLED.store(false, Ordering::Release);
    }
}

/// Handles SIGTRAP, in the context of a signal.
extern "C" fn note(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel hands a whole siginfo to handlers with SA_SIGINFO.
    let what = SignalInfo::from_siginfo(unsafe { &*info });
    match what {
        SignalInfo::Trap(trap) => keep(trap),
        _ => pass_on(signal, info, context),
    }
}

fn keep(trap: Trap) {
    let mut noted = NOTED.load(Ordering::Relaxed);
    loop {
        if noted.wrapping_sub(TAKEN.load(Ordering::Acquire)) >= KEPT {
            MISSED.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let next = noted.wrapping_add(1);
        match NOTED.compare_exchange_weak(noted, next, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => break,
            Err(other) => noted = other,
        }
    }
    let note = &NOTES[noted % KEPT];
    note.data.store(trap.data, Ordering::Relaxed);
    note.address.store(trap.address, Ordering::Relaxed);
    let kind = u64::from(trap.kind) | if trap.is_async { ASYNC } else { 0 };
    note.kind.store(kind, Ordering::Relaxed);
    // SAFETY: gettid takes nothing, and cannot fail.
    note.thread
        .store(unsafe { libc::gettid() }, Ordering::Relaxed);
    note.number.store(noted.wrapping_add(1), Ordering::Release);
}

/// Has a signal of another cause handled as it was before.
fn pass_on(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let before = BEFORE.load(Ordering::Acquire);
    match before {
        libc::SIG_IGN => {}
        libc::SIG_DFL => {
            // SAFETY: zeroes are the default action. Raised once more, the signal ends the process as it
            // would have done.
            unsafe {
                let action: libc::sigaction = MaybeUninit::zeroed().assume_init();
                libc::sigaction(signal, &action, std::ptr::null_mut());
                libc::raise(signal);
            }
        }
        // SAFETY: a handler that the process had installed, of the kind that its flags say.
        _ => unsafe {
            if BEFORE_FLAGS.load(Ordering::Acquire) & libc::SA_SIGINFO != 0 {
                type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);
                let handler = std::mem::transmute::<*const (), Handler>(before as *const ());
                handler(signal, info, context);
            } else {
                let handler =
                    std::mem::transmute::<*const (), extern "C" fn(i32)>(before as *const ());
                handler(signal);
            }
        },
    }
}
