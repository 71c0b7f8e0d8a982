//! The perf_event ABI as bytes.
//!
//! This crate handles no files, system calls or symbols.
//!
//! | module | holds |
//! |---|---|
//! | [`bytes`] | [`Endian`], and [`RawBytes`]: bytes that may wrap around a ring buffer |
//! | [`flags`] | bit sets: sample fields, read format, attr flags |
//! | [`build_id`] | [`BuildId`], the identity of an ELF file |
//! | [`attr`] | [`Attr`], `struct perf_event_attr` in every version |
//! | [`header`] | [`Header`], [`RecordType`], [`Misc`], and [`RawRecord`] |
//! | [`layout`] | [`SampleLayout`]: field offsets of samples and trailers |
//! | [`sample`] | [`Sample`]: a view of one SAMPLE record |
//! | [`words`] | packed words of a sample: data sources, transactions, branches, weights |
//! | [`register_names`] | [`RegisterNames`]: registers by name |
//! | [`sample_id`] | [`SampleId`]: the trailer of every other record |
//! | [`record`] | [`Record`]: every record of the kernel, typed |
//! | [`sideband`] | [`ProcessEvent`]: interpreted process records |
//! | `error` | [`DecodeError`] |
//! | [`encode`] | encoders |
//! | `unwound` | samples with a callchain instead of registers and stack |
//! | `wait_end` | [`WaitEnd`]: the waker of a wait |
//!
//! The reference is `include/uapi/linux/perf_event.h` and perf_event_open(2).
//!
//! # Examples
//!
//! Decodes samples from a buffer. The event's attr determines their fields.
//!
//! ```
//! use rprof_records::{Attr, Endian, Misc, RawBytes, RawRecord, RecordType};
//! use rprof_records::{Sample, SampleFields, SampleLayout, SampleType};
//!
//! let attr = Attr {
//!     sample_type: SampleType::IP | SampleType::TID | SampleType::CALLCHAIN,
//!     ..Attr::default()
//! };
//! let layout = SampleLayout::new(&attr, Endian::NATIVE);
//!
//! // What a ring or a file would hold.
//! let mut buffer = Vec::new();
//! for ip in [0x1000, 0x2000] {
//!     let callchain = vec![ip, 0x500];
//!     let fields = SampleFields { ip, pid: 7, tid: 8, callchain, ..SampleFields::default() };
//!     fields.encode(Misc::USER, &layout, &mut buffer)?;
//! }
//!
//! let mut rest = &buffer[..];
//! let mut seen = Vec::new();
//! while let Some(raw) = RawRecord::parse(RawBytes::from(rest), Endian::NATIVE) {
//!     if raw.kind == RecordType::SAMPLE {
//!         let sample = Sample::parse(raw.body, &layout)?;
//!         let callers = sample.callchain().map_or(0, |chain| chain.iter().count());
//!         seen.push((sample.tid(), sample.ip(), callers));
//!     }
//!     rest = &rest[raw.size()..];
//! }
//! assert_eq!(seen, [(Some(8), Some(0x1000), 2), (Some(8), Some(0x2000), 2)]);
//! assert!(rest.is_empty(), "the last record is cut off");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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
pub mod register_names;
pub mod request_context;
pub mod sample;
pub mod sample_id;
pub mod sideband;
mod unwound;
mod wait_end;
pub mod words;

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
pub use register_names::{GENERAL_REGISTERS, RegisterNames, UnknownRegister};
pub use sample::{
    BranchEntries, BranchEntry, Callchain, ContextMarker, RecordedRegisters, RecordedStack, Sample,
    SampleField,
};
pub use sample_id::SampleId;
pub use sideband::{Mapped, ProcessEvent};
pub use wait_end::WaitEnd;
pub use words::{AuxFlags, BranchFlags, BranchKind, DataSource, Transaction, Weight};
