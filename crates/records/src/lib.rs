//! The perf_event ABI as bytes.
//!
//! This crate turns bytes from the kernel, or from a perf.data file, into
//! typed values and back. It knows nothing of files, system calls or symbols.
//!
//! | module | holds |
//! |---|---|
//! | [`bytes`] | [`Endian`], and [`RawBytes`]: a slice that may wrap around the end of a ring |
//! | [`flags`] | bit sets: sample fields, read format, attr flags |
//! | [`build_id`] | [`BuildId`], the identity of an ELF file |
//! | [`attr`] | [`Attr`], `struct perf_event_attr` in every version |
//! | [`header`] | [`Header`], [`RecordType`], [`Misc`], and [`RawRecord`] |
//! | [`layout`] | [`SampleLayout`]: offsets of the fields of samples and trailers |
//! | [`sample`] | [`Sample`]: a view of one SAMPLE record |
//! | [`sample_id`] | [`SampleId`]: the trailer of every other record |
//! | [`record`] | [`Record`]: every record of the kernel, typed |
//! | [`sideband`] | [`ProcessEvent`]: meaning of the records that describe processes, decided once |
//! | `error` | [`DecodeError`] |
//! | [`encode`] | the way back to bytes |
//! | `unwound` | samples whose registers and stack became a callchain |
//!
//! The reference is `include/uapi/linux/perf_event.h` and perf_event_open(2).

pub mod attr;
pub mod build_id;
pub mod bytes;
pub mod encode;
mod error;
pub mod flags;
pub mod header;
pub mod layout;
mod names;
mod read_values;
pub mod record;
pub mod sample;
pub mod sample_id;
pub mod sideband;
mod unwound;

pub use attr::{Attr, AttrError, EventKind};
pub use build_id::BuildId;
pub use bytes::{Endian, RawBytes};
pub use encode::{EncodeError, RegisterValues, SampleFields, put_record};
pub use error::DecodeError;
pub use flags::{AttrFlags, BranchSampleType, ReadFormat, SampleType};
pub use header::{CpuMode, Header, Misc, RawRecord, RecordType};
pub use layout::SampleLayout;
pub use read_values::{ReadValue, ReadValues};
pub use record::{Comm, Lost, Mmap, Mmap2, MmapIdentity, PROT_EXEC, Record, Task};
pub use sample::{
    BranchEntries, BranchEntry, Callchain, ContextMarker, Registers, Sample, SampleField, StackDump,
};
pub use sample_id::SampleId;
pub use sideband::{Mapped, ProcessEvent};
