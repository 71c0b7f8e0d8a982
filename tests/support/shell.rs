//! Commands as in a shell session: `here.rprof("record -g --").arg(&program).ok()`.
//!
//! Each command runs in a temporary folder, with empty standard input, in its own session, with the
//! default action for every signal. So it behaves equally in a terminal, in the background, and
//! under nohup(1). A command that hangs is killed, and the test fails. All processes end with the
//! folder (see [`Tether`]).

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::exclusive::{Turn, wait_for_turn};
use rprof_testing::{Tether, default_signals};

use super::report::Report;
use super::run::Run;

/// Timeout, longer than any command needs.
pub(super) const HANG: Duration = Duration::from_secs(180);

/// Folder of one test. Dropping it also ends its processes.
pub(crate) struct Here {
    // Dropped first: its processes may write to the folder.
    tether: Tether,
    folder: tempfile::TempDir,
}

impl Here {
    pub(crate) fn new() -> Here {
        // Tests hard-link fixtures here, which needs the same file system.
        let folder = tempfile::Builder::new().tempdir_in(env!("CARGO_TARGET_TMPDIR"));
        Here {
            tether: Tether::new(),
            folder: folder.expect("cannot make a folder for a test"),
        }
    }

    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Copies a program in another process: a child that another test forks would inherit our open
    /// file until its exec. Meanwhile nobody could execute the program ("Text file busy").
    pub(crate) fn copy(&self, program: &Path, name: impl AsRef<Path>) -> PathBuf {
        let path = self.path(name);
        self.command("cp").arg(program).arg(&path).ok();
        path
    }

    /// Splits the arguments at spaces. Uses this build, or the one in RPROF_RELEASE.
    pub(crate) fn rprof(&self, args: &str) -> Shell {
        let release = std::env::var_os("RPROF_RELEASE");
        let debug = || option_env!("CARGO_BIN_EXE_rprof").map(Into::into);
        let rprof = self.command(release.or_else(debug).expect("a test of rprof"));
        // The user's home may contain perf's copies of these programs.
        rprof
            .env(
                "HOME",
                self.folder.path().to_str().expect("paths here are UTF-8"),
            )
            .words(args)
    }

    /// Returns `perf` without configuration files.
    pub(crate) fn perf(&self, args: &str) -> Shell {
        let mut shell = self.command("perf").words(args);
        shell.command.env("PERF_CONFIG", "/dev/null");
        shell.command.env("HOME", self.folder.path());
        shell
    }

    pub(crate) fn sh(&self, script: &str) -> Shell {
        self.command("sh").arg("-c").arg(script)
    }

    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Shell {
        let mut command = Command::new(program);
        command.current_dir(self.folder.path()).env("LC_ALL", "C");
        for name in [
            "DEBUGINFOD_URLS",
            "NO_COLOR",
            "CLICOLOR",
            "CLICOLOR_FORCE",
            "PERF_BUILDID_DIR",
            "PAGER",
        ] {
            command.env_remove(name);
        }
        command.stdin(Stdio::null());
        self.tether.tie(default_signals(&mut command));
        Shell {
            command,
            own_session: true,
        }
    }

    /// Runs `rprof record -q` to perf.data, without stacks by default.
    pub(crate) fn record(&self, options: &str, program: &Path, args: &str) {
        let says_how = options
            .split(' ')
            .any(|word| word == "-g" || word == "--call-graph");
        let flat = if says_how { "" } else { "--call-graph none" };
        let shell = self.rprof("record -q").words(flat).words(options).arg("--");
        shell.arg(program).words(args).ok();
    }

    /// Runs `perf record` with the clock at 999 Hz and stacks, to perf.data.
    pub(crate) fn perf_record(&self, options: &str, program: &Path, args: &str) {
        let shell = self.perf("record -q -N -F 999 -g").words(options).arg("--");
        shell.arg(program).words(args).ok();
    }

    /// Returns the report by function, as in perf.
    pub(crate) fn report(&self, options: &str) -> Report {
        let report = self.rprof("report --format json --no-inline");
        Report::parse(&report.words(options).ok())
    }
}

pub(crate) struct Shell {
    command: Command,
    own_session: bool,
}

impl Shell {
    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Shell {
        self.command.arg(arg);
        self
    }

    pub(crate) fn words(mut self, args: &str) -> Shell {
        self.command.args(args.split_whitespace());
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Shell {
        self.command.env(name, value);
        self
    }

    /// Makes it a job: its own process group in our session. Only such a job can be stopped by
    /// SIGTSTP.
    pub(crate) fn job(mut self) -> Shell {
        self.own_session = false;
        self.command.process_group(0);
        self
    }

    /// The user's Ctrl-C or hangup must not reach it.
    fn leave_session(&mut self) {
        if std::mem::take(&mut self.own_session) {
            // SAFETY: setsid(2) is async-signal-safe.
            unsafe {
                (self.command).pre_exec(|| Ok(rustix::process::setsid().map(drop)?));
            }
        }
    }

    pub(crate) fn stdin(mut self, bytes: &[u8]) -> Shell {
        let mut file = tempfile::tempfile().expect("cannot make a temporary file");
        file.write_all(bytes).and_then(|()| file.rewind()).unwrap();
        self.command.stdin(file);
        self
    }

    /// Output goes to files, so that other processes with open outputs cannot block the test.
    pub(crate) fn run(mut self) -> Run {
        self.leave_session();
        let line = line(&self.command);
        let _turn = wait_for_turn(&self.command);
        let [mut stdout, mut stderr] = [(); 2].map(|()| output());
        self.command.stdout(stdout.try_clone().unwrap());
        self.command.stderr(stderr.try_clone().unwrap());
        let mut child = spawn(&mut self.command, &line);
        let watch = watch(&child);
        let status = child.wait().expect("cannot wait for a command");
        drop(watch);
        Run {
            line,
            status,
            stdout: read(&mut stdout),
            stderr: read(&mut stderr),
        }
    }

    pub(crate) fn ok(self) -> Run {
        self.exits(0)
    }

    pub(crate) fn exits(self, code: i32) -> Run {
        let run = self.run();
        run.exits(code);
        run
    }

    /// Starts the command. Its output can be read while it runs.
    pub(crate) fn start(mut self) -> Running {
        self.leave_session();
        let line = line(&self.command);
        let stderr = output();
        self.command.stdout(Stdio::piped());
        self.command.stderr(stderr.try_clone().unwrap());
        let turn = wait_for_turn(&self.command);
        let mut child = spawn(&mut self.command, &line);
        let watch = watch(&child);
        Running {
            _turn: turn,
            line,
            stdout: child.stdout.take().map(BufReader::new),
            seen: Vec::new(),
            stderr,
            child,
            watch: Some(watch),
        }
    }

    /// Returns the second command's result.
    pub(crate) fn pipe(self, mut to: Shell) -> Run {
        let mut first = self.start();
        let pipe = first.stdout.take().expect("nobody took it").into_inner();
        to.command.stdin(pipe);
        let run = to.run();
        first.end().exits(0);
        run
    }
}

pub(crate) struct Running {
    _turn: Option<Turn>,
    line: String,
    child: Child,
    stdout: Option<BufReader<ChildStdout>>,
    seen: Vec<u8>,
    stderr: File,
    watch: Option<Sender<()>>,
}

impl Running {
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        let stdout = self.stdout.as_mut().expect("its output was closed");
        stdout.read_line(&mut line).expect("cannot read its output");
        if line.is_empty() {
            panic!("no line came of\n{}", self.finish());
        }
        self.seen.extend_from_slice(line.as_bytes());
        line.trim_end().into()
    }

    pub(crate) fn close_stdout(&mut self) {
        self.stdout = None;
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("cannot send a signal");
    }

    pub(crate) fn end(mut self) -> Run {
        self.finish()
    }

    fn finish(&mut self) -> Run {
        // Other processes may hold the output open.
        let status = self.child.wait().expect("cannot wait for a command");
        self.watch = None;
        Run {
            line: self.line.clone(),
            status,
            stdout: std::mem::take(&mut self.seen),
            stderr: read(&mut self.stderr),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.watch.is_some() {
            self.child.kill().ok();
            self.child.wait().ok();
        }
    }
}

fn line(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    let words = std::iter::once(name).chain(command.get_args());
    let words: Vec<_> = words
        .map(|w| w.to_string_lossy().escape_debug().to_string())
        .collect();
    words.join(" ")
}

fn output() -> File {
    tempfile::tempfile().expect("cannot make a temporary file")
}

fn read(file: &mut File) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.rewind().expect("cannot rewind output");
    file.read_to_end(&mut bytes).expect("cannot read output");
    bytes
}

fn spawn(command: &mut Command, line: &str) -> Child {
    (command.spawn()).unwrap_or_else(|e| panic!("cannot run `{line}`: {e}"))
}

/// Kills a hanging command. Dropping the returned sender cancels this.
fn watch(child: &Child) -> Sender<()> {
    let (sender, receiver) = channel();
    let pid = Pid::from_child(child);
    std::thread::spawn(move || {
        if receiver.recv_timeout(HANG) == Err(RecvTimeoutError::Timeout) {
            kill_process(pid, Signal::KILL).ok();
        }
    });
    sender
}
