//! Profiles of other tools as input, detected by content.

use std::io::BufRead;
use std::path::{Path, PathBuf};

use rprof_analysis::Options;
use rprof_import::{Detected, Format, ImportOptions, Opened, ReadingBudget};
use rprof_profile::waits::WAITS;
use rprof_profile::{Keys, Profile};

use crate::cli;
use crate::wording::messages::Failure;
use crate::wording::remedies::FOR_MISSING_WAITS;

/// Unread profile of another tool.
pub(crate) struct ForeignProfile {
    path: PathBuf,
    kind: Kind,
    text: Box<dyn BufRead>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Folded,
    Imported(Format),
}

impl ForeignProfile {
    /// Takes the input if it is such a profile, or returns it.
    pub(crate) fn of_opened(opened: Opened, path: &Path) -> Result<ForeignProfile, Opened> {
        let kind = match opened.detected() {
            Detected::Profile(Format::Folded) => Kind::Folded,
            Detected::Profile(format) => Kind::Imported(*format),
            _ => return Err(opened),
        };
        Ok(ForeignProfile {
            path: path.to_owned(),
            kind,
            text: Box::new(opened.into_stream()),
        })
    }

    /// Reads the samples that pass the filter, one by one if they have times and the options need
    /// them. Inputs share the budget.
    pub(crate) fn profile(
        self,
        keys: &Keys,
        options: &Options,
        budget: &ReadingBudget,
    ) -> Result<Profile, Failure> {
        let filter = &options.filter;
        let path = self.path.display().to_string();
        if let Some(flag) = meaningless(self.kind, options, keys) {
            let message = match self.kind {
                Kind::Folded => format!(
                    "{flag} does not work with {path}: folded stacks hold only names and counts; \
                     leave it out, or read the original recording"
                ),
                Kind::Imported(format) => format!(
                    "{flag} does not work with {path}: {} lacks the data for it; leave it out, or \
                     read the original recording",
                    format.title()
                ),
            };
            return Err(Failure::with_status(2, anyhow::anyhow!(message)));
        }
        let format = match self.kind {
            Kind::Folded => Format::Folded,
            Kind::Imported(format) => format,
        };
        let read = ImportOptions {
            filter: filter.clone(),
            by_thread: options.columns || options.streams || keys.pid || keys.tid,
            columns: options.columns,
            streams: options.streams,
            budget: budget.clone(),
        };
        let mut profile = rprof_import::read(format, self.text, &self.path, &read)?;
        profile.name_waits();
        if options.waits.alone && !profile.retain_waits() {
            let message = format!(
                "{path} has no waits: no event {WAITS}, and no stack that ends in a reason such as [futex]; {FOR_MISSING_WAITS}"
            );
            return Err(anyhow::anyhow!(message).into());
        }
        if !filter.reasons.is_empty() {
            profile.retain_reasons(&filter.reasons);
        }
        Ok(profile)
    }

    pub(crate) fn is_no_recording(&self) -> Failure {
        let path = self.path.display();
        let what = match self.kind {
            Kind::Folded => "has folded stacks, without single samples or a header".to_owned(),
            Kind::Imported(format) => format!(
                "is {}, without the header and addresses of a recording",
                format.title()
            ),
        };
        let readers = cli::readers_of_profiles();
        let readers: Vec<String> = readers
            .iter()
            .map(|name| format!("`rprof {name}`"))
            .collect();
        let readers = match readers.split_last() {
            Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
            None => String::new(),
        };
        anyhow::anyhow!("{path} {what}: this command needs a recording; {readers} read {path}")
            .into()
    }
}

/// Returns the first flag that needs data which the format lacks.
fn meaningless(kind: Kind, options: &Options, keys: &Keys) -> Option<&'static str> {
    let filter = &options.filter;
    let never = [
        (keys.line, "--sort srcline"),
        (options.latency, "--latency"),
        (!filter.parallelism.is_empty(), "--parallelism"),
        (!filter.traces.is_empty(), "--trace"),
        (filter.slower_than.is_some(), "--slower-than"),
        (options.by_request.is_some(), "--by"),
    ];
    let without_times = [
        (!filter.cpus.is_empty(), "--cpu"),
        (filter.time.is_some(), "--time"),
    ];
    let folded = [
        (!filter.comms.is_empty(), "--comm"),
        (!filter.pids.is_empty(), "--pid"),
        (!filter.tids.is_empty(), "--tid"),
        (!filter.objects.is_empty(), "--dso"),
        (!filter.languages.is_empty(), "--language"),
        (!filter.events.is_empty(), "--event"),
        (keys.comm, "--sort comm"),
        (keys.pid, "--sort pid"),
        (keys.tid, "--sort tid"),
        (keys.object && !keys.symbol, "--sort dso"),
    ];
    let without_times = (kind != Kind::Imported(Format::PerfScript)).then_some(without_times);
    let folded = (kind == Kind::Folded).then_some(folded);
    let all = never.into_iter().chain(without_times.into_iter().flatten());
    let mut all = all.chain(folded.into_iter().flatten());
    let given = all.find(|(is_given, _)| *is_given);
    given.map(|(_, flag)| flag)
}
