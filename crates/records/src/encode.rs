//! Encodes records.

mod put;
mod sample;

pub use put::{EncodeError, put_record};
pub use sample::{RegisterValues, SampleFields};

use crate::build_id::BuildId;
use crate::header::{Misc, RecordType};
use crate::layout::SampleLayout;
use crate::record::{MmapIdentity, Record};
use crate::sample_id::SampleId;
use put::Out;

impl Record<'_> {
    /// Returns the record's type for encoding.
    pub fn kind(&self) -> RecordType {
        match self {
            Record::Mmap(_) => RecordType::MMAP,
            Record::Mmap2(_) => RecordType::MMAP2,
            Record::Lost(_) => RecordType::LOST,
            Record::Comm(_) => RecordType::COMM,
            Record::Exit(_) => RecordType::EXIT,
            Record::Fork(_) => RecordType::FORK,
            Record::Throttle { .. } => RecordType::THROTTLE,
            Record::Unthrottle { .. } => RecordType::UNTHROTTLE,
            Record::Read { .. } => RecordType::READ,
            Record::Sample(_) => RecordType::SAMPLE,
            Record::Aux { .. } => RecordType::AUX,
            Record::ItraceStart { .. } => RecordType::ITRACE_START,
            Record::LostSamples { .. } => RecordType::LOST_SAMPLES,
            Record::Switch => RecordType::SWITCH,
            Record::SwitchCpuWide { .. } => RecordType::SWITCH_CPU_WIDE,
            Record::Namespaces { .. } => RecordType::NAMESPACES,
            Record::Ksymbol { .. } => RecordType::KSYMBOL,
            Record::BpfEvent { .. } => RecordType::BPF_EVENT,
            Record::Cgroup { .. } => RecordType::CGROUP,
            Record::TextPoke { .. } => RecordType::TEXT_POKE,
            Record::AuxOutputHwId { .. } => RecordType::AUX_OUTPUT_HW_ID,
            Record::CallchainDeferred { .. } => RecordType::CALLCHAIN_DEFERRED,
            Record::Other(raw) => raw.kind,
        }
    }

    /// Appends the record, with a trailer according to `layout`. Fields of `sample_id` that the
    /// layout lacks are omitted. Fields missing in `sample_id` are 0, pid and tid -1.
    ///
    /// `misc` is written unchanged, so the caller sets the CPU mode and bits such as
    /// [`Misc::COMM_EXEC`]. Only `MMAP_BUILD_ID` follows an MMAP2's identity.
    ///
    /// # Errors
    /// Returns [`EncodeError::TooLong`] above 65,535 bytes, and [`EncodeError::LongBuildId`] for an
    /// MMAP2 with a build-id above 20 bytes. Nothing is appended then.
    pub fn encode(
        &self,
        misc: Misc,
        layout: &SampleLayout,
        sample_id: &SampleId,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let endian = layout.endian;
        if let Record::Sample(sample) = self {
            return SampleFields::from(sample).encode(misc, layout, out);
        }
        let kind = self.kind();
        let misc = match self {
            Record::Mmap2(m) => match m.identity {
                MmapIdentity::BuildId(id) if id.as_bytes().len() > BuildId::MAX_RECORD_LEN => {
                    return Err(EncodeError::LongBuildId(id));
                }
                MmapIdentity::BuildId(_) => misc | Misc::MMAP_BUILD_ID,
                MmapIdentity::Inode { .. } => Misc(misc.0 & !Misc::MMAP_BUILD_ID.0),
            },
            _ => misc,
        };
        put_record(out, kind, misc, endian, |out| {
            let mut w = Out { out, endian };
            self.put_body(&mut w, layout);
            if !kind.is_user() && !matches!(self, Record::Other(_)) {
                w.sample_id(sample_id, layout);
            }
        })
    }

    fn put_body(&self, w: &mut Out<'_>, layout: &SampleLayout) {
        match self {
            Record::Mmap(m) => {
                w.i32(m.pid);
                w.i32(m.tid);
                w.u64(m.start);
                w.u64(m.len);
                w.u64(m.pgoff);
                w.c_str(&m.path);
            }
            Record::Mmap2(m) => w.mmap2(m),
            Record::Lost(l) => {
                w.u64(l.id);
                w.u64(l.lost);
            }
            Record::Comm(comm) => {
                w.i32(comm.pid);
                w.i32(comm.tid);
                w.c_str(&comm.name);
            }
            Record::Exit(t) | Record::Fork(t) => w.task(t),
            Record::Throttle {
                time,
                id,
                stream_id,
            }
            | Record::Unthrottle {
                time,
                id,
                stream_id,
            } => [*time, *id, *stream_id].into_iter().for_each(|v| w.u64(v)),
            Record::Read { pid, tid, values } => {
                w.i32(*pid);
                w.i32(*tid);
                values.encode(layout.read_format, w.endian, w.out);
            }
            Record::Aux {
                offset,
                size,
                flags,
            } => [*offset, *size, *flags].into_iter().for_each(|v| w.u64(v)),
            Record::ItraceStart { pid, tid } => {
                w.i32(*pid);
                w.i32(*tid);
            }
            Record::LostSamples { lost } => w.u64(*lost),
            Record::Switch | Record::Sample(_) => {}
            Record::SwitchCpuWide {
                next_prev_pid,
                next_prev_tid,
            } => {
                w.i32(*next_prev_pid);
                w.i32(*next_prev_tid);
            }
            Record::Namespaces { pid, tid, links } => {
                w.i32(*pid);
                w.i32(*tid);
                w.u64(links.len() as u64);
                for (device, inode) in links {
                    w.u64(*device);
                    w.u64(*inode);
                }
            }
            Record::Ksymbol {
                addr,
                len,
                ksym_type,
                flags,
                name,
            } => {
                w.u64(*addr);
                w.u32(*len);
                w.u16(*ksym_type);
                w.u16(*flags);
                w.c_str(name);
            }
            Record::BpfEvent {
                kind,
                flags,
                id,
                tag,
            } => {
                w.u16(*kind);
                w.u16(*flags);
                w.u32(*id);
                w.out.extend(tag);
            }
            Record::Cgroup { id, path } => {
                w.u64(*id);
                w.c_str(path);
            }
            Record::TextPoke {
                addr,
                old_len,
                new_len,
                bytes,
            } => {
                w.u64(*addr);
                w.u16(*old_len);
                w.u16(*new_len);
                w.raw(bytes);
                let len = (12 + bytes.len()).next_multiple_of(8) - 12 - bytes.len();
                w.out.extend(std::iter::repeat_n(0, len));
            }
            Record::AuxOutputHwId { hw_id } => w.u64(*hw_id),
            Record::CallchainDeferred { cookie, callchain } => {
                w.u64(*cookie);
                w.u64(callchain.len() as u64);
                w.raw(&callchain.raw());
            }
            Record::Other(raw) => w.raw(&raw.body),
        }
    }
}
