//! Synthesizes records of existing cgroups: the kernel records only new ones.

use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt;

use rprof_launch::Cgroup;
use rprof_records::{Misc, Record, SampleId, SampleLayout};

const LIMIT: usize = 20_000;

/// Appends a CGROUP record for each group of the `perf_event` controller's hierarchy, at time 0 as
/// perf does.
pub(crate) fn append(layout: &SampleLayout, out: &mut Vec<u8>) {
    for (path, id) in Cgroup::list(LIMIT) {
        let record = Record::Cgroup {
            id,
            path: Cow::Borrowed(path.as_os_str().as_bytes()),
        };
        // Skip a path that is too long for a record; samples then show the number.
        let trailer = SampleId::default();
        record.encode(Misc(0), layout, &trailer, out).ok();
    }
}
