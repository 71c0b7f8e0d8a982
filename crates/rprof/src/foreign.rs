//! Profiles of others as input: folded stacks, pprof, text of `perf script`, and the Firefox Profiler's format, each
//! recognized by its beginning.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use rprof_analysis::Options;
use rprof_import::{Format, ImportOptions};
use rprof_perfdata::PerfData;
use rprof_profile::folded::{is_folded, read};
use rprof_profile::{Filter, Keys, Profile};

use crate::messages::Failure;

/// Profile of another tool's that is not read yet.
pub(crate) struct ForeignProfile {
    path: PathBuf,
    kind: Kind,
    text: Box<dyn BufRead>,
}

/// Kind of a profile of another tool's.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Folded,
    Imported(Format),
}

/// Bytes by which formats are told apart.
const START: usize = 8 << 10;

/// A stream with what was read of it put back in front.
pub(crate) type Rewound<R> = io::Chain<Cursor<Vec<u8>>, R>;

impl ForeignProfile {
    /// Opens a file, if it has such a profile. One that cannot be read has none: whoever opens it
    /// next tells why.
    pub(crate) fn open(path: &Path) -> Option<ForeignProfile> {
        if !std::fs::metadata(path).is_ok_and(|meta| meta.is_file()) {
            return None;
        }
        ForeignProfile::of_stream(File::open(path).ok()?, path).ok()
    }

    /// Takes a stream, if it has such a profile, or gives it back.
    pub(crate) fn of_stream<R: Read + 'static>(
        mut stream: R,
        path: &Path,
    ) -> Result<ForeignProfile, Rewound<R>> {
        let mut start = Vec::new();
        let kind = start_of(&mut stream, &mut start);
        let stream = Cursor::new(start).chain(stream);
        match kind {
            Some(kind) => Ok(ForeignProfile {
                path: path.to_owned(),
                kind,
                text: Box::new(BufReader::new(stream)),
            }),
            None => Err(stream),
        }
    }

    /// Reads the samples that the filter wants, one by one where they have times and the options ask for it.
    pub(crate) fn profile(self, keys: &Keys, options: &Options) -> Result<Profile, Failure> {
        let filter = &options.filter;
        let path = self.path.display();
        if let Some(flag) = meaningless(self.kind, filter, keys) {
            let message = match self.kind {
                Kind::Folded => format!(
                    "{path} has folded stacks, of which only names and counts are known: {flag} means nothing \
                     there; leave it out, or read the recording that they were made from"
                ),
                Kind::Imported(format) => format!(
                    "{path} is {}, which does not have what {flag} asks for; leave it out, or read the recording \
                     that it was made from",
                    format.title()
                ),
            };
            return Err(Failure::with_status(2, anyhow::anyhow!(message)));
        }
        match self.kind {
            Kind::Folded => Ok(read(self.text, &self.path, filter)?),
            Kind::Imported(format) => {
                let options = ImportOptions {
                    filter: filter.clone(),
                    by_thread: options.columns || options.streams || keys.pid || keys.tid,
                    columns: options.columns,
                    streams: options.streams,
                };
                Ok(rprof_import::read(format, self.text, &self.path, &options)?)
            }
        }
    }

    /// Tells that a recording was wanted.
    pub(crate) fn is_no_recording(&self) -> Failure {
        let path = self.path.display();
        let message = match self.kind {
            Kind::Folded => format!(
                "{path} has folded stacks, which have neither single samples nor a header; `rprof report`, \
                 `rprof flamegraph` and `rprof collapse` read them, all else needs a recording"
            ),
            Kind::Imported(format) => format!(
                "{path} is {}, which has no header of a recording; `rprof report`, `rprof flamegraph`, `rprof diff` and \
                 `rprof export` read it, all else needs a recording",
                format.title()
            ),
        };
        anyhow::anyhow!(message).into()
    }
}

/// Reads as much of a stream as tells what it has.
fn start_of(stream: &mut impl Read, start: &mut Vec<u8>) -> Option<Kind> {
    let mut most = 8;
    loop {
        let before = start.len();
        // What cannot be read now, the reader of the whole will not read either.
        let read = stream.by_ref().take(most).read_to_end(start);
        let at_end = read.is_err() || start.len() == before;
        if PerfData::is_magic(start) {
            return None;
        }
        match is_folded(start, at_end) {
            Some(true) => return Some(Kind::Folded),
            Some(false) if at_end || start.len() >= START => {
                return Format::detect(start).map(Kind::Imported);
            }
            _ => {}
        }
        most = start.len() as u64;
    }
}

/// Returns the flag that asks for what the format does not have, if there is one.
fn meaningless(kind: Kind, filter: &Filter, keys: &Keys) -> Option<&'static str> {
    let never = [(keys.line, "--sort srcline")];
    let without_times = [
        (!filter.cpus.is_empty(), "--cpu"),
        (filter.time.is_some(), "--time"),
    ];
    let folded = [
        (!filter.comms.is_empty(), "--comm"),
        (!filter.pids.is_empty(), "--pid"),
        (!filter.tids.is_empty(), "--tid"),
        (!filter.objects.is_empty(), "--dso"),
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
