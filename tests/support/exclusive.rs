//! Commands that must not run at the same time.
//!
//! Rights of users without privileges depend on settings of the whole machine. While one test changes a setting, no other
//! runs a command as another user.

use std::process::Command;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Written by whoever changes settings of the machine, read by whoever depends on them.
static SETTINGS: RwLock<()> = RwLock::new(());

/// Keeps all commands of users without privileges waiting, but those started through
/// `env`, as the test's own are.
pub(crate) fn change_settings() -> RwLockWriteGuard<'static, ()> {
    SETTINGS.write().unwrap_or_else(PoisonError::into_inner)
}

/// Turn of somebody without privileges, with others of their kind; held as long as the command runs.
pub(super) struct Turn {
    _guard: RwLockReadGuard<'static, ()>,
}

/// Waits until the command may run. `None` if it may always.
pub(super) fn wait_for_turn(command: &Command) -> Option<Turn> {
    (command.get_program() == "setpriv").then(|| Turn {
        _guard: SETTINGS.read().unwrap_or_else(PoisonError::into_inner),
    })
}
