//! `rprof gate`.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context;
use rprof_export::diff::{DiffOptions, markdown};
use rprof_output::private_folder;
use rprof_profile::compare::Design;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::Outcome;
use crate::cli::GateArgs;
use crate::diff::{Labels, Request};
use crate::messages::{Failure, say};
use crate::named_input::is_recording;
use crate::output::write_to;
use crate::versus::commands;

/// Threshold where none is given.
const LIMIT: f64 = 0.05;

pub(crate) fn run(args: &GateArgs) -> Outcome {
    let sides = commands(&args.command, "gate")?;
    let base = args.base.as_deref().map(recordings_in).transpose()?;
    let folder = match &args.save {
        Some(folder) => {
            let cannot = || format!("cannot make {}", folder.display());
            std::fs::create_dir_all(folder).with_context(cannot)?;
            None
        }
        None => {
            Some(private_folder().context("cannot make a temporary folder; is TMPDIR writable?")?)
        }
    };
    let to = match (&folder, &args.save) {
        (Some(folder), _) => folder.path(),
        (None, Some(folder)) => folder.as_path(),
        (None, None) => Path::new("."),
    };
    let mut runs = Runs::new(args, to)?;
    let (old, new, design) = match (base, &sides[..]) {
        (Some(_), [_, _, ..]) => {
            return Err(usage(
                "--base is the old side already: give one COMMAND, without :::",
            ));
        }
        (Some(base), [command]) => {
            let new = runs.record(&[("", command.as_slice())])?;
            (base, new.concat(), Design::Independent)
        }
        (None, [old, new]) => {
            let [old, new] = <[_; 2]>::try_from(
                runs.record(&[("old", old.as_slice()), ("new", new.as_slice())])?,
            )
            .unwrap_or_default();
            (old, new, Design::Paired)
        }
        (None, [command]) if args.save.is_some() => {
            runs.record(&[("", command.as_slice())])?;
            say(format_args!(
                "{} runs are in {}; `rprof gate --base {} -- COMMAND` compares others with them",
                args.runs,
                to.display(),
                to.display()
            ));
            return Ok(0);
        }
        _ => {
            return Err(usage(
                "nothing to compare with: give recordings (--base DIR, which --save DIR makes), or two commands \
                 (rprof gate -- OLD ::: NEW)",
            ));
        }
    };
    let request = Request {
        judging: &args.judging,
        shown: &args.shown,
        filter: &args.filter,
        events: &[],
        quiet: args.quiet,
        design,
        limit: Some(args.judging.fail_above.unwrap_or(LIMIT)),
        labels: labels(args, &sides),
    };
    let (status, diff) = request.run(&old, &new)?;
    if let Some(path) = &args.markdown {
        write_to(path, |out| {
            Ok(markdown::write(&diff, &DiffOptions::default(), out)?)
        })?;
    }
    Ok(status)
}

fn usage(message: &'static str) -> Failure {
    Failure::with_status(2, anyhow::anyhow!(message))
}

/// Returns what both sides are called.
fn labels(args: &GateArgs, sides: &[Vec<OsString>]) -> Option<Labels> {
    let text = |words: &Vec<OsString>| {
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        PathBuf::from(words.join(" "))
    };
    match (sides, &args.base) {
        ([old, new], _) => Some(Labels([text(old), text(new)])),
        ([new], Some(base)) => Some(Labels([base.clone(), text(new)])),
        _ => None,
    }
}

/// Lists the recordings of a folder, in the order of their names.
fn recordings_in(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let cannot = || format!("cannot read {}", folder.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(cannot)? {
        let path = entry.with_context(cannot)?.path();
        if is_recording(path.as_os_str()) {
            files.push(path);
        }
    }
    files.sort();
    match files.is_empty() {
        false => Ok(files),
        true => Err(anyhow::anyhow!(
            "there is no recording in {0}: `rprof gate --save {0} -- COMMAND` makes some",
            folder.display()
        )
        .into()),
    }
}

/// Runs that are recorded one after the other, each by a process of its own.
struct Runs<'a> {
    args: &'a GateArgs,
    folder: &'a Path,
    /// Number of the last signal that asked for an end.
    ended: Arc<AtomicUsize>,
}

impl<'a> Runs<'a> {
    fn new(args: &'a GateArgs, folder: &'a Path) -> Result<Runs<'a>, Failure> {
        let ended = Arc::new(AtomicUsize::new(0));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            if !rprof_launch::signal_is_ignored(signal) {
                signal_hook::flag::register_usize(signal, Arc::clone(&ended), signal as usize)
                    .context("cannot listen for signals")?;
            }
        }
        Ok(Runs {
            args,
            folder,
            ended,
        })
    }

    /// Records all commands in turns, as often as was asked for. Returns the files of each.
    fn record(&mut self, commands: &[(&str, &[OsString])]) -> Result<Vec<Vec<PathBuf>>, Failure> {
        let mut files = vec![Vec::new(); commands.len()];
        for number in 1..=self.args.runs {
            for ((name, command), files) in commands.iter().zip(&mut files) {
                let path = self.folder.join(format!("{name}{number}.data"));
                if !self.args.quiet {
                    let shown = command.first().map(|word| word.to_string_lossy());
                    say(format_args!(
                        "run {number} of {} of {}",
                        self.args.runs,
                        shown.unwrap_or_default()
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
        for event in &args.event {
            recorder.arg("-e").arg(event);
        }
        recorder.arg("--").args(command);
        // What the command prints is not the verdict.
        recorder.stdin(Stdio::null()).stdout(Stdio::null());
        let child = recorder
            .spawn()
            .context("cannot run rprof again, to record")?;
        let status = self.wait(child)?;
        match self.ended.load(Ordering::SeqCst) {
            0 if status.success() => Ok(()),
            0 => Err(anyhow::anyhow!(
                "nothing is judged: {} ended with {}",
                command
                    .first()
                    .map(OsStr::new)
                    .unwrap_or_default()
                    .to_string_lossy(),
                ended_with(status)
            )
            .into()),
            signal => Err(Failure::with_status(
                128 + signal as u8,
                anyhow::anyhow!("nothing is judged: a signal ended the runs"),
            )),
        }
    }

    /// Waits for a recorder, and hands signals on to it.
    fn wait(&self, mut child: Child) -> Result<ExitStatus, Failure> {
        let mut told = 0;
        loop {
            if let Some(status) = child.try_wait().context("cannot wait for the recorder")? {
                return Ok(status);
            }
            let signal = self.ended.load(Ordering::SeqCst);
            if signal != told {
                told = signal;
                let pid = Pid::from_child(&child);
                let signal = match signal as i32 {
                    SIGINT => Signal::INT,
                    SIGHUP => Signal::HUP,
                    _ => Signal::TERM,
                };
                // It may have ended meanwhile.
                kill_process(pid, signal).ok();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
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
