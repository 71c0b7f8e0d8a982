//! Commands that must not run concurrently.
//!
//! Permissions of unprivileged users depend on system-wide settings. While one test changes a
//! setting, no other runs a command as another user.

use std::process::Command;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Write-locked to change settings, read-locked to depend on them.
static SETTINGS: RwLock<()> = RwLock::new(());

/// Blocks all unprivileged commands, except through `env`.
pub(crate) fn change_settings() -> RwLockWriteGuard<'static, ()> {
    SETTINGS.write().unwrap_or_else(PoisonError::into_inner)
}

/// Read lock of a command, held while it runs.
pub(super) struct Turn {
    _guard: RwLockReadGuard<'static, ()>,
}

/// `None` if the command needs no lock.
pub(super) fn wait_for_turn(command: &Command) -> Option<Turn> {
    (command.get_program() == "setpriv").then(|| Turn {
        _guard: SETTINGS.read().unwrap_or_else(PoisonError::into_inner),
    })
}
