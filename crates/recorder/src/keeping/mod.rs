//! Files that a report will need, and that will be gone by then.
//!
//! ```text
//!   sideband --> runtimes: perf maps and jitdumps, held open while their processes live
//!           +--> images: programs and libraries, held open; those that nobody finds by their
//!                path in the end are kept
//!                                 --> a section of the recording, which perf skips
//! ```
//!
//! What is in a process's own mount namespace goes with it, and so does a file that is deleted;
//! a perf map in `/tmp` may be that of the next process with the same number. So rprof takes
//! hold of them while it records. Everything is bounded, and what is left out is told.

mod images;
mod runtimes;

use std::borrow::Cow;

use rprof_perfdata::KeptFile;
use rprof_records::{Misc, Mmap2, Record, RecordType};

use images::Images;
use runtimes::Runtimes;

/// `PROT_EXEC`.
const PROT_EXEC: u32 = 4;

/// Most messages.
const MOST_TOLD: usize = 20;

/// Takes hold of files.
#[derive(Debug, Default)]
pub(crate) struct Keeper {
    runtimes: Runtimes,
    images: Images,
    told: Told,
}

/// What there is to say of it, each once.
#[derive(Debug, Default)]
struct Told(Vec<String>);

impl Told {
    fn tell(&mut self, what: String) {
        if self.0.len() < MOST_TOLD && !self.0.contains(&what) {
            self.0.push(what);
        }
    }
}

impl Keeper {
    /// Whether records of this kind tell it anything.
    pub(crate) fn wants(kind: RecordType) -> bool {
        matches!(kind, RecordType::MMAP2 | RecordType::COMM)
    }

    /// Takes in a record of the sideband.
    pub(crate) fn take(&mut self, record: &Record<'_>, misc: Misc, time: u64) {
        match record {
            Record::Mmap2(m) if m.pid > 0 && m.prot & PROT_EXEC != 0 => self.mapped(m, time),
            Record::Comm(comm) if misc.has(Misc::COMM_EXEC) => {
                self.runtimes.replaced(comm.pid, &mut self.told);
            }
            _ => {}
        }
    }

    fn mapped(&mut self, map: &Mmap2<'_>, time: u64) {
        if !self.runtimes.mapped(map, time, &mut self.told) {
            self.images.mapped(map);
        }
    }

    /// Looks again for what was not there before.
    pub(crate) fn round(&mut self) {
        self.runtimes.round(&mut self.told);
    }

    /// What is to be kept in the file that ends now.
    pub(crate) fn files(&mut self) -> Vec<KeptFile<'static>> {
        let mut files = self.runtimes.files(&mut self.told);
        files.extend(self.images.files(&mut self.told));
        files
    }

    /// What there is to say, in sentences.
    pub(crate) fn into_told(self) -> Vec<String> {
        self.told.0
    }
}

/// A path to show.
fn shown(path: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(path)
}
