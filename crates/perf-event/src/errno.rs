//! Error numbers of the kernel, as values that can be compared and shown.

use std::fmt;

/// An error number of a system call (errno(3)).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

impl Errno {
    /// The error number that the last system call of this thread left behind.
    pub fn last() -> Errno {
        Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }

    /// The symbolic name, for the numbers that opening events can give.
    pub fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            libc::E2BIG => "E2BIG",
            libc::EACCES => "EACCES",
            libc::EAGAIN => "EAGAIN",
            libc::EBADF => "EBADF",
            libc::EBUSY => "EBUSY",
            libc::EFAULT => "EFAULT",
            libc::EINTR => "EINTR",
            libc::EINVAL => "EINVAL",
            libc::EIO => "EIO",
            libc::ELOOP => "ELOOP",
            libc::EMFILE => "EMFILE",
            libc::ENAMETOOLONG => "ENAMETOOLONG",
            libc::ENFILE => "ENFILE",
            libc::ENODEV => "ENODEV",
            libc::ENOENT => "ENOENT",
            libc::ENOEXEC => "ENOEXEC",
            libc::ENOMEM => "ENOMEM",
            libc::ENOSPC => "ENOSPC",
            libc::ENOSYS => "ENOSYS",
            libc::ENOTDIR => "ENOTDIR",
            libc::EOPNOTSUPP => "EOPNOTSUPP",
            libc::EOVERFLOW => "EOVERFLOW",
            libc::EPERM => "EPERM",
            libc::ESRCH => "ESRCH",
            libc::ETXTBSY => "ETXTBSY",
            _ => return None,
        })
    }

    /// Whether the kernel says that it has no such event on this machine.
    ///
    /// `ENOENT`: no PMU takes the event (virtual machines without a PMU);
    /// `ENODEV` and `ENXIO`: the PMU is not there; `EOPNOTSUPP`: it cannot raise interrupts.
    pub fn is_missing_event(self) -> bool {
        matches!(
            self.0,
            libc::ENOENT | libc::ENODEV | libc::ENXIO | libc::EOPNOTSUPP
        )
    }

    /// Whether the kernel says "not you".
    pub fn is_refusal(self) -> bool {
        matches!(self.0, libc::EACCES | libc::EPERM)
    }
}

impl From<Errno> for std::io::Error {
    fn from(errno: Errno) -> Self {
        std::io::Error::from_raw_os_error(errno.0)
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = std::io::Error::from_raw_os_error(self.0).to_string();
        // The standard library appends " (os error N)".
        let said = said.split(" (os error").next().unwrap_or_default();
        match self.name() {
            Some(name) => write!(f, "{said} ({name})"),
            None => write!(f, "{said} (errno {})", self.0),
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "Errno({})", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_text_and_name() {
        let shown = Errno(libc::EACCES).to_string();
        assert_eq!(shown, "Permission denied (EACCES)");
        assert!(Errno(9999).to_string().contains("9999"));
    }
}
