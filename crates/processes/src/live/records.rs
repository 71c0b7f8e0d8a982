//! Converts the present state to records.

use std::borrow::Cow;
use std::sync::Arc;

use rprof_records::{Comm, Misc, Mmap, Mmap2, Record};

use super::LiveMap;
use super::mappings::LiveMapping;
use super::retain::{MappingRecord, Records};
use crate::ids::Pid;

impl LiveMap<Records> {
    /// Creates the records of a process's present state, with misc bits: a COMM per named thread,
    /// and an MMAP2 (or MMAP, if recorded so) per mapping.
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
