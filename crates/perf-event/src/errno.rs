//! Error numbers in messages: text and symbolic name. The type itself is rustix's [`Errno`].

pub use rustix::io::Errno;
use std::fmt;

/// Shows an error number as `Permission denied (EACCES)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrnoText(pub Errno);

impl fmt::Display for ErrnoText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = std::io::Error::from(self.0).to_string();
        // The standard library appends " (os error N)".
        let text = text.split(" (os error").next().unwrap_or_default();
        match name(self.0) {
            Some(name) => write!(f, "{text} ({name})"),
            None => write!(f, "{text} (errno {})", self.0.raw_os_error()),
        }
    }
}

/// Shows an error number as `EACCES`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrnoName(pub Errno);

impl fmt::Display for ErrnoName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match name(self.0) {
            Some(name) => f.write_str(name),
            None => write!(f, "Errno({})", self.0.raw_os_error()),
        }
    }
}

/// Returns the symbolic name of the numbers that opening, mapping and reading events can give
/// (perf_event_open(2), ERRORS; mmap(2); read(2)).
pub fn name(errno: Errno) -> Option<&'static str> {
    Some(match errno {
        Errno::TOOBIG => "E2BIG",
        Errno::ACCESS => "EACCES",
        Errno::AGAIN => "EAGAIN",
        Errno::BADF => "EBADF",
        Errno::BUSY => "EBUSY",
        Errno::FAULT => "EFAULT",
        Errno::INTR => "EINTR",
        Errno::INVAL => "EINVAL",
        Errno::IO => "EIO",
        Errno::LOOP => "ELOOP",
        Errno::MFILE => "EMFILE",
        Errno::NAMETOOLONG => "ENAMETOOLONG",
        Errno::NFILE => "ENFILE",
        Errno::NODEV => "ENODEV",
        Errno::NOENT => "ENOENT",
        Errno::NOEXEC => "ENOEXEC",
        Errno::NOMEM => "ENOMEM",
        Errno::NOSPC => "ENOSPC",
        Errno::NOSYS => "ENOSYS",
        Errno::NOTDIR => "ENOTDIR",
        Errno::OPNOTSUPP => "EOPNOTSUPP",
        Errno::OVERFLOW => "EOVERFLOW",
        Errno::PERM => "EPERM",
        Errno::SRCH => "ESRCH",
        Errno::TXTBSY => "ETXTBSY",
        _ => return None,
    })
}

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

/// Returns the error number that the last libc call of this thread left behind.
pub fn last() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_name_are_shown() {
        let shown = ErrnoText(Errno::ACCESS).to_string();
        assert_eq!(shown, "Permission denied (EACCES)");
        let unnamed = Errno::from_raw_os_error(4000);
        assert!(ErrnoText(unnamed).to_string().contains("4000"));
        assert_eq!(ErrnoName(Errno::TOOBIG).to_string(), "E2BIG");
        assert_eq!(ErrnoName(unnamed).to_string(), "Errno(4000)");
    }
}
