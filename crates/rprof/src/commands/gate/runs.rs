//! Runs recorded one after the other, each in its own process.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context;
use rprof_launch::procfs::Procfs;
use rprof_output::{ScratchFolder, remove_abandoned};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::base;
use crate::cli::GateArgs;
use crate::terminal;
use crate::wording::messages::{Failure, say};

/// Prefix of temporary run folders.
const PREFIX: &str = ".rprof-gate-";

/// Runs of a gate, in a folder that is removed on drop.
pub(super) struct Runs<'a> {
    args: &'a GateArgs,
    folder: ScratchFolder,
    /// Number of the last termination signal; 0 if none came since the last check.
    signal: Arc<AtomicUsize>,
    /// Readable after a signal, so that nothing polls beside the measured program.
    wake: UnixStream,
}

impl<'a> Runs<'a> {
    /// Creates the run folder, inside the save folder if any, so that runs only need a rename.
    /// Removes folders of killed gates.
    pub(super) fn begin(args: &'a GateArgs, save: Option<&PathBuf>) -> Result<Runs<'a>, Failure> {
        let parent = match save {
            Some(folder) => {
                base::check(folder)?;
                folder.clone()
            }
            None => std::env::temp_dir(),
        };
        for left in remove_abandoned(&parent, PREFIX) {
            if !args.quiet {
                say(format_args!(
                    "removed {}, left by a killed gate",
                    left.display()
                ));
            }
        }
        let cannot = || {
            format!(
                "cannot make a folder in {}; is TMPDIR writable?",
                parent.display()
            )
        };
        let folder = ScratchFolder::create(&parent, PREFIX).with_context(cannot)?;
        let signal = Arc::new(AtomicUsize::new(0));
        let wake = listen(&signal).context("cannot listen for signals")?;
        Ok(Runs {
            args,
            folder,
            signal,
            wake,
        })
    }

    /// Records all commands in turns, `--runs` times. Returns the files of each command.
    pub(super) fn record(
        &self,
        commands: &[(&str, &[OsString])],
    ) -> Result<Vec<Vec<PathBuf>>, Failure> {
        self.record_times(self.args.runs, commands)
    }

    /// Records all commands in turns. Every second turn reverses the order.
    pub(super) fn record_times(
        &self,
        times: u32,
        commands: &[(&str, &[OsString])],
    ) -> Result<Vec<Vec<PathBuf>>, Failure> {
        let mut files = vec![Vec::new(); commands.len()];
        for number in 1..=times {
            let mut turn: Vec<_> = commands.iter().zip(&mut files).collect();
            if number % 2 == 0 {
                turn.reverse();
            }
            for ((name, command), files) in turn {
                let path = self.folder.path().join(format!("{name}{number}.data"));
                if !self.args.quiet {
                    let shown = command.first().map(|word| word.to_string_lossy());
                    let shown = shown.unwrap_or_default();
                    let space = if name.is_empty() { "" } else { " " };
                    say(format_args!(
                        "run {number} of {times} of {name}{space}{shown}"
                    ));
                }
                self.record_one(command, &path)?;
                files.push(path);
            }
        }
        Ok(files)
    }

    fn record_one(&self, command: &[OsString], path: &Path) -> Result<(), Failure> {
        let args = self.args;
        let mut recorder = Command::new("/proc/self/exe");
        recorder.args(["record", "-q", "-o"]).arg(path);
        for (flag, value) in [("-F", &args.freq), ("--call-graph", &args.call_graph)] {
            if let Some(value) = value {
                recorder.arg(flag).arg(value);
            }
        }
        if args.filter.needs_switches() {
            recorder.arg("--latency");
        }
        if args.filter.needs_requests() {
            recorder.arg("--requests");
        }
        for event in &args.event {
            recorder.arg("-e").arg(event);
        }
        recorder.arg("--").args(command);
        // The command's output is not part of the verdict.
        recorder.stdin(Stdio::null()).stdout(Stdio::null());
        let child = recorder.spawn().context("cannot start rprof to record")?;
        let (status, signal) = self.wait(child)?;
        match signal.or_else(|| self.take_signal()) {
            None if status.success() => Ok(()),
            None => Err(anyhow::anyhow!(
                "no verdict: {} ended with {}",
                command
                    .first()
                    .map(OsStr::new)
                    .unwrap_or_default()
                    .to_string_lossy(),
                ended_with(status)
            )
            .into()),
            Some(signal) => Err(Failure::with_status(
                u8::try_from(128 + signal).unwrap_or(u8::MAX),
                anyhow::anyhow!("no verdict: a signal ended the runs"),
            )),
        }
    }

    fn take_signal(&self) -> Option<i32> {
        match self.signal.swap(0, Ordering::SeqCst) {
            0 => None,
            signal => Some(signal as i32),
        }
    }

    /// Waits for a recorder. Forwards the first signal, which ends its command; the second kills
    /// the command. Returns its status and the first signal.
    fn wait(&self, mut child: Child) -> Result<(ExitStatus, Option<i32>), Failure> {
        let pid = Pid::from_child(&child);
        let recorder = pidfd_open(pid, PidfdFlags::empty()).ok();
        let mut first = None;
        let mut commands = Vec::new();
        loop {
            if let Some(status) = child.try_wait().context("cannot wait for the recorder")? {
                return Ok((status, first));
            }
            match (self.take_signal(), first) {
                (Some(signal), None) => {
                    first = Some(signal);
                    // Ctrl-C from the terminal reaches the recorder too.
                    if !terminal::has_reached_command(signal) {
                        // It may have exited meanwhile.
                        kill_process(pid, named(signal)).ok();
                    }
                }
                (Some(_), Some(_)) => {
                    for command in &commands {
                        pidfd_send_signal(command, Signal::KILL).ok();
                    }
                }
                (None, _) => {}
            }
            if first.is_some() && commands.is_empty() {
                commands = children_of(pid);
            }
            // For the command, and for a recorder without pidfd.
            let timeout = (first.is_some() || recorder.is_none()).then_some(MOMENT);
            self.wait_for_end_or_signal(recorder.as_ref(), timeout);
        }
    }

    fn wait_for_end_or_signal(&self, process: Option<&OwnedFd>, timeout: Option<Timespec>) {
        let mut fds: Vec<PollFd<'_>> = process
            .map(|process| PollFd::new(process, PollFlags::IN))
            .into_iter()
            .chain([PollFd::new(&self.wake, PollFlags::IN)])
            .collect();
        // A signal interrupts with EINTR, or is in the socket already.
        poll(&mut fds, timeout.as_ref()).ok();
        let mut bytes = [0; 64];
        while (&self.wake).read(&mut bytes).is_ok_and(|n| n > 0) {}
    }
}

/// Poll interval for events without a notification.
const MOMENT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

/// Stores termination signals, and returns a socket that becomes readable with each.
fn listen(signal: &Arc<AtomicUsize>) -> io::Result<UnixStream> {
    let (wake, waker) = UnixStream::pair()?;
    wake.set_nonblocking(true)?;
    waker.set_nonblocking(true)?;
    for number in [SIGINT, SIGTERM, SIGHUP] {
        if !rprof_launch::signal_is_ignored(number) {
            // In this order, the woken thread finds the number.
            signal_hook::flag::register_usize(number, Arc::clone(signal), number as usize)?;
            signal_hook::low_level::pipe::register(number, waker.try_clone()?)?;
        }
    }
    Ok(wake)
}

fn children_of(pid: Pid) -> Vec<OwnedFd> {
    let procfs = Procfs::default();
    let pid = pid.as_raw_nonzero().get().unsigned_abs();
    let threads = procfs.thread_ids(pid).into_iter();
    let children = threads.flat_map(|tid| procfs.children(pid, tid));
    children
        .filter_map(|child| Pid::from_raw(i32::try_from(child).ok()?))
        .filter_map(|child| pidfd_open(child, PidfdFlags::empty()).ok())
        .collect()
}

fn named(signal: i32) -> Signal {
    match signal {
        SIGINT => Signal::INT,
        SIGHUP => Signal::HUP,
        _ => Signal::TERM,
    }
}

fn ended_with(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) if code > 128 => format!("signal {}", code - 128),
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown status".into(),
    }
}
