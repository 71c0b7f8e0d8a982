//! Classes of error numbers for events. [`rprof_errno`] has their text.

pub use rprof_errno::{Errno, ErrnoName, ErrnoText, last, with_names};

/// Returns whether the error means that this machine lacks the event.
///
/// `ENOENT`: no PMU supports the event (virtual machines without a PMU). `ENODEV` and `ENXIO`: the
/// PMU is missing. `EOPNOTSUPP`: it cannot raise interrupts.
pub fn is_missing_event(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::NOENT | Errno::NODEV | Errno::NXIO | Errno::OPNOTSUPP
    )
}

/// Returns whether the error means missing rights.
pub fn is_refusal(errno: Errno) -> bool {
    matches!(errno, Errno::ACCESS | Errno::PERM)
}
