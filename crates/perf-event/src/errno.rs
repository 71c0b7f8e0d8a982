//! Error numbers by what they mean of an event. Their text is [`rprof_errno`]'s.

pub use rprof_errno::{Errno, ErrnoName, ErrnoText, last};

/// Returns whether the kernel says that this machine has no such event.
///
/// `ENOENT`: no PMU takes the event (virtual machines without a PMU); `ENODEV` and `ENXIO`: the
/// PMU is not there; `EOPNOTSUPP`: it cannot raise interrupts.
pub fn is_missing_event(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::NOENT | Errno::NODEV | Errno::NXIO | Errno::OPNOTSUPP
    )
}

/// Returns whether the kernel refuses for want of rights.
pub fn is_refusal(errno: Errno) -> bool {
    matches!(errno, Errno::ACCESS | Errno::PERM)
}
