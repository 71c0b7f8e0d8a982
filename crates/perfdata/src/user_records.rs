//! Records written by recorders, typed.
//!
//! Their numbers start at 64. They have no `sample_id` trailer. The reference is
//! `tools/lib/perf/include/perf/event.h` in the kernel's source tree. Unknown numbers stay bytes.

mod auxtrace;
mod cpus;
mod fields;
mod stat;
mod updates;

use rprof_records::{RawBytes, RawRecord, RecordType};

pub use auxtrace::{Auxtrace, AuxtraceError, AuxtraceInfo};
pub use cpus::{CpuSet, IdIndexEntry, WatchedThread};
pub use stat::{Stat, StatConfig};
pub use updates::EventUpdate;

use fields::Fields;

use crate::features::{BuildIdEntry, Feature, build_id_entry};
use crate::header::event_type;

/// Record of a recorder, not of the kernel.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum UserRecord<'a> {
    /// Attr and its ids (pipe mode); available in [`Events`](crate::Events).
    Attr,
    /// Name of an event by `config` (pipe mode of perf until 3.10).
    EventType {
        /// `config` of the event.
        config: u64,
        /// Name.
        name: String,
    },
    /// Tracepoint formats, which follow the record.
    TracingData {
        /// Length in bytes, without padding.
        len: u32,
    },
    /// A build-id (pipe mode).
    BuildId(BuildIdEntry),
    /// End of a round: all rings were read once. Later records are not older than the previous
    /// round's newest.
    FinishedRound,
    /// End of the records that the recorder synthesized at the start.
    FinishedInit,
    /// CPU and thread of each id.
    IdIndex(Vec<IdIndexEntry>),
    /// Type of AUX trace, and its settings.
    AuxtraceInfo(AuxtraceInfo),
    /// AUX data, which follow the record.
    Auxtrace(Auxtrace),
    /// Error in an AUX trace.
    AuxtraceError(AuxtraceError),
    /// Recorded threads.
    ThreadMap(Vec<WatchedThread>),
    /// Recorded CPUs.
    CpuMap(CpuSet),
    /// Settings of perf stat.
    StatConfig(StatConfig),
    /// Count of an event.
    Stat(Stat),
    /// Round of counts.
    StatRound {
        /// 0 for an interval, 1 for the last one.
        kind: u64,
        /// Nanoseconds.
        time: u64,
    },
    /// Additional data of an event.
    EventUpdate {
        /// An id of the event.
        id: u64,
        /// The update.
        update: EventUpdate,
    },
    /// Conversion of TSC readings to times of perf's clock.
    TimeConv(TimeConv),
    /// A feature section (pipe mode).
    Feature {
        /// Number of the feature.
        feature: Feature,
        /// Bytes of the section.
        bytes: RawBytes<'a>,
    },
    /// Piece of a zstd stream, which [`Blocks`](crate::Blocks) decompress.
    Compressed,
    /// Variables of a BPF program.
    BpfMetadata {
        /// The program.
        program: String,
        /// Names and values.
        entries: Vec<(String, String)>,
    },
    /// Record of an unknown type.
    Unknown {
        /// Type of the record.
        kind: RecordType,
        /// Bytes after the header.
        bytes: RawBytes<'a>,
    },
}

/// Conversion of TSC values to times: `time = zero + (tsc * mult >> shift)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeConv {
    /// Shift in bits.
    pub shift: u64,
    /// Factor.
    pub mult: u64,
    /// Time at TSC 0.
    pub zero: u64,
    /// TSC at the last update, if the counter is shorter than 64 bits.
    pub cycles: Option<u64>,
    /// Mask of the counter's bits, if it is shorter than 64 bits.
    pub mask: Option<u64>,
}

/// Failure to decode a user record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UserRecordError {
    /// The kernel wrote the record.
    #[error("a {kind} record comes from the kernel, not from the recorder")]
    OfTheKernel {
        /// Type of the record.
        kind: RecordType,
    },
    /// The record is too short for its fields or counts.
    #[error("a {kind} record of {size} bytes is too short for its contents")]
    TooShort {
        /// Type of the record.
        kind: RecordType,
        /// Length of the record in bytes.
        size: usize,
    },
}

impl<'a> UserRecord<'a> {
    /// Decodes a record.
    ///
    /// # Errors
    /// Returns [`UserRecordError`] for kernel records and truncated ones.
    pub fn decode(record: &RawRecord<'a>) -> Result<UserRecord<'a>, UserRecordError> {
        let kind = record.kind;
        if !kind.is_user() {
            return Err(UserRecordError::OfTheKernel { kind });
        }
        UserRecord::read(record).ok_or_else(|| UserRecordError::TooShort {
            kind,
            size: record.size(),
        })
    }

    fn read(record: &RawRecord<'a>) -> Option<UserRecord<'a>> {
        let (body, e) = (record.body, record.endian);
        let fields = Fields { body, endian: e };
        Some(match record.kind {
            RecordType::HEADER_ATTR => UserRecord::Attr,
            RecordType::HEADER_EVENT_TYPE => {
                let (config, name) = event_type(&body, e)?;
                UserRecord::EventType { config, name }
            }
            RecordType::HEADER_TRACING_DATA => UserRecord::TracingData {
                len: body.u32(0, e)?,
            },
            RecordType::HEADER_BUILD_ID => UserRecord::BuildId(build_id_entry(record)?),
            RecordType::FINISHED_ROUND => UserRecord::FinishedRound,
            RecordType::FINISHED_INIT => UserRecord::FinishedInit,
            RecordType::ID_INDEX => UserRecord::IdIndex(cpus::id_index(&fields)?),
            RecordType::AUXTRACE_INFO => UserRecord::AuxtraceInfo(auxtrace::info(&fields)?),
            RecordType::AUXTRACE => UserRecord::Auxtrace(auxtrace::data(&fields)?),
            RecordType::AUXTRACE_ERROR => UserRecord::AuxtraceError(auxtrace::error(&fields)?),
            RecordType::THREAD_MAP => UserRecord::ThreadMap(cpus::threads(&fields)?),
            RecordType::CPU_MAP => UserRecord::CpuMap(CpuSet::read(&body, e)?),
            RecordType::STAT_CONFIG => UserRecord::StatConfig(stat::config(&fields)?),
            RecordType::STAT => UserRecord::Stat(stat::count(&fields)?),
            RecordType::STAT_ROUND => UserRecord::StatRound {
                kind: body.u64(0, e)?,
                time: body.u64(8, e)?,
            },
            RecordType::EVENT_UPDATE => {
                let (id, update) = EventUpdate::decode(record)?;
                UserRecord::EventUpdate { id, update }
            }
            RecordType::TIME_CONV => UserRecord::TimeConv(TimeConv {
                shift: body.u64(0, e)?,
                mult: body.u64(8, e)?,
                zero: body.u64(16, e)?,
                // Since perf 5.10.
                cycles: body.u64(24, e),
                mask: body.u64(32, e),
            }),
            RecordType::HEADER_FEATURE => UserRecord::Feature {
                feature: Feature(u32::try_from(body.u64(0, e)?).ok()?),
                bytes: body.get_from(8)?,
            },
            RecordType::COMPRESSED | RecordType::COMPRESSED2 => UserRecord::Compressed,
            RecordType::BPF_METADATA => bpf_metadata(&fields)?,
            kind => UserRecord::Unknown { kind, bytes: body },
        })
    }
}

/// Bytes of a BPF program's name (KSYM_NAME_LEN), of a variable's name, and of its value.
const BPF_NAME: usize = 512;
const BPF_KEY: usize = 64;
const BPF_VALUE: usize = 256;

fn bpf_metadata<'a>(fields: &Fields<'_>) -> Option<UserRecord<'a>> {
    let count = fields.body.u64(BPF_NAME, fields.endian)?;
    let entries = fields.items(BPF_NAME + 8, count, BPF_KEY + BPF_VALUE, |at| {
        Some((
            fields.text(at, BPF_KEY)?,
            fields.text(at + BPF_KEY, BPF_VALUE)?,
        ))
    })?;
    Some(UserRecord::BpfMetadata {
        program: fields.text(0, BPF_NAME)?,
        entries,
    })
}

#[cfg(test)]
pub(crate) fn raw(kind: RecordType, body: &[u8]) -> RawRecord<'_> {
    RawRecord {
        kind,
        misc: rprof_records::Misc(0),
        body: RawBytes::from(body),
        endian: rprof_records::Endian::Little,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_body_makes_it_fail_otherwise_than_by_an_error() {
        for kind in (60..90).map(RecordType) {
            for fill in [0, 1, 0x7f, 0xff] {
                for len in [0, 1, 7, 8, 12, 16, 40, 64, 100, 700] {
                    let _ = UserRecord::decode(&raw(kind, &vec![fill; len]));
                }
            }
        }
    }

    #[test]
    fn time_conversions_of_both_lengths_are_read() {
        let body: Vec<u8> = (1..=5u64).flat_map(u64::to_le_bytes).collect();
        let of = |len| UserRecord::decode(&raw(RecordType::TIME_CONV, &body[..len]));
        let mut conv = TimeConv {
            shift: 1,
            mult: 2,
            zero: 3,
            ..TimeConv::default()
        };
        assert_eq!(of(24).unwrap(), UserRecord::TimeConv(conv));
        (conv.cycles, conv.mask) = (Some(4), Some(5));
        assert_eq!(of(40).unwrap(), UserRecord::TimeConv(conv));
        assert!(matches!(of(23), Err(UserRecordError::TooShort { .. })));
    }

    #[test]
    fn the_kernels_are_refused_and_unknown_ones_kept() {
        let of = |kind| UserRecord::decode(&raw(RecordType(kind), &[1, 2])).ok();
        assert_eq!(of(9), None);
        assert!(matches!(of(40000), Some(UserRecord::Unknown { .. })));
    }
}
