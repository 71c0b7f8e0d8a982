//! Formats error numbers of system calls: the system's text with the symbolic name.
//!
//! The type is rustix's [`Errno`]. It has no symbolic names, and its constructor panics on a number
//! outside 1 to 4095.
//!
//! ```
//! use rprof_errno::{Errno, ErrnoName, ErrnoText};
//!
//! assert_eq!(ErrnoText(Errno::ACCESS).to_string(), "Permission denied (EACCES)");
//! assert_eq!(ErrnoName(Errno::TOOBIG).to_string(), "E2BIG");
//! ```

pub use rustix::io::Errno;
use std::{fmt, io};

/// Formats an error number as `Permission denied (EACCES)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrnoText(pub Errno);

impl fmt::Display for ErrnoText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = io::Error::from(self.0).to_string();
        // The standard library appends " (os error N)".
        let text = text.split(" (os error").next().unwrap_or_default();
        match name(self.0) {
            Some(name) => write!(f, "{text} ({name})"),
            None => write!(f, "{text} (errno {})", self.0.raw_os_error()),
        }
    }
}

/// Formats an error number as `EACCES`.
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

/// Returns the symbolic name of an error of perf_event_open(2), mmap(2), read(2), pipe(2), fork(2),
/// execve(2) or wait4(2); `None` for others.
pub fn name(errno: Errno) -> Option<&'static str> {
    Some(match errno {
        Errno::TOOBIG => "E2BIG",
        Errno::ACCESS => "EACCES",
        Errno::AGAIN => "EAGAIN",
        Errno::BADF => "EBADF",
        Errno::BUSY => "EBUSY",
        Errno::CHILD => "ECHILD",
        Errno::FAULT => "EFAULT",
        Errno::INTR => "EINTR",
        Errno::INVAL => "EINVAL",
        Errno::IO => "EIO",
        Errno::ISDIR => "EISDIR",
        Errno::LIBBAD => "ELIBBAD",
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
        Errno::NXIO => "ENXIO",
        Errno::OPNOTSUPP => "EOPNOTSUPP",
        Errno::OVERFLOW => "EOVERFLOW",
        Errno::PERM => "EPERM",
        Errno::SRCH => "ESRCH",
        Errno::TXTBSY => "ETXTBSY",
        _ => return None,
    })
}

/// Converts a raw number; returns `EIO` if it is outside 1 to 4095.
pub fn from_raw(raw: i32) -> Errno {
    match raw {
        1..=4095 => Errno::from_raw_os_error(raw),
        _ => Errno::IO,
    }
}

/// Returns the error number of this thread's last libc call.
pub fn last() -> Errno {
    from_raw(io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_name_are_shown() {
        let shown = ErrnoText(Errno::ACCESS).to_string();
        assert_eq!(shown, "Permission denied (EACCES)");
        let unnamed = from_raw(4000);
        assert!(ErrnoText(unnamed).to_string().contains("(errno 4000)"));
        assert_eq!(ErrnoName(Errno::TOOBIG).to_string(), "E2BIG");
        assert_eq!(ErrnoName(unnamed).to_string(), "Errno(4000)");
    }

    #[test]
    fn numbers_that_are_none_are_input_output_errors() {
        assert_eq!([0, -1, 4096].map(from_raw), [Errno::IO; 3]);
        assert_eq!(from_raw(Errno::PERM.raw_os_error()), Errno::PERM);
    }
}
