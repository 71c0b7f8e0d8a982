//! Error numbers: from the C library, and in messages.

use rustix::io::Errno;

/// Returns the error number with this value; `EIO` for what is none, which rustix panics at.
pub(crate) fn errno_from(raw: i32) -> Errno {
    match raw {
        1..=4095 => Errno::from_raw_os_error(raw),
        _ => Errno::IO,
    }
}

/// Returns the system's text of an error number with its symbolic name: `Permission denied (EACCES)`.
pub(crate) fn shown(errno: Errno) -> String {
    let said = std::io::Error::from(errno).to_string();
    // The standard library appends " (os error N)".
    let said = said.split(" (os error").next().unwrap_or_default();
    match name(errno) {
        Some(name) => format!("{said} ({name})"),
        None => format!("{said} (errno {})", errno.raw_os_error()),
    }
}

/// Returns the symbolic name of the error numbers of pipe(2), fork(2) and execve(2).
fn name(errno: Errno) -> Option<&'static str> {
    Some(match errno {
        Errno::TOOBIG => "E2BIG",
        Errno::ACCESS => "EACCES",
        Errno::AGAIN => "EAGAIN",
        Errno::FAULT => "EFAULT",
        Errno::INVAL => "EINVAL",
        Errno::IO => "EIO",
        Errno::ISDIR => "EISDIR",
        Errno::LIBBAD => "ELIBBAD",
        Errno::LOOP => "ELOOP",
        Errno::MFILE => "EMFILE",
        Errno::NAMETOOLONG => "ENAMETOOLONG",
        Errno::NFILE => "ENFILE",
        Errno::NOENT => "ENOENT",
        Errno::NOEXEC => "ENOEXEC",
        Errno::NOMEM => "ENOMEM",
        Errno::NOSYS => "ENOSYS",
        Errno::NOTDIR => "ENOTDIR",
        Errno::PERM => "EPERM",
        Errno::TXTBSY => "ETXTBSY",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_number_is_shown_with_text_and_name() {
        assert_eq!(shown(Errno::ACCESS), "Permission denied (EACCES)");
        assert_eq!([0, -1, 4096].map(errno_from), [Errno::IO; 3]);
        assert!(shown(errno_from(999)).contains("(errno 999)"));
    }
}
