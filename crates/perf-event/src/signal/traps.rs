//! [`Traps`]: SIGTRAP, which an event sends right after the instruction that caused it.

use super::info::{SignalInfo, Trap};
use crate::errno::{self, Errno, ErrnoText};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};

/// Maximum number of traps between two calls of [`Traps::take`]; later ones are
/// [missed](Traps::missed).
const KEPT: usize = 1024;

/// Receiver of the SIGTRAPs of events with [`sigtrap`](crate::Builder::sigtrap), for all threads of
/// this process. Only one may exist.
///
/// The handler only stores the traps. Disable or close the events before dropping it: an unhandled
/// SIGTRAP ends the process. Other SIGTRAPs, such as a debugger's, go to the previous handler.
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
    /// A receiver exists already.
    #[error("SIGTRAP already has a receiver in this process; only one is allowed")]
    Taken,
    /// The kernel refused the handler.
    #[error("cannot handle SIGTRAP: {}", ErrnoText(*_0))]
    Refused(Errno),
}

struct Before(libc::sigaction);

impl std::fmt::Debug for Before {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Before")
    }
}

/// Stored trap. `number`, the count of traps including this one, is set last.
struct Note {
    number: AtomicUsize,
    data: AtomicU64,
    address: AtomicU64,
    kind: AtomicU64,
    thread: AtomicI32,
}

/// Lock-free queue, writable by a signal handler.
static NOTES: [Note; KEPT] = [const {
    Note {
        number: AtomicUsize::new(0),
        data: AtomicU64::new(0),
        address: AtomicU64::new(0),
        kind: AtomicU64::new(0),
        thread: AtomicI32::new(0),
    }
}; KEPT];
/// Numbers of stored traps and of those taken.
static NOTED: AtomicUsize = AtomicUsize::new(0);
static TAKEN: AtomicUsize = AtomicUsize::new(0);
/// Traps dropped for lack of room.
static MISSED: AtomicU64 = AtomicU64::new(0);
static INSTALLED: AtomicBool = AtomicBool::new(false);
/// Previous handler and its flags.
static BEFORE: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);
static BEFORE_FLAGS: AtomicI32 = AtomicI32::new(0);

/// Bit of a note's `kind` for `is_async`.
const ASYNC: u64 = 1 << 32;

impl Traps {
    /// Installs the SIGTRAP handler.
    ///
    /// # Errors
    /// Returns [`TrapsError`].
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
        // Stored before the new handler may need it.
        // SAFETY: the kernel writes the current action.
        if unsafe { libc::sigaction(libc::SIGTRAP, std::ptr::null(), &mut before) } != 0 {
            return Err(refused());
        }
        BEFORE.store(before.sa_sigaction, Ordering::Release);
        BEFORE_FLAGS.store(before.sa_flags, Ordering::Release);
        let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = note;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
        // SAFETY: the handler has the signature that SA_SIGINFO requires, and calls only atomics,
        // gettid and the previous handler.
        if unsafe { libc::sigaction(libc::SIGTRAP, &action, std::ptr::null_mut()) } != 0 {
            return Err(refused());
        }
        Ok(Traps {
            before: Before(before),
        })
    }

    /// Returns the pending traps, oldest first, and removes them.
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

    /// Returns the number of traps dropped for lack of room. 1,024 fit between two calls of
    /// [`take`](Self::take).
    pub fn missed(&self) -> u64 {
        MISSED.load(Ordering::Relaxed)
    }
}

impl Drop for Traps {
    fn drop(&mut self) {
        // SAFETY: restores the action that the kernel returned at the installation.
        unsafe { libc::sigaction(libc::SIGTRAP, &self.before.0, std::ptr::null_mut()) };
        INSTALLED.store(false, Ordering::Release);
    }
}

extern "C" fn note(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a complete siginfo to handlers with SA_SIGINFO.
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
    // SAFETY: gettid takes no arguments, and cannot fail.
    note.thread
        .store(unsafe { libc::gettid() }, Ordering::Relaxed);
    note.number.store(noted.wrapping_add(1), Ordering::Release);
}

fn pass_on(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let before = BEFORE.load(Ordering::Acquire);
    match before {
        libc::SIG_IGN => {}
        libc::SIG_DFL => {
            // SAFETY: zeroes are the default action. Raised again, the signal ends the process as
            // it would have without this handler.
            unsafe {
                let action: libc::sigaction = MaybeUninit::zeroed().assume_init();
                libc::sigaction(signal, &action, std::ptr::null_mut());
                libc::raise(signal);
            }
        }
        // SAFETY: the process had installed this handler, with the signature that its flags say.
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
