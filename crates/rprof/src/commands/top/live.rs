//! [`Live`]: a recording without a file, and its analysis.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context;
use rprof_analysis::{LiveAnalysis, LiveWriter};
use rprof_launch::Launcher;
use rprof_perfdata::{FeatureSections, RecordWriter};
use rprof_recorder::{
    Embedding, Output, RecentRecords, RecentWriter, RecordError, RecordOptions, Recording,
};

use crate::cli::{TargetArgs, TopArgs};
use crate::input::downloads::Downloads;
use crate::recording::runtimes::Runtimes;
use crate::recording::session::{failed_start, session};
use crate::wording::messages::{Failure, say};
use crate::wording::remedies;

/// Maximum times between two ring buffer reads (with deep stacks, and otherwise), and between two
/// writer runs. Longer than in recordings: on an idle system, wakeups cost more than samples.
const DEEP: Duration = Duration::from_millis(10);
const IDLE: Duration = Duration::from_millis(50);
const PAUSE: Duration = Duration::from_millis(25);

/// Maximum size of the records kept for a file of the window, in bytes.
const MAX_BYTES: usize = 64 << 20;

pub(super) struct Live {
    pub(super) recording: Recording,
    pub(super) analysis: LiveAnalysis,
    /// Records of the window, if they can be written.
    pub(super) recent: Option<RecentRecords>,
    /// Short description of the target.
    pub(super) title: String,
    /// Held while a record is written to both, so that readers see both or neither.
    gate: Arc<Mutex<()>>,
    _downloads: Option<Downloads>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandOutput {
    /// Prints to standard error.
    Stderr,
    Nowhere,
}

impl Live {
    /// Starts recording. `waker` receives a byte when the writer thread has news.
    pub(super) fn begin(
        args: &TopArgs,
        output: CommandOutput,
        waker: &UnixStream,
    ) -> Result<Live, Failure> {
        let downloads = args.symbols.downloads(true)?;
        let symbols = &args.symbols;
        let symbolizer = symbols.symbolizer_builder(false, !symbols.no_located, downloads.as_ref());
        // Disambiguation needs all addresses at once. Programs may be rebuilt while this runs for
        // hours.
        let symbolizer = symbolizer.tells_apart(false).releases_files(true).build();
        let analysis = LiveAnalysis::new(symbolizer);
        if !symbols.no_by_language {
            analysis.fold_languages();
        }
        // Events without such a setting.
        analysis.skip_idle();
        let keeps_records = output == CommandOutput::Nowhere;
        let recent = keeps_records
            .then(|| RecentRecords::new(MAX_BYTES, analysis.interpreted_names().clone()));
        let gate = Arc::default();
        let start = |target: &TargetArgs| -> Result<Recording, Failure> {
            let writer = (analysis.clone(), recent.clone(), Arc::clone(&gate));
            let options = options(args, writer, waker)?;
            start(args, target, output, options)
        };
        let is_named = args.target.is_given() || !args.command.is_empty();
        let (recording, target) = match is_named {
            true => (start(&args.target)?, args.target.clone()),
            false => {
                let system = TargetArgs {
                    all_cpus: true,
                    ..TargetArgs::default()
                };
                match start(&system) {
                    Ok(recording) => (recording, system),
                    Err(failure) => {
                        let own = own_processes();
                        let Ok(recording) = start(&own) else {
                            return Err(failure);
                        };
                        (recording, own)
                    }
                }
            }
        };
        if !args.sampling.quiet && output == CommandOutput::Stderr {
            let steps = recording.degradations();
            for step in remedies::worth_saying(steps, args.sampling.verbose) {
                say(remedies::of_step(step));
            }
        }
        let title = title(args, &target, is_named);
        Ok(Live {
            recording,
            analysis,
            recent,
            title,
            gate,
            _downloads: downloads,
        })
    }

    pub(super) fn at_once<T>(
        &self,
        look: impl FnOnce(&LiveAnalysis, Option<&RecentRecords>) -> T,
    ) -> T {
        let _closed = lock(&self.gate);
        look(&self.analysis, self.recent.as_ref())
    }

    /// Starts another interval of the window, which keeps the last `most`.
    pub(super) fn next_interval(&self, most: usize) {
        let _closed = lock(&self.gate);
        self.analysis.next_interval(most);
        if let Some(recent) = &self.recent {
            recent.next_interval(most);
        }
    }
}

/// Returns the processes of this user, for users without permission for the whole system.
fn own_processes() -> TargetArgs {
    TargetArgs {
        user: Some(rustix::process::getuid().as_raw().to_string()),
        ..TargetArgs::default()
    }
}

fn options(
    args: &TopArgs,
    (analysis, recent, gate): (LiveAnalysis, Option<RecentRecords>, Arc<Mutex<()>>),
    waker: &UnixStream,
) -> Result<RecordOptions, Failure> {
    let names = analysis.interpreted_names().clone();
    let output = Output::writer(move |events, features| {
        Ok(Writer {
            live: analysis.writer(events, features),
            recent: recent.map(|recent| recent.writer(events, features)),
            gate,
        })
    });
    Ok(RecordOptions {
        unwind: args.sampling.unwinds(),
        embedding: Embedding::Nothing,
        names,
        pause: Some(PAUSE),
        notify: Some(waker.try_clone().context("cannot make a socket")?),
        ..RecordOptions::new(output, crate::commands::tui::words())
    })
}

fn start(
    args: &TopArgs,
    target: &TargetArgs,
    output: CommandOutput,
    options: RecordOptions,
) -> Result<Recording, Failure> {
    let builder = session(&args.sampling, args.sampling.wants_stacks())?;
    // As in perf top, the kernel writes no samples of idle CPUs.
    let builder = target.apply(builder.exclude_self(true).exclude_idle(true))?;
    let builder = builder.configure(|options| {
        options.drain.idle = IDLE;
        options.drain.fast = DEEP;
    });
    let started = match args.command.split_first() {
        None => Recording::attach(builder, options),
        Some((program, words)) => {
            let runtimes = (args.sampling.runtimes).then(|| Runtimes::new(target, true));
            let mut launcher = Launcher::new(program).args(words);
            for (variable, value) in runtimes.iter().flat_map(Runtimes::variables) {
                launcher = launcher.env(variable, value);
            }
            let launcher = match output {
                CommandOutput::Stderr => launcher.stdout_to_stderr(true),
                CommandOutput::Nowhere => launcher.silent(true),
            };
            Recording::start(builder, &launcher, options)
        }
    };
    started.map_err(|error: RecordError| failed_start(error))
}

fn title(args: &TopArgs, target: &TargetArgs, is_named: bool) -> String {
    let words = |list: &[u32]| {
        let list: Vec<String> = list.iter().map(u32::to_string).collect();
        list.join(",")
    };
    if let Some(program) = args.command.first() {
        return program.to_string_lossy().into_owned();
    }
    match target {
        target if !target.processes.is_empty() => format!("pid {}", words(&target.process_ids())),
        target if !target.threads.is_empty() => format!("tid {}", words(&target.threads)),
        target if !target.cgroups.is_empty() => format!("cgroup {}", target.cgroups.join(",")),
        TargetArgs {
            user: Some(user), ..
        } => match is_named {
            true => format!("user {user}"),
            false => "own processes (no permission for all)".to_owned(),
        },
        TargetArgs {
            cpus: Some(list), ..
        } => format!("CPU {}", words(&list.0)),
        _ => "whole system".to_owned(),
    }
}

/// Writer to the analysis and to the window's records.
struct Writer {
    live: LiveWriter,
    recent: Option<RecentWriter>,
    gate: Arc<Mutex<()>>,
}

/// Locks even after a panic of another holder: the mutex guards no data.
fn lock(gate: &Mutex<()>) -> MutexGuard<'_, ()> {
    gate.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RecordWriter for Writer {
    fn write_records(&mut self, records: &[u8]) -> io::Result<()> {
        let _closed = lock(&self.gate);
        if let Some(recent) = &mut self.recent {
            recent.write_records(records)?;
        }
        self.live.write_records(records)
    }

    fn bytes_written(&self) -> u64 {
        self.live.bytes_written()
    }

    fn finish(self, features: FeatureSections) -> io::Result<u64> {
        self.live.finish(features)
    }
}
