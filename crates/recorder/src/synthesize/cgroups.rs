//! Records of the control groups that are there: the kernel tells of those that are made from then on.

use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt;

use rprof_launch::Cgroup;
use rprof_records::{Misc, Record, SampleId, SampleLayout};

/// Most groups that are told of.
const MOST: usize = 20_000;

/// Appends a CGROUP record for each group of the hierarchy of the `perf_event` controller, at time 0 as perf does.
pub(crate) fn append(layout: &SampleLayout, out: &mut Vec<u8>) {
    for (path, id) in Cgroup::list(MOST) {
        let record = Record::Cgroup {
            id,
            path: Cow::Borrowed(path.as_os_str().as_bytes()),
        };
        // A path that is too long for a record is left out; samples then show the number.
        let trailer = SampleId::default();
        record.encode(Misc(0), layout, &trailer, out).ok();
    }
}
