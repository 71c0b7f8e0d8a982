//! HotSpot's attach protocol, spoken by rprof itself: a running Java machine executes one diagnostic command.
//!
//! The client makes a file `.attach_pidN` in `/tmp` and sends SIGQUIT. The machine finds the file, listens on the socket
//! `.java_pidN` beside it, and answers one request a connection (`attachListener_posix.cpp` of OpenJDK). N is the process id
//! that the machine itself has, and `/tmp` is the one that it sees: both may differ in a container.
//!
//! No program runs for this. Files are made, and the socket is opened, with the rights of the machine's user; nothing is sent
//! before the kernel confirms that the peer is the process that was asked for; the answer is bounded and never shown.

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

/// Interval at which the socket is looked for.
const TICK: Duration = Duration::from_millis(10);

/// Maximum length of an answer, in bytes.
const MAX_ANSWER: u64 = 64 << 10;

/// A Java machine, and how it is reached.
pub(super) struct Machine<'a> {
    /// The process, as it is numbered here.
    pub(super) pid: Pid,
    /// Descriptor of the process: its number may be given to another one.
    pub(super) process: &'a OwnedFd,
    /// Process id that the machine itself has.
    pub(super) own_pid: u32,
    /// Effective user of the process.
    pub(super) user: u32,
    /// Files of the process, with its rights.
    pub(super) files: &'a FileView,
}

/// A failed request, in words that continue a sentence about the machine.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AttachError {
    /// The machine did not answer in time.
    TimedOut,
    /// Another process answered.
    AnotherProcess,
    /// The machine refused the command.
    Refused,
    /// A system call failed.
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
    /// Has the machine execute one command of `jcmd`, and returns when it has answered.
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

    /// Has the machine begin to listen, and connects.
    fn wake(&self, until: Instant) -> Result<OwnedFd, AttachError> {
        let name = format!(".attach_pid{}", self.own_pid);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let made = self.in_tmp(|tmp| rustix::fs::openat(tmp, &name, flags, mode).map(drop))?;
        // Another client may be at it.
        if made != Err(Errno::EXIST) {
            made?;
        }
        let woken = self.wait_for_socket(until);
        if made.is_ok() {
            let removed = self.in_tmp(|tmp| rustix::fs::unlinkat(tmp, &name, AtFlags::empty()));
            // The machine may have removed it.
            removed?.ok();
        }
        woken
    }

    fn wait_for_socket(&self, until: Instant) -> Result<OwnedFd, AttachError> {
        // Outside of `in_tmp`: a signal to another user's process takes this program's own rights.
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

    /// Connects without waiting; `None` if nothing listens, or if other clients are waiting.
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

    /// Acts in the folder of the machine's socket, with the rights of its user.
    fn in_tmp<T>(&self, act: impl FnOnce(BorrowedFd<'_>) -> T) -> io::Result<T> {
        self.files.in_folder(Path::new("/tmp"), act)
    }
}

/// A socket that does not block, read and written until a time.
struct Timed {
    file: File,
    until: Instant,
}

impl Timed {
    /// Waits until the socket is ready.
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
