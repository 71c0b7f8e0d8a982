//! Mapping record and names of interpreted functions, as of JIT code. Mapping record of copied text.

use std::borrow::Cow;
use std::io;
use std::ops::Range;

use rprof_jit::{INTERPRETED, INTERPRETED_PATH, InterpretedNames};
use rprof_perfdata::features::embedded::compress;
use rprof_perfdata::{EmbeddedFile, EmbeddedKind};
use rprof_processes::{ImageIdentity, Pid};
use rprof_records::{Misc, Mmap2, PROT_EXEC, Record, SampleId, SampleLayout};
use rprof_sampler::Stream;

use super::RotatingOutput;
use crate::pipeline::deferred::RecordSink;
use crate::pipeline::layouts::Layouts;
use crate::pipeline::merge::Released;
use crate::unwind::CopiedText;

/// Path of the embedded perf map, which is no file.
const PATH: &[u8] = b"[interpreted functions]";

/// Returns the record that maps [`INTERPRETED`] in a process from a time on.
pub(crate) fn mapping(pid: Pid, time: u64, layout: &SampleLayout) -> io::Result<Vec<u8>> {
    let (range, path) = (INTERPRETED, Cow::Borrowed(INTERPRETED_PATH));
    encode(
        mapping_of(pid, range, 0, ImageIdentity::PathOnly, path),
        time,
        layout,
    )
}

/// Returns the record that maps the original of copied text at the copy from a time on.
pub(crate) fn copy(copy: &CopiedText, time: u64, layout: &SampleLayout) -> io::Result<Vec<u8>> {
    let (range, path) = (copy.range.clone(), Cow::Borrowed(&*copy.image.path));
    let identity = copy.image.identity;
    encode(
        mapping_of(copy.pid, range, copy.file_offset, identity, path),
        time,
        layout,
    )
}

fn mapping_of(
    pid: Pid,
    range: Range<u64>,
    pgoff: u64,
    identity: ImageIdentity,
    path: Cow<'_, [u8]>,
) -> Mmap2<'_> {
    Mmap2 {
        pid: pid.0,
        tid: pid.0,
        start: range.start,
        len: range.end.saturating_sub(range.start),
        pgoff,
        identity: identity.into(),
        prot: PROT_EXEC,
        flags: 0,
        path,
    }
}

fn encode(mapping: Mmap2<'_>, time: u64, layout: &SampleLayout) -> io::Result<Vec<u8>> {
    let trailer = SampleId {
        pid: Some(mapping.pid),
        tid: Some(mapping.tid),
        time: Some(time),
        ..SampleId::default()
    };
    let mut out = Vec::new();
    let record = Record::Mmap2(mapping);
    (record.encode(Misc::USER, layout, &trailer, &mut out)).map_err(io::Error::other)?;
    Ok(out)
}

/// Writes the record that maps [`INTERPRETED`] in a process, at the time of a record of it.
pub(crate) fn announce(
    pid: i32,
    released: &Released<'_>,
    layouts: &Layouts,
    output: &mut RotatingOutput,
) -> io::Result<()> {
    let bytes = mapping(Pid(pid), released.time, &layouts.sideband)?;
    let mapping = Released {
        bytes: &bytes,
        stream: Stream::Sideband,
        ..*released
    };
    let event = layouts.process_event(&mapping);
    output.put(&mapping, event.as_ref())
}

pub(crate) fn perf_maps(names: &InterpretedNames) -> Vec<EmbeddedFile<'static>> {
    let map = |pid| {
        let text = names.perf_map(pid);
        Some(EmbeddedFile {
            kind: EmbeddedKind::PERF_MAP,
            pid,
            since: 0,
            device: (0, 0),
            inode: 0,
            build_id: Cow::Borrowed(&[]),
            path: Cow::Borrowed(PATH),
            len: text.len() as u64,
            compressed: Cow::Owned(compress(&text).ok()?),
        })
    };
    names.processes().into_iter().filter_map(map).collect()
}
