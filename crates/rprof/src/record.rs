//! `rprof record`.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use anyhow::Context;
use indicatif::{BinaryBytes, HumanCount};
use rprof_recorder::{Output, RecordError, RecordOptions, Recording, Stopped, Summary};
use rprof_sampler::{Event, Launcher, Limits, Session, SessionBuilder, SessionError};

use crate::Outcome;
use crate::cli::{Frequency, RecordArgs, SamplingArgs};
use crate::messages::{Failure, say};
use crate::progress::{ProgressLine, TICK};
use crate::signals::{StopSignals, terminal_signals_command};

/// Samples a second unless said otherwise: not 1000, so as not to run in step
/// with what happens a thousand times a second.
const FREQUENCY: u64 = 999;

pub(crate) fn run(args: &RecordArgs) -> Outcome {
    let builder = session(&args.sampling, args.sampling.wants_stacks())?.inherit(!args.no_inherit);
    let quiet = args.sampling.quiet;
    let to = Destination {
        output: output(&args.output)?,
        compression: args.compression_level,
    };
    let recorded = record(builder, &args.command, to, quiet)?;
    match recorded.summary {
        Ok(summary) => {
            if !quiet {
                tell(&summary);
            }
            Ok(exit_status(recorded.status))
        }
        Err(error) => Err(error.into()),
    }
}

/// A file, or for `-` standard output, if that is no terminal.
fn output(path: &Path) -> Result<Output, Failure> {
    if path != Path::new("-") {
        return Ok(Output::File(path.to_owned()));
    }
    if std::io::stdout().is_terminal() {
        let message = "standard output is a terminal, and a recording is not text; \
                       pipe it on (rprof record -o - … | rprof report -i -), or name a file";
        return Err(Failure::with_status(2, anyhow::anyhow!(message)));
    }
    let stdout = std::io::stdout().as_fd().try_clone_to_owned();
    Ok(Output::Stream(
        stdout.context("cannot use standard output")?.into(),
    ))
}

/// What to record, by the arguments.
pub(crate) fn session(args: &SamplingArgs, stacks: bool) -> Result<SessionBuilder, Failure> {
    let mut builder = Session::builder()
        .callchains(stacks)
        .strict_frequency(args.strict_freq)
        .exclude_kernel(args.all_user)
        .exclude_user(args.all_kernel);
    builder = match (args.count, args.freq) {
        (Some(count), _) => builder.period(count),
        (None, Some(Frequency::Hertz(hertz))) => builder.frequency(hertz),
        (None, Some(Frequency::Max)) => {
            let max = Limits::read().max_sample_rate;
            builder.frequency(max.context("cannot read kernel.perf_event_max_sample_rate")?)
        }
        (None, None) => builder.frequency(FREQUENCY),
    };
    if let Some(event) = &args.event {
        let event = Event::parse(event).map_err(|e| Failure::with_status(2, e))?;
        builder = builder.event(event);
    }
    if let Some(bytes) = args.mmap_pages {
        builder = builder.ring_bytes(bytes);
    }
    Ok(builder)
}

/// Where a recording goes, and how it is written.
pub(crate) struct Destination {
    pub(crate) output: Output,
    pub(crate) compression: Option<i32>,
}

impl Destination {
    /// A file of this name, as it comes.
    pub(crate) fn file(path: &Path) -> Destination {
        Destination {
            output: Output::File(path.to_owned()),
            compression: None,
        }
    }
}

/// A command that was run and recorded.
pub(crate) struct Recorded {
    /// How the command ended.
    pub(crate) status: ExitStatus,
    /// What was recorded, or why not.
    pub(crate) summary: Result<Summary, RecordError>,
}

/// Runs a command to its end and records it, until it ends or a signal comes.
pub(crate) fn record(
    builder: SessionBuilder,
    command: &[OsString],
    to: Destination,
    quiet: bool,
) -> Result<Recorded, Failure> {
    let Some((program, args)) = command.split_first() else {
        return Err(anyhow::anyhow!("no command to record").into());
    };
    let signals = StopSignals::listen().context("cannot listen for signals")?;
    // What the command prints must not get into the stream.
    let is_stream = matches!(to.output, Output::Stream(_));
    let launcher = Launcher::new(program)
        .args(args)
        .stdout_to_stderr(is_stream);
    let options = RecordOptions {
        output: to.output,
        compression: to.compression,
        command_line: (std::env::args_os())
            .map(|arg| arg.to_string_lossy().into_owned())
            .collect(),
    };
    let mut recording = Recording::start(builder, &launcher, options).map_err(failed_start)?;
    if !quiet {
        for step in recording.degradations() {
            say(step);
        }
    }
    let line = ProgressLine::new(quiet);
    let stopped = loop {
        let tick = line.is_shown().then_some(TICK);
        let stopped = recording.wait(Some(signals.fd()), tick)?;
        if let Some(stopped) = stopped {
            break stopped;
        }
        line.show(&recording.progress());
    };
    line.clear();
    let summary = recording.finish();
    let status = match stopped {
        Stopped::Exited(status) => status,
        Stopped::Asked => wait_after_stop(&mut recording, &signals)?,
    };
    Ok(Recorded { status, summary })
}

/// After a stop the file is finished, and the command ends in its own time; a
/// second signal does not wait for it.
fn wait_after_stop(
    recording: &mut Recording,
    signals: &StopSignals,
) -> Result<ExitStatus, Failure> {
    if let Some(signal) = signals.last() {
        let by_terminal = signal == signal_hook::consts::SIGINT && terminal_signals_command();
        if !by_terminal {
            recording.signal_command(signal);
        }
    }
    loop {
        if let Some(Stopped::Exited(status)) = recording.wait(None, None)? {
            return Ok(status);
        }
    }
}

/// A command that cannot be executed has exit statuses of its own.
fn failed_start(error: RecordError) -> Failure {
    match &error {
        RecordError::Exec(e) | RecordError::Session(SessionError::Exec(e)) => {
            let status = u8::try_from(e.exit_code()).unwrap_or(126);
            Failure::with_status(status, error)
        }
        _ => error.into(),
    }
}

/// The exit status by which a shell tells how a command ended.
pub(crate) fn exit_status(status: ExitStatus) -> u8 {
    let code = match (status.code(), status.signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => 1,
    };
    u8::try_from(code).unwrap_or(u8::MAX)
}

/// The closing summary.
pub(crate) fn tell(summary: &Summary) {
    say(format_args!(
        "{} samples of {} in {:.3} s, in {} ({})",
        HumanCount(summary.samples),
        summary.events.join(", "),
        summary.duration.as_secs_f64(),
        summary.path.display(),
        BinaryBytes(summary.file_bytes)
    ));
    let lost = summary.lost_samples();
    if lost > 0 {
        let cpus: Vec<String> = (summary.lost.iter())
            .map(|(cpu, n)| format!("CPU {cpu}: {}", HumanCount(*n)))
            .collect();
        say(format_args!(
            "lost {} samples ({}): shares may be off; lower -F, or enlarge the ring with -m",
            HumanCount(lost),
            cpus.join(", ")
        ));
    } else {
        say("lost 0 samples");
    }
    if summary.lost_sideband > 0 {
        say(format_args!(
            "lost {} records of names and mappings: some frames will have no name",
            HumanCount(summary.lost_sideband)
        ));
    }
    if summary.throttled > 0 {
        say(format_args!(
            "throttled: {} times the kernel paused sampling; lower -F",
            HumanCount(summary.throttled)
        ));
    }
    if summary.late > 0 {
        say(format_args!(
            "{} records are out of order in the file",
            HumanCount(summary.late)
        ));
    }
    if summary.damaged_bytes > 0 {
        say(format_args!(
            "{} bytes in a ring were no records and are left out; please report this",
            HumanCount(summary.damaged_bytes)
        ));
    }
    if summary.samples == 0 {
        say(
            "no sample was taken: the command was too short, or waited all the time; try a higher -F",
        );
    }
}
