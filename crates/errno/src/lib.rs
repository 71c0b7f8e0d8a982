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

use std::borrow::Cow;
use std::{fmt, io};

pub use rustix::io::Errno;

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

/// Replaces the numbers that the standard library appends, ` (os error 2)`, by symbolic names,
/// ` (ENOENT)`. Programs apply it to each message that they print.
pub fn with_names(message: &str) -> Cow<'_, str> {
    const MARK: &str = " (os error ";
    let mut named = String::new();
    let mut rest = message;
    while let Some((before, after)) = rest.split_once(MARK) {
        let number = after.split_once(')');
        let name = number
            .and_then(|(number, _)| number.parse().ok())
            .and_then(|number| name(from_raw(number)));
        named.push_str(before);
        rest = match (name, number) {
            (Some(name), Some((_, after))) => {
                named.extend([" (", name, ")"]);
                after
            }
            _ => {
                named.push_str(MARK);
                after
            }
        };
    }
    match named.is_empty() {
        true => Cow::Borrowed(message),
        false => Cow::Owned(named + rest),
    }
}

/// Returns the symbolic name of an error of perf_event_open(2), of system calls for files, memory,
/// processes or sockets; `None` for others.
pub fn name(errno: Errno) -> Option<&'static str> {
    Some(match errno {
        Errno::TOOBIG => "E2BIG",
        Errno::ACCESS => "EACCES",
        Errno::ADDRINUSE => "EADDRINUSE",
        Errno::ADDRNOTAVAIL => "EADDRNOTAVAIL",
        Errno::AGAIN => "EAGAIN",
        Errno::BADF => "EBADF",
        Errno::BUSY => "EBUSY",
        Errno::CHILD => "ECHILD",
        Errno::CONNABORTED => "ECONNABORTED",
        Errno::CONNREFUSED => "ECONNREFUSED",
        Errno::CONNRESET => "ECONNRESET",
        Errno::DQUOT => "EDQUOT",
        Errno::EXIST => "EEXIST",
        Errno::FAULT => "EFAULT",
        Errno::FBIG => "EFBIG",
        Errno::HOSTUNREACH => "EHOSTUNREACH",
        Errno::INTR => "EINTR",
        Errno::INVAL => "EINVAL",
        Errno::IO => "EIO",
        Errno::ISDIR => "EISDIR",
        Errno::LIBBAD => "ELIBBAD",
        Errno::LOOP => "ELOOP",
        Errno::MFILE => "EMFILE",
        Errno::MLINK => "EMLINK",
        Errno::NAMETOOLONG => "ENAMETOOLONG",
        Errno::NETUNREACH => "ENETUNREACH",
        Errno::NFILE => "ENFILE",
        Errno::NODEV => "ENODEV",
        Errno::NOENT => "ENOENT",
        Errno::NOEXEC => "ENOEXEC",
        Errno::NOMEM => "ENOMEM",
        Errno::NOSPC => "ENOSPC",
        Errno::NOSYS => "ENOSYS",
        Errno::NOTCONN => "ENOTCONN",
        Errno::NOTDIR => "ENOTDIR",
        Errno::NOTEMPTY => "ENOTEMPTY",
        Errno::NXIO => "ENXIO",
        Errno::OPNOTSUPP => "EOPNOTSUPP",
        Errno::OVERFLOW => "EOVERFLOW",
        Errno::PERM => "EPERM",
        Errno::PIPE => "EPIPE",
        Errno::ROFS => "EROFS",
        Errno::SPIPE => "ESPIPE",
        Errno::SRCH => "ESRCH",
        Errno::TIMEDOUT => "ETIMEDOUT",
        Errno::TXTBSY => "ETXTBSY",
        Errno::XDEV => "EXDEV",
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
    fn numbers_in_messages_become_names() {
        let missing = io::Error::from(Errno::NOENT);
        assert_eq!(
            with_names(&format!("cannot open x: {missing}. Record first")),
            "cannot open x: No such file or directory (ENOENT). Record first"
        );
        let both = format!("{missing}; {}", io::Error::from(Errno::CONNREFUSED));
        assert!(with_names(&both).ends_with("(ENOENT); Connection refused (ECONNREFUSED)"));
        for other in [
            "(os error 2)",
            " (os error 4000) ",
            " (os error x)",
            " (os error ",
        ] {
            assert_eq!(with_names(other), other);
        }
    }

    #[test]
    fn numbers_that_are_none_are_input_output_errors() {
        assert_eq!([0, -1, 4096].map(from_raw), [Errno::IO; 3]);
        assert_eq!(from_raw(Errno::PERM.raw_os_error()), Errno::PERM);
    }
}
