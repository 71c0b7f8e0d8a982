//! Encodes headers, fields and trailers.

use crate::build_id::BuildId;
use crate::bytes::{Endian, RawBytes};
use crate::flags::SampleType;
use crate::header::{Header, Misc, RecordType};
use crate::layout::{SampleLayout, TRAILER};
use crate::record::{Mmap2, MmapIdentity, Task};
use crate::sample_id::SampleId;

/// Failure to encode a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The record is too long for the 16-bit size in its header.
    #[error("a {kind} record of {size} bytes exceeds the 65,535-byte limit of its header")]
    TooLong {
        /// Type of the record.
        kind: RecordType,
        /// Length of the record in bytes.
        size: usize,
    },
    /// The build-id is too long for the 20 bytes in an MMAP2 record.
    #[error("build-id {0} exceeds the 20 bytes that fit into an MMAP2 record")]
    LongBuildId(BuildId),
}

/// Appends a record: a header, then the output of `body`.
///
/// # Errors
/// Returns [`EncodeError::TooLong`] above 65,535 bytes. Nothing is appended then.
pub fn put_record(
    out: &mut Vec<u8>,
    kind: RecordType,
    misc: Misc,
    endian: Endian,
    body: impl FnOnce(&mut Vec<u8>),
) -> Result<(), EncodeError> {
    let start = out.len();
    out.extend([0; Header::SIZE]);
    body(out);
    let size = out.len() - start;
    let Ok(short) = u16::try_from(size) else {
        out.truncate(start);
        return Err(EncodeError::TooLong { kind, size });
    };
    let header = Header {
        kind,
        misc,
        size: short,
    };
    out[start..start + Header::SIZE].copy_from_slice(&header.encode(endian));
    Ok(())
}

pub(super) struct Out<'o> {
    pub(super) out: &'o mut Vec<u8>,
    pub(super) endian: Endian,
}

impl Out<'_> {
    pub(super) fn u16(&mut self, v: u16) {
        self.out.extend(self.endian.put_u16(v));
    }
    pub(super) fn u32(&mut self, v: u32) {
        self.out.extend(self.endian.put_u32(v));
    }
    pub(super) fn i32(&mut self, v: i32) {
        self.u32(v as u32);
    }
    pub(super) fn u64(&mut self, v: u64) {
        self.out.extend(self.endian.put_u64(v));
    }
    /// Appends the bytes with at least one NUL, padded to a multiple of eight.
    pub(super) fn c_str(&mut self, s: &[u8]) {
        self.out.extend_from_slice(s);
        let len = (s.len() + 1).next_multiple_of(8);
        self.out.extend(std::iter::repeat_n(0, len - s.len()));
    }
    pub(super) fn raw(&mut self, bytes: &RawBytes<'_>) {
        self.out.extend_from_slice(&bytes.to_cow());
    }
    pub(super) fn task(&mut self, t: &Task) {
        for v in [t.pid, t.ppid, t.tid, t.ptid] {
            self.i32(v);
        }
        self.u64(t.time);
    }
    pub(super) fn sample_id(&mut self, id: &SampleId, layout: &SampleLayout) {
        if layout.trailer_len() == 0 {
            return;
        }
        for field in TRAILER {
            if layout.sample_type.contains(field) {
                match field {
                    SampleType::TID => {
                        self.i32(id.pid.unwrap_or(-1));
                        self.i32(id.tid.unwrap_or(-1));
                    }
                    SampleType::TIME => self.u64(id.time.unwrap_or(0)),
                    SampleType::STREAM_ID => self.u64(id.stream_id.unwrap_or(0)),
                    SampleType::CPU => {
                        self.u32(id.cpu.unwrap_or(0));
                        self.u32(0);
                    }
                    _ => self.u64(id.id.unwrap_or(0)),
                }
            }
        }
    }
    pub(super) fn mmap2(&mut self, m: &Mmap2<'_>) {
        self.i32(m.pid);
        self.i32(m.tid);
        self.u64(m.start);
        self.u64(m.len);
        self.u64(m.pgoff);
        match m.identity {
            MmapIdentity::Inode {
                major,
                minor,
                inode,
                generation,
            } => {
                self.u32(major);
                self.u32(minor);
                self.u64(inode);
                self.u64(generation);
            }
            MmapIdentity::BuildId(id) => {
                let id = id.as_bytes();
                self.out.extend([id.len() as u8, 0, 0, 0]);
                self.out.extend_from_slice(id);
                let padding = BuildId::MAX_RECORD_LEN.saturating_sub(id.len());
                self.out.extend(std::iter::repeat_n(0, padding));
            }
        }
        self.u32(m.prot);
        self.u32(m.flags);
        self.c_str(&m.path);
    }
}
