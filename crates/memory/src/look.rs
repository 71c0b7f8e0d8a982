//! [`Look`]: the resident pages of a process at one moment.

use std::ops::Range;

use rustc_hash::FxHashSet;

/// Resident pages of a process, read between two moments. The ledger takes it as of the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Process.
    pub pid: i32,
    /// Mappings in order of address, without overlaps.
    pub regions: Vec<Region>,
    /// Page numbers of faults during the look. It may contain these pages, but they were absent when
    /// it began.
    pub later: FxHashSet<u64>,
    /// Page numbers of the last fault of each thread, which perhaps had not ended when the look began.
    /// These pages keep their owners.
    pub unfinished: FxHashSet<u64>,
    /// Ranges of page numbers under release, which perhaps had not ended when the look began. It may
    /// contain these pages, but they have no owner any more.
    pub releasing: Vec<Range<u64>>,
    /// Pages that the process gave back or moved during the look, as ranges of page numbers. The look
    /// may lack them. They were resident when it began, so they keep their owners until the release
    /// follows.
    pub released: Vec<Range<u64>>,
}

/// Mapping with its resident pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Addresses of the mapping.
    pub addresses: Range<u64>,
    /// Name in `/proc/PID/maps`; empty for anonymous memory.
    pub name: Vec<u8>,
    /// Resident pages as ranges of page numbers (address divided by the page size), in order and
    /// within `addresses`. `None` if they are unknown: pages keep their owners.
    pub present: Option<Vec<Range<u64>>>,
    /// Size of an aligned group of pages. One fault may make several pages of a group resident: in
    /// files and with huge pages. 1 if each page has a fault of its own.
    pub window: u64,
    /// True for a file that the process cannot write to.
    pub is_read_only_file: bool,
}

impl Region {
    /// Creates a mapping without resident pages, where each page has its own fault.
    pub fn new(addresses: Range<u64>, name: &[u8]) -> Region {
        Region {
            addresses,
            name: name.to_vec(),
            present: Some(Vec::new()),
            window: 1,
            is_read_only_file: false,
        }
    }

    /// Sets the resident pages, as ranges of page numbers.
    #[must_use]
    pub fn with_present(self, present: Vec<Range<u64>>) -> Region {
        Region {
            present: Some(present),
            ..self
        }
    }

    /// Sets the number of pages that become resident at one fault.
    #[must_use]
    pub fn with_window(self, window: u64) -> Region {
        Region { window, ..self }
    }
}
