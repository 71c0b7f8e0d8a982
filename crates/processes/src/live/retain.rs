//! Parts of mappings and names that a live map keeps.

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;

use rprof_records::{Comm, Mapped, Misc, Mmap, Mmap2, MmapIdentity, Record};

use super::{LiveMap, LiveMapping};
use crate::ids::{ImageId, Pid};
use crate::image::{Image, ImageIdentity, ImageTable, Side};

/// Choice of what a [`LiveMap`] keeps beside addresses and ids.
pub trait Retain: Debug + Default {
    /// Kept of a mapping. Cloned where a mapping is cut in two, and where the two sides of a fork
    /// part.
    type Backing: Clone + Debug;
    /// Kept of a thread's name. Cloned by forks.
    type Name: Clone + Debug;

    /// Returns what is kept of a mapping.
    fn backing(&mut self, mapped: &Mapped<'_>) -> Self::Backing;

    /// Returns what is kept of a name.
    fn name(&mut self, name: &[u8]) -> Self::Name;
}

/// Keeps the image of each mapping, and no names. Images are interned, and kept to the end.
#[derive(Debug, Default)]
pub struct Images(ImageTable);

impl Images {
    pub(super) fn as_slice(&self) -> &[Image] {
        self.0.as_slice()
    }
}

impl Retain for Images {
    type Backing = ImageId;
    type Name = ();

    fn backing(&mut self, mapped: &Mapped<'_>) -> ImageId {
        let identity = mapped.identity.map_or(ImageIdentity::PathOnly, Into::into);
        self.0.intern(Side::User, &mapped.path, identity)
    }

    fn name(&mut self, _: &[u8]) {}
}

/// Keeps names, and of each mapping all that its record said, so that records can be made of them
/// again. What nobody has mapped any more is forgotten.
#[derive(Debug, Default)]
pub struct Records;

/// The contents of a mapping's record, but for its addresses.
#[derive(Debug)]
pub struct MappingRecord {
    misc: Misc,
    tid: i32,
    identity: Option<MmapIdentity>,
    prot_and_flags: Option<(u32, u32)>,
    path: Box<[u8]>,
}

impl Retain for Records {
    type Backing = Arc<MappingRecord>;
    type Name = Arc<[u8]>;

    fn backing(&mut self, mapped: &Mapped<'_>) -> Arc<MappingRecord> {
        Arc::new(MappingRecord {
            misc: mapped.misc,
            tid: mapped.tid,
            identity: mapped.identity,
            prot_and_flags: mapped.prot_and_flags,
            path: (*mapped.path).into(),
        })
    }

    fn name(&mut self, name: &[u8]) -> Arc<[u8]> {
        name.into()
    }
}

impl LiveMap<Records> {
    /// Makes records of a process as it is now, with the misc bits that belong to each: a COMM for
    /// each thread whose name is known, and an MMAP2 (or MMAP, where it was one) for each mapping.
    pub fn records(&self, pid: Pid) -> impl Iterator<Item = (Record<'_>, Misc)> + '_ {
        let names = self.threads(pid).filter_map(move |(tid, name)| {
            let (pid, tid) = (pid.0, tid.0);
            let name = Cow::Borrowed(&name?[..]);
            Some((Record::Comm(Comm { pid, tid, name }), Misc(0)))
        });
        let mappings = self.mappings(pid).iter();
        names.chain(mappings.map(move |mapping| mapping_record(pid, mapping)))
    }
}

fn mapping_record(pid: Pid, mapping: &LiveMapping<Arc<MappingRecord>>) -> (Record<'_>, Misc) {
    let said = &mapping.backing;
    let (pid, tid, path) = (pid.0, said.tid, Cow::Borrowed(&said.path[..]));
    let (start, len) = (mapping.start, mapping.end - mapping.start);
    let pgoff = mapping.file_offset;
    let record = match (said.identity, said.prot_and_flags) {
        (Some(identity), Some((prot, flags))) => Record::Mmap2(Mmap2 {
            pid,
            tid,
            start,
            len,
            pgoff,
            identity,
            prot,
            flags,
            path,
        }),
        _ => Record::Mmap(Mmap {
            pid,
            tid,
            start,
            len,
            pgoff,
            path,
        }),
    };
    (record, said.misc)
}
