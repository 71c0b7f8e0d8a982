//! Lookup of records and addresses.

use rprof_processes::{Pid, SpaceId};
use rprof_profile::is_kernel_address;
use rprof_records::{CpuMode, RawBytes, RawRecord, Sample};

use crate::groups::{RecordPosition, SampleRow};
use crate::location::{Context, Location};
use crate::sideband_pass::Index;

/// Returns the record at a position, if the index keeps blocks.
pub(super) fn record_at<'s>(
    index: &'s Index<'_>,
    position: RecordPosition,
) -> Option<RawRecord<'s>> {
    let block = index.kept_blocks()?.get(position.block())?;
    let bytes = block.bytes.get(position.offset()..)?;
    RawRecord::parse(RawBytes::from(bytes), index.data.endian())
}

/// Returns the record and sample of a row, if the index keeps blocks.
pub(super) fn sample_of<'s>(
    index: &'s Index<'_>,
    row: &SampleRow,
) -> Option<(RawRecord<'s>, Sample<'s>)> {
    let record = record_at(index, row.position)?;
    let layout = index.data.events().layout_of(&record)?;
    let sample = Sample::parse(record.body, layout).ok()?;
    Some((record, sample))
}

/// Returns the time in nanoseconds for lookups: the end of the recording for a sample without a
/// time.
pub(super) fn lookup_time(sample: &Sample<'_>) -> u64 {
    sample.time().unwrap_or(u64::MAX)
}

/// Locates an address outside callchains. The address alone decides between kernel and user,
/// because kernel code accesses user memory.
pub(super) fn locate(index: &Index<'_>, pid: i32, time: u64, address: u64) -> Location {
    let timeline = &index.timeline;
    let space = timeline.space(Pid(pid), time).unwrap_or(SpaceId(u32::MAX));
    let context = Context {
        timeline,
        user: timeline.view(space, time),
        kernel: timeline.view(SpaceId::KERNEL, time),
        pid,
        time,
        runtimes: &index.runtimes,
    };
    let mode = match is_kernel_address(address) {
        true => CpuMode::Kernel,
        false => CpuMode::User,
    };
    context.locate(address, mode, false)
}
