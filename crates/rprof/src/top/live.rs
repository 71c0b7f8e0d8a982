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
use crate::downloads::Downloads;
use crate::messages::{Failure, say};
use crate::record::{failed_start, session};
use crate::remedies;
use crate::runtimes::Runtimes;

/// Longest times between two reads of a ring, while stacks are deep and otherwise, and between two looks of the writer. A recording has
/// shorter ones; being looked at costs a quiet system more than its samples do, and a table every two seconds can wait.
const DEEP: Duration = Duration::from_millis(10);
const IDLE: Duration = Duration::from_millis(50);
const PAUSE: Duration = Duration::from_millis(25);

/// Most bytes of records that are kept for a file of the window.
const MOST_BYTES: usize = 64 << 20;

/// A recording under way, with its analysis.
pub(super) struct Live {
    pub(super) recording: Recording,
    pub(super) analysis: LiveAnalysis,
    /// Records of the window, where they may be written.
    pub(super) recent: Option<RecentRecords>,
    /// Target that is watched, in a few words.
    pub(super) title: String,
    /// Held while a record is written: to the analysis and to the records of the window, which are never asked in between.
    gate: Arc<Mutex<()>>,
    /// Debug files that are downloaded, where that is wanted.
    _downloads: Option<Downloads>,
}

/// Terminal that a command has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandOutput {
    /// Standard error for what it prints.
    Stderr,
    /// None at all.
    Nowhere,
}

impl Live {
    /// Begins to record. `waker` gets a byte when the writer thread has something to tell.
    pub(super) fn begin(
        args: &TopArgs,
        output: CommandOutput,
        waker: &UnixStream,
    ) -> Result<Live, Failure> {
        let downloads = args.symbols.downloads(true)?;
        let symbols = &args.symbols;
        let symbolizer = symbols.symbolizer_builder(false, !symbols.no_located, downloads.as_ref());
        // What is told apart depends on the addresses that are asked for at once; here they come one after another. Files are
        // released: this may run for hours beside whatever is built, removed and unmounted.
        let symbolizer = symbolizer.tells_apart(false).releases_files(true).build();
        let analysis = LiveAnalysis::new(symbolizer);
        // Where an event has no such setting, idle CPUs are passed over here.
        analysis.skip_idle();
        let keeps_records = output == CommandOutput::Nowhere;
        let recent = keeps_records.then(|| RecentRecords::new(MOST_BYTES));
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
            for step in recording.degradations() {
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

    /// Returns what `look` sees of one moment.
    pub(super) fn at_once<T>(
        &self,
        look: impl FnOnce(&LiveAnalysis, Option<&RecentRecords>) -> T,
    ) -> T {
        let _closed = lock(&self.gate);
        look(&self.analysis, self.recent.as_ref())
    }

    /// Begins another interval of the window, which has the last `most`.
    pub(super) fn next_interval(&self, most: usize) {
        let _closed = lock(&self.gate);
        self.analysis.next_interval(most);
        if let Some(recent) = &self.recent {
            recent.next_interval(most);
        }
    }
}

/// The processes of this user, for whom the kernel denies the whole system to.
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
        pause: Some(PAUSE),
        notify: Some(waker.try_clone().context("cannot make a socket")?),
        ..RecordOptions::new(output, crate::tui::words())
    })
}

fn start(
    args: &TopArgs,
    target: &TargetArgs,
    output: CommandOutput,
    options: RecordOptions,
) -> Result<Recording, Failure> {
    let builder = session(&args.sampling, args.sampling.wants_stacks())?;
    // Who looks at what takes time does not want to see the looking.
    // As by perf top, a CPU that has nothing to do is of no interest: the kernel need not even write its samples.
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

/// Writer to the analysis, and to the records of the window.
struct Writer {
    live: LiveWriter,
    recent: Option<RecentWriter>,
    gate: Arc<Mutex<()>>,
}

/// Locks, also where another holder panicked: nothing is behind it.
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
