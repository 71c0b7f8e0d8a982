//! `rprof record`.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use rprof_launch::procfs::Procfs;
use rprof_launch::{Child, Launcher};
use rprof_output::Destination::{File, Stream};
use rprof_output::{Choice, named_descriptor};
use rprof_perf_event::Limits;
use rprof_recorder::{
    Embedding, Output, RecordError, RecordOptions, Recording, RotationPolicy, Summary,
};
use rprof_sampler::{Degradation, Session, SessionBuilder, SessionError};

use crate::cli::{
    CallGraph, Frequency, Keep, OutputArgs, RecordArgs, SamplingArgs, SwitchAt, TargetArgs,
};
use crate::input::named_input::refuse_recording;
use crate::recording::end::{StopReason, Times, wait_for_command, watch};
use crate::recording::runtimes::Runtimes;
use crate::recording::signals::Signals;
use crate::recording::status::{exit_status, of_exec};
use crate::recording::summary::print_summary;
use crate::recording::waits;
use crate::recording::{alloc, event_list, memory};
use crate::terminal::Terminal;
use crate::terminal::output::{cannot, check_standard_output, choice};
use crate::wording::messages::{Failure, is_broken_pipe, say};
use crate::wording::remedies;

pub(crate) fn run_into(args: &RecordArgs, output: &OutputArgs) -> Result<Recorded, Failure> {
    let to = destination(output)?;
    let stacks = args.sampling.wants_stacks();
    if args.memory {
        memory::check(args)?;
    }
    if args.alloc.is_some() {
        alloc::check(args)?;
    }
    let mut job = Job::new(&args.target, &args.sampling, stacks, &args.command, to)?;
    job.builder = args.extras.apply(job.builder);
    if args.waits.latency {
        job.builder = waits::with_switches(job.builder);
    }
    job.builder = job.builder.requests(args.requests);
    if args.memory {
        job.builder = memory::add_to(job.builder, &args.target)?;
        let dump = job.unwinds.then_some(memory::DUMP_BYTES);
        job.builder = job.builder.user_stack(dump.filter(|_| stacks));
        job.memory = true;
    }
    if let Some(mean) = args.alloc {
        let source = alloc::Source::of(args, mean)?;
        let dump = job.unwinds.then_some(memory::DUMP_BYTES);
        job.builder = source.add_to(job.builder)?;
        job.builder = job.builder.user_stack(dump.filter(|_| stacks));
        job.allocations = Some(source);
    }
    if let Some(hertz) = args.waits.off_cpu {
        if args.extras.overwrite {
            return Err(usage(
                "--overwrite and --off-cpu cannot be combined: --overwrite keeps only the last \
                 samples, --off-cpu needs all context switches"
                    .to_owned(),
            ));
        }
        job.builder = waits::add_to(job.builder, &args.target, "--off-cpu")?;
        job.builder = job.builder.wakers(args.waits.wakers);
        job.least_wait = Some(Duration::from_secs(1) / hertz);
        job.switch_budget = (args.waits.off_cpu_budget).map(|percent| f64::from(percent) / 100.0);
        if args.requests {
            // A sum of waits has no single request, an extrapolated wait no exact start.
            job.least_wait = Some(Duration::ZERO);
            job.switch_budget = Some(1.0);
        }
    }
    if args.extras.overwrite {
        // Readers of the file unwind: stacks may be gone when samples are read.
        job.unwinds = false;
        if let Some(SwitchAt::Bytes(_) | SwitchAt::Time(_)) = output.switch_output {
            return Err(usage(
                "--overwrite works only with --switch-output=signal: SIGUSR2 writes the last \
                 samples to a file"
                    .to_owned(),
            ));
        }
    }
    job.prints_summary = !args.sampling.quiet;
    record(job)
}

pub(crate) struct Job {
    pub(crate) builder: SessionBuilder,
    pub(crate) command: Vec<OsString>,
    pub(crate) to: Destination,
    pub(crate) times: Times,
    pub(crate) quiet: bool,
    pub(crate) verbose: bool,
    /// Print the summary when the recording ends, before the command exits.
    pub(crate) prints_summary: bool,
    /// Unwind stacks while recording.
    pub(crate) unwinds: bool,
    /// Total length of short waits of one stack that make a sample; `None` for the default.
    pub(crate) least_wait: Option<Duration>,
    /// Share of CPU time that recording switches may take; `None` for the default.
    pub(crate) switch_budget: Option<f64>,
    /// Show resident memory instead of page faults.
    pub(crate) memory: bool,
    /// Show requested memory.
    pub(crate) allocations: Option<alloc::Source>,
    /// Remarks about what the target includes and excludes.
    pub(crate) remarks: Vec<String>,
    /// Runtimes that rprof makes write symbols.
    pub(crate) runtimes: Option<Runtimes>,
}

impl Job {
    pub(crate) fn new(
        target: &TargetArgs,
        sampling: &SamplingArgs,
        stacks: bool,
        command: &[OsString],
        to: Destination,
    ) -> Result<Job, Failure> {
        if command.is_empty() && !target.is_given() {
            let message = "nothing to record: give a COMMAND (rprof record -- COMMAND), a running \
                process (-p PID, -t TID, -u USER, -G CGROUP), or the whole system (-a)";
            return Err(Failure::with_status(2, anyhow::anyhow!(message)));
        }
        refuse_recording(command)?;
        let builder = session(sampling, stacks)?;
        if !sampling.quiet && !sampling.no_inherit && !target.target()?.is_by_cpu() {
            event_list::warn_of_probes(&sampling.event)?;
        }
        let times = Times {
            delay: sampling.delay,
            duration: sampling.duration,
        };
        Ok(Job {
            builder: target.apply(builder)?,
            command: command.to_vec(),
            to,
            times,
            quiet: sampling.quiet,
            verbose: sampling.verbose,
            prints_summary: false,
            unwinds: sampling.unwinds(),
            least_wait: None,
            switch_budget: None,
            memory: false,
            allocations: None,
            remarks: target.remarks(),
            runtimes: (sampling.runtimes).then(|| Runtimes::new(target, !command.is_empty())),
        })
    }
}

pub(crate) fn session(args: &SamplingArgs, stacks: bool) -> Result<SessionBuilder, Failure> {
    let mut builder = Session::builder()
        .callchains(stacks)
        .user_stack(args.dump_bytes().filter(|_| stacks))
        .fit_user_stack(args.unwinds())
        .branch_call_stacks(args.call_graph == Some(CallGraph::Lbr))
        .strict_frequency(args.strict_freq)
        .exclude_kernel(args.all_user)
        .exclude_user(args.all_kernel)
        .inherit(!args.no_inherit)
        .enabled_from_start(args.delay.is_none())
        .exclude_self(args.exclude_perf);
    if stacks && args.unwinds() {
        // Memory and images of the process disappear at its exit.
        builder = builder.configure(|options| options.drain.idle = UNWINDING_IDLE);
    }
    builder = match (args.count, args.freq) {
        (Some(count), _) => builder.period(count),
        (None, Some(Frequency::Hertz(hertz))) => builder.frequency(hertz),
        (None, Some(Frequency::Max)) => {
            let limit = Limits::read().max_sample_rate;
            let limit = limit.context("cannot read kernel.perf_event_max_sample_rate")?;
            let most = most_samples(limit, stacks && args.dump_bytes().is_some());
            if most < limit && !args.quiet {
                say(format_args!(
                    "-F max is {most} samples per second while stacks are copied, although the \
                     kernel allows {limit}: more would overload the CPU and be lost; -F {limit} \
                     forces it"
                ));
            }
            builder.frequency(most)
        }
        (None, None) => builder,
    };
    if let (true, Some((_, filter))) = (args.event.is_empty(), args.filters.0.first()) {
        return Err(usage(format!(
            "--filter {filter} has no event: give tracepoints before it (-e sched:sched_switch)"
        )));
    }
    if !args.event.is_empty() {
        let mut events = event_list::parse(&args.event)?;
        for (after, filter) in &args.filters.0 {
            // Events before this filter.
            let count = |options: usize| match options {
                0 => Ok(0),
                options => event_list::parse(&args.event[..options]).map(|events| events.len()),
            };
            let of_last = count(after.saturating_sub(1))?..count(*after)?;
            event_list::add_filter(&mut events[of_last], filter)?;
        }
        if !args.quiet {
            event_list::warn_of_ignored(&events);
        }
        builder = builder.events(events);
    }
    if let Some(sizes) = args.mmap_pages {
        builder = builder.trace_bytes(sizes.trace);
        if let Some(bytes) = sizes.samples {
            builder = builder.ring_bytes(bytes);
        }
    }
    if let Some(priority) = args.realtime {
        builder = builder.realtime(priority);
    }
    Ok(builder)
}

/// Maximum rate of `-F max` with stack copies. A copy takes some 15 µs of CPU: at the kernel's
/// limit of 100,000, 0.3 s of work took up to 12 s, and 98 % of the samples were lost.
const MAX_WITH_STACKS: u64 = 20_000;

/// Returns the rate of `-F max`, in samples per second.
fn most_samples(limit: u64, copies_stacks: bool) -> u64 {
    match copies_stacks {
        true => limit.min(MAX_WITH_STACKS),
        false => limit,
    }
}

fn usage(message: String) -> Failure {
    Failure::with_status(2, anyhow::anyhow!(message))
}

/// Maximum time between two reads of a ring buffer while unwinding.
const UNWINDING_IDLE: Duration = Duration::from_millis(10);

/// Output of a recording, and its options.
pub(crate) struct Destination {
    output: Output,
    /// The stream is standard output, so the command must not print there.
    is_stdout: bool,
    compression: Option<i32>,
    rotation: Option<RotationPolicy>,
    max_bytes: Option<u64>,
    embedding: Embedding,
    counts: bool,
}

impl Destination {
    /// Writes one uncompressed file.
    fn file(path: &Path) -> Destination {
        Destination::uncompressed(Output::File(path.to_owned()))
    }

    pub(crate) fn unnamed(file: std::fs::File) -> Destination {
        Destination::uncompressed(Output::Unnamed(file))
    }

    fn uncompressed(output: Output) -> Destination {
        Destination {
            output,
            is_stdout: false,
            compression: None,
            rotation: None,
            max_bytes: None,
            embedding: Embedding::Unreachable,
            counts: false,
        }
    }
}

fn destination(args: &OutputArgs) -> Result<Destination, Failure> {
    let usage = |message: &'static str| Failure::with_status(2, anyhow::anyhow!(message));
    let rotation = args.switch_output.map(|at| RotationPolicy {
        every: match at {
            SwitchAt::Time(time) => Some(time),
            _ => None,
        },
        bytes: match at {
            SwitchAt::Bytes(bytes) => Some(bytes),
            _ => None,
        },
        max_files: args.switch_max_files,
    });
    let mut to = Destination {
        compression: args.compression_level,
        rotation,
        max_bytes: args.max_size,
        counts: args.stat,
        embedding: match args.keep {
            Keep::None => Embedding::Nothing,
            Keep::Auto => Embedding::Unreachable,
            Keep::All => Embedding::All,
        },
        ..Destination::file(&args.output)
    };
    let choice = choice(&args.output);
    let is_stdout = args.output == Path::new("-")
        || (choice == Choice::Typed && named_descriptor(&args.output) == Some(1));
    if !is_stdout {
        // Created once the events are open.
        let there = rprof_output::Destination::of(&args.output, choice);
        match there.map_err(cannot)? {
            Stream { .. } if rotation.is_some() => {
                return Err(usage(
                    "--switch-output makes several files; name them with -o FILE, not a device or a stream",
                ));
            }
            // /dev/null behaves like a file.
            Stream { .. } if args.output == Path::new("/dev/null") => return Ok(to),
            Stream { file, path } => to.output = Output::Stream { file, path },
            File(_) => {}
        }
        return Ok(to);
    }
    if rotation.is_some() {
        return Err(usage(
            "--switch-output makes several files; name them with -o FILE, not `-`",
        ));
    }
    if std::io::stdout().is_terminal() {
        return Err(usage(
            "cannot write a recording to a terminal: pipe it (rprof record -o - … | rprof report \
             -i -), or name a file",
        ));
    }
    check_standard_output()?;
    let stdout = std::io::stdout().as_fd().try_clone_to_owned();
    to.is_stdout = true;
    to.output = Output::Stream {
        file: stdout.context("cannot use standard output")?.into(),
        path: "standard output".into(),
    };
    Ok(to)
}

pub(crate) struct Recorded {
    /// Exit status of rprof: the command's status, or 0 without a command.
    pub(crate) status: u8,
    pub(crate) is_interrupted: bool,
    pub(crate) summary: Result<Summary, RecordError>,
}

/// Records until an exit, a signal, or a time or size limit. Then waits for the command.
pub(crate) fn record(job: Job) -> Result<Recorded, Failure> {
    let signals = Signals::listen(job.to.rotation.is_some(), !job.command.is_empty())
        .context("cannot listen for signals")?;
    let terminal = Terminal::remember();
    let is_stream = matches!(job.to.output, Output::Stream { .. });
    let is_stdout = job.to.is_stdout;
    let mut options = RecordOptions {
        unwind: job.unwinds,
        memory: job.memory,
        allocations: (job.allocations.as_ref()).map(alloc::Source::for_recorder),
        notify: Some(signals.waker().context("cannot make a socket")?),
        ..output_options(job.to)?
    };
    options.least_wait = job.least_wait.unwrap_or(options.least_wait);
    options.switch_budget = job.switch_budget.unwrap_or(options.switch_budget);
    let started = match job.command.split_first() {
        None => Recording::attach(job.builder, options),
        Some((program, args)) => {
            let mut launcher = Launcher::new(program)
                .args(args)
                .stdout_to_stderr(is_stdout);
            for (variable, value) in job.runtimes.iter().flat_map(Runtimes::variables) {
                launcher = launcher.env(variable, value);
            }
            for (variable, value) in job.allocations.iter().flat_map(alloc::Source::variables) {
                launcher = launcher.env(variable, value);
            }
            Recording::start(job.builder, &launcher, options)
        }
    };
    let mut recording = started.map_err(|error| match signals.last() {
        // Ctrl-C ended the command too, so its events could not be opened.
        Some(signal) => {
            let message = anyhow::anyhow!("stopped by signal {signal} before the recording began");
            Failure::with_status((128 + signal) as u8, message)
        }
        None => failed_start(error),
    })?;
    if !job.quiet {
        say_limits(recording.degradations(), &job.remarks, job.verbose);
        job.runtimes.iter().for_each(Runtimes::say_what_is_set);
        job.runtimes.iter().for_each(Runtimes::say_what_is_too_late);
    }
    if job.verbose {
        crate::recording::verbose::describe(&recording);
    }
    let is_endless = job.command.is_empty() && job.times.duration.is_none();
    if is_endless && !job.quiet && std::io::stderr().is_terminal() {
        say("recording; stop with Ctrl-C");
    }
    let end = watch(&mut recording, &signals, job.times, job.quiet)?;
    if let Some(runtimes) = &job.runtimes {
        // Writing of symbols must not be in the profile.
        recording.stop_sampling();
        let command = recording.session().child().map(Child::pid);
        let runs = command.filter(|_| !matches!(end, StopReason::Exited(_)));
        runtimes.ask_jvms(runs.and_then(|pid| u32::try_from(pid).ok()), job.quiet);
    }
    let mut summary = recording.finish();
    if let (Ok(summary), false) = (&mut summary, matches!(end, StopReason::Exited(_))) {
        // The command still runs, so its processes do too.
        summary.left_running.clear();
    }
    if let Ok(summary) = &summary {
        if job.verbose {
            crate::recording::verbose::describe_end(summary);
        }
        if let (Some(runtimes), false) = (&job.runtimes, job.quiet) {
            runtimes.say_what_was_written(summary);
        }
        if job.prints_summary {
            print_summary(summary, job.command.first().map(OsString::as_os_str));
        }
    }
    let is_interrupted = matches!(end, StopReason::Signal(_));
    let status = match end {
        StopReason::Exited(status) => Some(status),
        end => {
            let has_command = !job.command.is_empty();
            if !job.quiet {
                explain(&end, &summary, has_command);
            }
            match has_command {
                true => Some(wait_for_command(&mut recording, &signals, &end)?),
                false => None,
            }
        }
    };
    if status.is_some_and(|status| status.signal().is_some()) {
        terminal.restore();
    }
    let status = status.map_or(0, exit_status);
    let summary = match summary {
        // Closed by the reader: no failure.
        Err(error) if is_stream && is_broken_pipe(&error) => Ok(Summary::default()),
        summary => summary,
    };
    Ok(Recorded {
        status,
        is_interrupted,
        summary,
    })
}

fn output_options(to: Destination) -> Result<RecordOptions, Failure> {
    let command_line = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned());
    Ok(RecordOptions {
        compression: to.compression,
        rotation: to.rotation,
        max_bytes: to.max_bytes,
        embedding: to.embedding,
        counted: match to.counts {
            true => Some(crate::commands::stat::default_events()?),
            false => None,
        },
        ..RecordOptions::new(to.output, command_line.collect())
    })
}

/// Prints limits of the recording that begins.
fn say_limits(steps: &[Degradation], remarks: &[String], verbose: bool) {
    for step in remedies::worth_saying(steps, verbose) {
        say(remedies::of_step(step));
    }
    remarks.iter().for_each(say);
    let proc = Procfs::default();
    if proc.is_missing() {
        say(
            "/proc is not mounted: programs and libraries are not identified, so functions have no \
             names and stacks no callers; mount it (`mount -t proc proc /proc`)",
        );
    }
    if proc.is_of_other_pid_namespace() {
        say(
            "/proc belongs to another PID namespace: memory and mappings of these processes cannot \
             be read, and JIT code is not followed; mount it here (`unshare --mount-proc`, `mount \
             -t proc proc /proc`)",
        );
    }
}

/// Prints why the recording failed or ended before the command.
fn explain(end: &StopReason, summary: &Result<Summary, RecordError>, has_command: bool) {
    let goes_on = match has_command {
        true => "; the command continues, and rprof waits for it",
        false => "",
    };
    match (end, summary) {
        (_, Err(error)) if is_broken_pipe(error) => {}
        // Repeated at exit, when many lines may have passed.
        (_, Err(error)) if has_command => say(format_args!("{error}{goes_on}")),
        (StopReason::Full, Ok(_)) => say(format_args!("--max-size is reached{goes_on}")),
        (StopReason::Duration, Ok(_)) if has_command => {
            say(format_args!("the recording time is over{goes_on}"));
        }
        (StopReason::TargetsGone, Ok(_)) if has_command => {
            say(format_args!("all targets have exited{goes_on}"));
        }
        _ => {}
    }
}

/// Returns exit status 126 or 127 for a command that cannot be executed, as a shell does.
pub(crate) fn failed_start(error: RecordError) -> Failure {
    match &error {
        RecordError::Session(SessionError::Exec(e)) => {
            let status = of_exec(e);
            Failure::with_status(status, error)
        }
        _ => remedies::of_failure(error).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_rate_leaves_time_for_what_is_watched() {
        assert_eq!(most_samples(100_000, true), MAX_WITH_STACKS);
        assert_eq!(most_samples(100_000, false), 100_000);
        assert_eq!(most_samples(4_000, true), 4_000);
    }
}
