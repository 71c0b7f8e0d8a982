//! Sends the files that a recorder finishes, in the order of their times.
//!
//! If the server fails temporarily, rprof retries. Unsent files stay on disk, up to
//! `--switch-max-files`; deleted and refused ones are counted as lost.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use rprof_profile::unit::counted;
use rprof_push::follow::{Journal, finished, folder_of};
use rprof_push::{Delivery, Policy};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::Pusher;
use super::source::Source;
use crate::Outcome;
use crate::terminal::progress::WorkLine;
use crate::wording::messages::{Failure, say};

/// Interval of checks for new files.
const LOOK: Duration = Duration::from_millis(250);

pub(super) fn run(pusher: &Pusher<'_>, recording: &Path) -> Outcome {
    let state = pusher.args.state.clone().unwrap_or_else(|| {
        let mut name = recording.as_os_str().to_owned();
        name.push(".pushed");
        PathBuf::from(name)
    });
    let usage = |error| Failure::with_status(2, anyhow::Error::new(error));
    let journal = Journal::open(&state, pusher.client.address()).map_err(usage)?;
    let mut follower = Follower {
        pusher,
        recording,
        journal,
        stop: stop_flag()?,
        waiting: BTreeSet::new(),
        sums: Sums::default(),
    };
    follower.look()?;
    if !pusher.args.input.quiet {
        let count = counted(follower.waiting.len() as u64, "file");
        say(format_args!(
            "following {}: {count} to send; Ctrl-C stops",
            recording.display()
        ));
    }
    let result = follower.follow();
    let lost = follower.tell_end();
    result?;
    match lost {
        0 => Ok(0),
        _ => Err(anyhow::anyhow!("the push is incomplete").into()),
    }
}

/// Returns a flag that SIGINT, SIGTERM and SIGHUP set; a second signal ends the process.
fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // As nohup(1) needs it. A shell without job control ignores SIGINT for `&`.
        if signal != SIGHUP || !rprof_launch::signal_is_ignored(signal) {
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&stop))?;
            signal_hook::flag::register(signal, Arc::clone(&stop))?;
        }
    }
    Ok(stop)
}

#[derive(Default)]
struct Sums {
    files: u64,
    samples: u64,
    requests: u64,
    retries: u64,
    /// Samples refused by the server.
    refused: u64,
    unreadable: u64,
    /// Files deleted before they were sent.
    removed: u64,
}

struct Follower<'a> {
    pusher: &'a Pusher<'a>,
    recording: &'a Path,
    journal: Journal,
    stop: Arc<AtomicBool>,
    /// Finished, unsent files.
    waiting: BTreeSet<OsString>,
    sums: Sums,
}

impl Follower<'_> {
    fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn follow(&mut self) -> Result<(), Failure> {
        while !self.stops() {
            self.look()?;
            match self.waiting.first().cloned() {
                Some(name) => {
                    if !self.send(&name)? {
                        break;
                    }
                    self.waiting.remove(&name);
                    self.journal.set(&name)?;
                }
                None => std::thread::sleep(LOOK),
            }
        }
        Ok(())
    }

    /// Updates the list of finished files, and counts deleted ones.
    fn look(&mut self) -> Result<(), Failure> {
        self.look_past(None)
    }

    /// Like [`look`](Self::look), but a file in memory does not count as deleted.
    fn look_past(&mut self, in_memory: Option<&OsString>) -> Result<(), Failure> {
        let cannot = || format!("cannot read {}", folder_of(self.recording).display());
        let there: BTreeSet<OsString> = finished(self.recording)
            .with_context(cannot)?
            .into_iter()
            .filter(|name| !self.journal.has(name))
            .collect();
        let gone: Vec<OsString> = self.waiting.difference(&there).cloned().collect();
        for name in gone {
            if Some(&name) != in_memory {
                self.removed(&name);
            }
        }
        self.waiting.extend(there);
        Ok(())
    }

    fn removed(&mut self, name: &OsString) {
        self.waiting.remove(name);
        self.sums.removed += 1;
        say(format_args!(
            "{} was removed before it was sent",
            name.display()
        ));
    }

    /// Sends a file. Returns false if a signal stopped it.
    fn send(&mut self, name: &OsString) -> Result<bool, Failure> {
        let pusher = self.pusher;
        let path = folder_of(self.recording).join(name);
        let source = match Source::read(pusher.args, &pusher.export, &path) {
            Ok(source) => source,
            Err(_) if !path.exists() => {
                self.removed(name);
                return Ok(true);
            }
            Err(failure) => {
                self.sums.unreadable += 1;
                failure.report();
                return Ok(true);
            }
        };
        let mut delivery = Delivery::new(pusher.parts(&source), source.labels.clone());
        // Files come and go during the wait.
        let once = Policy {
            total: Duration::ZERO,
            ..pusher.policy
        };
        let patient = Policy {
            total: Duration::MAX,
            ..pusher.policy
        };
        let line = WorkLine::new(pusher.args.input.quiet);
        line.say(&format!("sending {}", path.display()));
        for tried in 1.. {
            let report = delivery.run(&pusher.client, &once, &self.stop, &|_| {})?;
            let Some(unsent) = report.unsent.clone() else {
                let report = report.clone();
                self.sums.files += 1;
                self.sums.samples += report.samples;
                self.sums.requests += report.requests;
                self.sums.refused += report.lost;
                for (why, count) in &report.losses {
                    let (path, lost) = (path.display(), counted(*count, "sample"));
                    say(format_args!("{path}: {lost} lost: {why}"));
                }
                return Ok(true);
            };
            if unsent.is_misconfigured {
                let message = format!("cannot send {}: {}", path.display(), unsent.why);
                return Err(anyhow::anyhow!(message).into());
            }
            let wait = patient.wait(tried, Duration::ZERO, unsent.after);
            let wait = wait.unwrap_or(patient.longest);
            if tried == 1 && !pusher.args.input.quiet {
                say(format_args!(
                    "{} is not sent yet, retrying: {}",
                    path.display(),
                    unsent.why
                ));
            }
            if !self.wait(wait, name)? {
                return Ok(false);
            }
            self.sums.retries += 1;
        }
        Ok(true)
    }

    /// Waits, and updates the list of files meanwhile. Returns false after a signal.
    fn wait(&mut self, time: Duration, sending: &OsString) -> Result<bool, Failure> {
        let begin = Instant::now();
        while !self.stops() {
            match time.checked_sub(begin.elapsed()) {
                None | Some(Duration::ZERO) => return Ok(true),
                Some(left) => std::thread::sleep(left.min(LOOK)),
            }
            self.look_past(Some(sending))?;
        }
        Ok(false)
    }

    /// Prints the summary. Returns the number of losses.
    fn tell_end(&mut self) -> u64 {
        // An unreadable folder must not hide the summary.
        self.look().ok();
        let sums = &self.sums;
        let lost = sums.refused + sums.unreadable + sums.removed;
        if self.pusher.args.input.quiet && lost == 0 {
            return lost;
        }
        say(format_args!(
            "sent {}: {} in {}, {}; {} lost, {} removed unsent, {} unreadable; {} left for the \
             next run",
            counted(sums.files, "file"),
            counted(sums.samples, "sample"),
            counted(sums.requests, "request"),
            counted(sums.retries, "retry"),
            counted(sums.refused, "sample"),
            counted(sums.removed, "file"),
            sums.unreadable,
            counted(self.waiting.len() as u64, "file"),
        ));
        lost
    }
}
