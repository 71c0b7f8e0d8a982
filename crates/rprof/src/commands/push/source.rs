//! [`Source`]: a recording prepared for sending: profile, labels, time.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rprof_export::{CleanNames, Content, ExportOptions};
use rprof_profile::{Keys, Profile, WeightUnit};
use rprof_push::{Label, labels};

use crate::cli::PushArgs;
use crate::input::recordings::{Callee, read_even_empty, read_merged, warn};
use crate::terminal::progress::WorkLine;
use crate::wording::messages::{Failure, say};

use super::words;

pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) profile: Profile,
    pub(super) labels: Vec<Label>,
}

impl Source {
    pub(super) fn read(
        args: &PushArgs,
        export: &ExportOptions,
        path: &Path,
    ) -> Result<Source, Failure> {
        let input = &args.input;
        let options = input.options_for(Content::Addresses, export);
        let line = WorkLine::new(input.quiet);
        line.say(&format!("reading {}", path.display()));
        let paths = [path.to_owned()];
        let keys = &Keys::FUNCTIONS;
        // Files of an idle program may be empty.
        let read = match args.follow {
            Some(_) => read_even_empty,
            None => read_merged,
        };
        let merged = read(
            &paths,
            &input.filter,
            &options,
            keys,
            Callee::Kept,
            input.quiet,
        )?;
        line.clear();
        let mut profile = merged.profile;
        warn(&profile, input.quiet);
        if profile.wall_time.is_none() {
            profile.wall_time = time_of_file(path, &profile);
        }
        tell_if_old(args, path, &profile);
        let target = args.to.target();
        let event = profile.main_event();
        let kind = event.map(|event| {
            let is_time = profile.events[event].unit == WeightUnit::Nanoseconds;
            labels::kind_of(&CleanNames::new(&profile).event(event), is_time)
        });
        let kind = kind.unwrap_or_default();
        let labels = labels::complete(
            target,
            &args.labels.label,
            &program(&profile),
            &kind,
            &target.limits(),
        );
        Ok(Source {
            path: path.to_owned(),
            labels: labels.map_err(|error| Failure::with_status(2, error))?,
            profile,
        })
    }
}

/// Returns the name of the process or thread with the most weight.
fn program(profile: &Profile) -> String {
    let mut weights = vec![0u64; profile.comms.len()];
    for entry in &profile.aggregated {
        let thread = profile.thread(entry.thread);
        let comm = thread.process_comm.unwrap_or(thread.comm);
        if let Some(weight) = weights.get_mut(comm as usize) {
            *weight = weight.saturating_add(entry.weight);
        }
    }
    let most = (0u32..)
        .zip(&weights)
        .filter(|(_, weight)| **weight > 0)
        .max_by_key(|(comm, weight)| (**weight, std::cmp::Reverse(*comm)));
    most.map(|(comm, _)| CleanNames::new(profile).comm(comm).into_owned())
        .unwrap_or_default()
}

/// Estimates the time of a profile: it ends at the file's last write, or now.
fn time_of_file(path: &Path, profile: &Profile) -> Option<(u64, u64)> {
    let written = std::fs::metadata(path).and_then(|meta| meta.modified());
    let end = written.unwrap_or_else(|_| SystemTime::now());
    let end = u64::try_from(end.duration_since(UNIX_EPOCH).ok()?.as_nanos()).ok()?;
    let took = profile
        .time
        .map_or(0, |(first, last)| last.saturating_sub(first));
    Some((end.saturating_sub(took), end))
}

/// Warns if a profile is older than the server accepts by default.
fn tell_if_old(args: &PushArgs, path: &Path, profile: &Profile) {
    let target = args.to.target();
    let (Some(oldest), Some((_, last))) = (target.oldest(), profile.wall_time) else {
        return;
    };
    let age = UNIX_EPOCH
        .checked_add(Duration::from_nanos(last))
        .and_then(|last| SystemTime::now().duration_since(last).ok());
    if let Some(age) = age.filter(|age| age.as_secs() > oldest)
        && !args.input.quiet
    {
        say(format_args!(
            "{} ended {} ago: by default, {target} accepts only profiles of the last {}",
            path.display(),
            words::seconds(age),
            words::seconds(Duration::from_secs(oldest)),
        ));
    }
}
