//! Folded stacks as input, recognized by their first line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use rprof_perfdata::PerfData;
use rprof_profile::folded::{is_folded, read};
use rprof_profile::{Filter, Keys, Profile};

use crate::messages::Failure;

/// Folded stacks that are not read yet.
pub(crate) struct FoldedText {
    path: PathBuf,
    text: Box<dyn BufRead>,
}

/// A stream with what was read of it put back in front.
pub(crate) type Rewound<R> = io::Chain<Cursor<Vec<u8>>, R>;

impl FoldedText {
    /// Opens a file, if it has folded stacks. One that cannot be read has none: whoever opens it
    /// next tells why.
    pub(crate) fn open(path: &Path) -> Option<FoldedText> {
        if !std::fs::metadata(path).is_ok_and(|meta| meta.is_file()) {
            return None;
        }
        FoldedText::of_stream(File::open(path).ok()?, path).ok()
    }

    /// Takes a stream, if it has folded stacks, or gives it back.
    pub(crate) fn of_stream<R: Read + 'static>(
        mut stream: R,
        path: &Path,
    ) -> Result<FoldedText, Rewound<R>> {
        let mut start = Vec::new();
        let is_folded = start_of(&mut stream, &mut start);
        let stream = Cursor::new(start).chain(stream);
        match is_folded {
            true => Ok(FoldedText {
                path: path.to_owned(),
                text: Box::new(BufReader::new(stream)),
            }),
            false => Err(stream),
        }
    }

    /// Reads the stacks whose leaves the filter wants.
    pub(crate) fn profile(self, filter: &Filter, keys: &Keys) -> Result<Profile, Failure> {
        if let Some(flag) = meaningless(filter, keys) {
            let message = format!(
                "{} has folded stacks, of which only names and counts are known: {flag} means nothing \
                 there; leave it out, or read the recording that they were made from",
                self.path.display()
            );
            return Err(Failure::with_status(2, anyhow::anyhow!(message)));
        }
        Ok(read(self.text, &self.path, filter)?)
    }

    /// Tells that a recording was wanted.
    pub(crate) fn is_no_recording(&self) -> Failure {
        let path = self.path.display();
        let message = format!(
            "{path} has folded stacks, which have neither single samples nor a header; `rprof report`, \
             `rprof flamegraph` and `rprof collapse` read them, all else needs a recording"
        );
        anyhow::anyhow!(message).into()
    }
}

/// Reads as much of a stream as tells whether it has folded stacks.
fn start_of(stream: &mut impl Read, start: &mut Vec<u8>) -> bool {
    let mut most = 8;
    loop {
        let before = start.len();
        // What cannot be read now, the reader of the whole will not read either.
        let read = stream.by_ref().take(most).read_to_end(start);
        let at_end = read.is_err() || start.len() == before;
        if PerfData::is_magic(start) {
            return false;
        }
        if let Some(answer) = is_folded(start, at_end) {
            return answer;
        }
        most = start.len() as u64;
    }
}

/// Returns the flag that asks for what folded stacks do not have, if there is one.
fn meaningless(filter: &Filter, keys: &Keys) -> Option<&'static str> {
    let flags = [
        (!filter.comms.is_empty(), "--comm"),
        (!filter.pids.is_empty(), "--pid"),
        (!filter.tids.is_empty(), "--tid"),
        (!filter.cpus.is_empty(), "--cpu"),
        (filter.time.is_some(), "--time"),
        (!filter.objects.is_empty(), "--dso"),
        (!filter.events.is_empty(), "--event"),
        (keys.comm, "--sort comm"),
        (keys.pid, "--sort pid"),
        (keys.tid, "--sort tid"),
        (keys.line, "--sort srcline"),
        (keys.object && !keys.symbol, "--sort dso"),
    ];
    let given = flags.into_iter().find(|(is_given, _)| *is_given);
    given.map(|(_, flag)| flag)
}
