//! Commands that must not run at the same time.
//!
//! # Recordings of whole CPUs
//!
//! An event that asks for build-ids makes the kernel mark each MMAP2 record as having one. The
//! mark is set in a header that all listeners are served from, and not taken back for those that did
//! not ask (seen with Linux 6.18): they get device and inode numbers that are marked as a build-id.
//! perf 6.1 then ends with "assertion failed at util/build-id.c" and "stack smashing detected". An
//! event that watches whole CPUs, as of `rprof record -a`, hears of the same mappings as every `perf
//! record` beside it; so the two take turns. Recordings of single processes do not meet.
//!
//! # Users without privileges
//!
//! Their rights depend on settings of the whole machine. While one test changes a setting, no other runs
//! a command as another user.

use std::process::Command;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

static TURNS: RwLock<()> = RwLock::new(());

/// Written by whoever changes settings of the machine, read by whoever depends on them.
static SETTINGS: RwLock<()> = RwLock::new(());

/// Keeps all commands of users without privileges waiting, but those started through
/// `env`, as the test's own are.
pub(crate) fn change_settings() -> RwLockWriteGuard<'static, ()> {
    SETTINGS.write().unwrap_or_else(PoisonError::into_inner)
}

/// Returns true if perf ended as it does while another program records whole CPUs, which no lock of ours
/// prevents. Waits a moment in that case.
pub(super) fn was_met_by_others(stderr: &[u8]) -> bool {
    let text = b"assertion failed at util/build-id.c";
    let was = stderr.windows(text.len()).any(|window| window == text);
    if was {
        std::thread::sleep(Duration::from_millis(500));
    }
    was
}

/// Held as long as the command runs.
pub(super) enum Turn {
    /// `perf record`: with others of its kind.
    Perf {
        _guard: RwLockReadGuard<'static, ()>,
    },
    /// rprof on whole CPUs.
    Cpus {
        _guard: RwLockWriteGuard<'static, ()>,
    },
    /// Somebody without privileges: with others of their kind.
    Unprivileged {
        _guard: RwLockReadGuard<'static, ()>,
    },
}

/// Waits until the command may run. `None` if it may always.
pub(super) fn wait_for_turn(command: &Command) -> Option<Turn> {
    if command.get_program() == "setpriv" {
        let guard = SETTINGS.read().unwrap_or_else(PoisonError::into_inner);
        return Some(Turn::Unprivileged { _guard: guard });
    }
    let mut args = command.get_args().skip_while(|arg| *arg != "record");
    args.next()?;
    if command.get_program() == "perf" {
        let guard = TURNS.read().unwrap_or_else(PoisonError::into_inner);
        return Some(Turn::Perf { _guard: guard });
    }
    let mut options = args.take_while(|arg| *arg != "--");
    options
        .any(|arg| arg == "-a" || arg == "-C" || arg == "-G")
        .then(|| {
            let guard = TURNS.write().unwrap_or_else(PoisonError::into_inner);
            Turn::Cpus { _guard: guard }
        })
}
