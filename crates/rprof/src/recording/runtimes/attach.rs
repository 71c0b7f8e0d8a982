//! Client of HotSpot's attach protocol: makes a running JVM execute one diagnostic command.
//!
//! The client creates `.attach_pidN` in `/tmp` and sends SIGQUIT. The JVM finds the file, listens
//! on the socket `.java_pidN` beside it, and answers one request per connection
//! (`attachListener_posix.cpp` of OpenJDK). N is the JVM's own process id, and `/tmp` its own view:
//! both may differ in a container.
//!
//! No program is run. Files and socket are opened with the privileges of the JVM's user. Nothing is
//! sent before the kernel confirms the peer's pid and user. The answer is limited in size and never
//! shown.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rprof_image::FileView;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use rustix::process::{Pid, Signal, pidfd_send_signal};

/// Poll interval for the socket.
const TICK: Duration = Duration::from_millis(10);

/// Maximum size of an answer, in bytes.
const MAX_ANSWER: u64 = 64 << 10;

/// A JVM, and how to reach it.
pub(super) struct Machine<'a> {
    /// Process id in this namespace.
    pub(super) pid: Pid,
    /// Pidfd: the process id may be reused.
    pub(super) process: &'a OwnedFd,
    /// Process id in the JVM's own namespace.
    pub(super) own_pid: u32,
    /// Effective user of the process.
    pub(super) user: u32,
    /// Files of the process, accessed with its privileges.
    pub(super) files: &'a FileView,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum AttachError {
    TimedOut,
    AnotherProcess,
    Refused,
    Io(String),
}

impl From<Errno> for AttachError {
    fn from(errno: Errno) -> Self {
        AttachError::Io(io::Error::from(errno).to_string())
    }
}

impl From<io::Error> for AttachError {
    fn from(error: io::Error) -> Self {
        AttachError::Io(error.to_string())
    }
}

impl Machine<'_> {
    /// Executes one `jcmd` command, and returns after the answer.
    pub(super) fn execute(&self, command: &str, until: Instant) -> Result<(), AttachError> {
        let socket = match self.connect()? {
            Some(socket) => socket,
            None => self.wake(until)?,
        };
        let peer = sockopt::socket_peercred(&socket)?;
        if peer.pid != self.pid || peer.uid.as_raw() != self.user {
            return Err(AttachError::AnotherProcess);
        }
        // Version 1 of the protocol: the operation and three arguments, each ended by a zero byte.
        let request = format!("1\0jcmd\0{command}\0\0\0");
        let mut socket = Timed {
            file: File::from(socket),
            until,
        };
        socket.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        socket.take(MAX_ANSWER).read_to_end(&mut answer)?;
        match answer.split(|byte| *byte == b'\n').next() {
            Some(b"0") => Ok(()),
            _ => Err(AttachError::Refused),
        }
    }

    fn wake(&self, until: Instant) -> Result<OwnedFd, AttachError> {
        let name = format!(".attach_pid{}", self.own_pid);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let made = self.in_tmp(|tmp| rustix::fs::openat(tmp, &name, flags, mode).map(drop))?;
        // Another client may be attaching.
        if made != Err(Errno::EXIST) {
            made?;
        }
        let woken = self.wait_for_socket(until);
        if made.is_ok() {
            let removed = self.in_tmp(|tmp| rustix::fs::unlinkat(tmp, &name, AtFlags::empty()));
            // The JVM may have removed it.
            removed?.ok();
        }
        woken
    }

    fn wait_for_socket(&self, until: Instant) -> Result<OwnedFd, AttachError> {
        // Signalling another user's process needs rprof's own privileges.
        pidfd_send_signal(self.process, Signal::QUIT)?;
        loop {
            if let Some(socket) = self.connect()? {
                return Ok(socket);
            }
            if Instant::now() >= until {
                return Err(AttachError::TimedOut);
            }
            thread::sleep(TICK);
        }
    }

    /// Connects without waiting; `None` if nothing listens, or other clients are queued.
    fn connect(&self) -> Result<Option<OwnedFd>, AttachError> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        let connected = self.in_tmp(|tmp| {
            let path = format!(
                "/proc/self/fd/{}/.java_pid{}",
                tmp.as_raw_fd(),
                self.own_pid
            );
            rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)
        })?;
        match connected {
            Ok(()) => Ok(Some(socket)),
            Err(Errno::NOENT | Errno::CONNREFUSED | Errno::AGAIN) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Acts in the folder of the socket, with the privileges of the JVM's user.
    fn in_tmp<T>(&self, act: impl FnOnce(BorrowedFd<'_>) -> T) -> io::Result<T> {
        self.files.in_folder(Path::new("/tmp"), act)
    }
}

/// Nonblocking socket with a deadline.
struct Timed {
    file: File,
    until: Instant,
}

impl Timed {
    fn wait(&self, wanted: PollFlags) -> io::Result<()> {
        let left = self.until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(|_| io::ErrorKind::InvalidInput)?;
        match rustix::event::poll(&mut [PollFd::new(&self.file, wanted)], Some(&left))? {
            0 => Err(io::ErrorKind::TimedOut.into()),
            _ => Ok(()),
        }
    }
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.wait(PollFlags::IN)?;
        self.file.read(buffer)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.wait(PollFlags::OUT)?;
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
