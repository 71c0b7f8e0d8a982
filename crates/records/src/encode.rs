//! The way back: records as bytes.

use crate::bytes::{Endian, RawBytes};
use crate::flags::{BranchSampleType, SampleType};
use crate::header::{Header, Misc, RecordType};
use crate::layout::{FIXED, SampleLayout, TRAILER};
use crate::read_values::ReadValues;
use crate::record::{Mmap2, MmapIdentity, Record, Task};
use crate::sample::{BranchEntry, Sample};
use crate::sample_id::SampleId;

/// What cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The size field of a header has 16 bits.
    #[error("a {kind} record of {size} bytes is longer than the 65,535 that its header can say")]
    TooLong {
        /// What the record is.
        kind: RecordType,
        /// Its length in bytes.
        size: usize,
    },
}

/// Appends a record: a header, then what `body` writes. On an error `out` is
/// as it was.
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

struct Out<'o> {
    out: &'o mut Vec<u8>,
    endian: Endian,
}

impl Out<'_> {
    fn u16(&mut self, v: u16) {
        self.out.extend(self.endian.put_u16(v));
    }
    fn u32(&mut self, v: u32) {
        self.out.extend(self.endian.put_u32(v));
    }
    fn i32(&mut self, v: i32) {
        self.u32(v as u32);
    }
    fn u64(&mut self, v: u64) {
        self.out.extend(self.endian.put_u64(v));
    }
    /// Bytes, one NUL at least, and NULs up to a multiple of eight.
    fn c_str(&mut self, s: &[u8]) {
        self.out.extend_from_slice(s);
        let len = (s.len() + 1).next_multiple_of(8);
        self.out.extend(std::iter::repeat_n(0, len - s.len()));
    }
    fn raw(&mut self, bytes: &RawBytes<'_>) {
        self.out.extend_from_slice(&bytes.to_cow());
    }
    fn task(&mut self, t: &Task) {
        for v in [t.pid, t.ppid, t.tid, t.ptid] {
            self.i32(v);
        }
        self.u64(t.time);
    }
    fn sample_id(&mut self, id: &SampleId, layout: &SampleLayout) {
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
    fn mmap2(&mut self, m: &Mmap2<'_>) {
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
            MmapIdentity::BuildId { len, bytes } => {
                self.out.extend([len, 0, 0, 0]);
                self.out.extend(bytes);
            }
        }
        self.u32(m.prot);
        self.u32(m.flags);
        self.c_str(&m.path);
    }
}

impl Record<'_> {
    /// What kind of record this is.
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

    /// Appends the record, with the trailer that `layout` asks for.
    ///
    /// The `MMAP_BUILD_ID` bit of `misc` is made to agree with an MMAP2's identity.
    ///
    /// # Errors
    /// [`EncodeError::TooLong`] beyond 65,535 bytes; nothing is appended then.
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
                MmapIdentity::BuildId { .. } => misc | Misc::MMAP_BUILD_ID,
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
            // A sample is written by `SampleFields`.
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

/// Registers to write: the ABI and the values of the mask's bits, lowest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegisterValues {
    /// `PERF_SAMPLE_REGS_ABI_*`; with 0 there are no values.
    pub abi: u64,
    /// One value for each bit of the event's mask.
    pub values: Vec<u64>,
}

/// A sample's fields as owned values, to be written. Fields that the layout
/// lacks are left out, those that it has and that are `None` become zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as the accessors of Sample")]
pub struct SampleFields {
    pub id: u64,
    pub ip: u64,
    pub pid: i32,
    pub tid: i32,
    pub time: u64,
    pub addr: u64,
    pub stream_id: u64,
    pub cpu: u32,
    pub period: u64,
    pub read: ReadValues,
    /// Leaf first, with markers.
    pub callchain: Vec<u64>,
    pub raw: Vec<u8>,
    pub hw_index: u64,
    pub branches: Vec<BranchEntry>,
    /// One for each branch.
    pub branch_counters: Vec<u64>,
    pub regs_user: RegisterValues,
    /// The real bytes of the stack dump.
    pub stack_user: Vec<u8>,
    /// Bytes that the record reserves for the dump.
    pub stack_user_reserved: u64,
    pub weight: u64,
    pub data_src: u64,
    pub transaction: u64,
    pub regs_intr: RegisterValues,
    pub phys_addr: u64,
    pub cgroup: u64,
    pub data_page_size: u64,
    pub code_page_size: u64,
    pub aux: Vec<u8>,
    /// Bytes of fields newer than this crate.
    pub rest: Vec<u8>,
}

impl From<&Sample<'_>> for SampleFields {
    fn from(s: &Sample<'_>) -> SampleFields {
        let bytes = |raw: Option<RawBytes<'_>>| raw.map_or(Vec::new(), |r| r.to_cow().into_owned());
        let registers = |regs: Option<crate::sample::Registers<'_>>| {
            regs.map_or(RegisterValues::default(), |r| RegisterValues {
                abi: r.abi,
                values: r.iter().map(|(_, v)| v).collect(),
            })
        };
        let branches = s.branch_stack();
        let stack = s.stack_user();
        SampleFields {
            id: s.id().unwrap_or(0),
            ip: s.ip().unwrap_or(0),
            pid: s.pid().unwrap_or(0),
            tid: s.tid().unwrap_or(0),
            time: s.time().unwrap_or(0),
            addr: s.addr().unwrap_or(0),
            stream_id: s.stream_id().unwrap_or(0),
            cpu: s.cpu().unwrap_or(0),
            period: s.period().unwrap_or(0),
            read: s.read().unwrap_or_default(),
            callchain: s.callchain().map_or(Vec::new(), |c| c.iter().collect()),
            raw: bytes(s.raw()),
            hw_index: branches.and_then(|b| b.hw_index).unwrap_or(0),
            branches: branches.map_or(Vec::new(), |b| b.iter().collect()),
            branch_counters: branches.map_or(Vec::new(), |b| b.counters().collect()),
            regs_user: registers(s.regs_user()),
            stack_user: bytes(stack.map(|d| d.bytes)),
            stack_user_reserved: stack.map_or(0, |d| d.reserved),
            weight: s.weight().unwrap_or(0),
            data_src: s.data_src().unwrap_or(0),
            transaction: s.transaction().unwrap_or(0),
            regs_intr: registers(s.regs_intr()),
            phys_addr: s.phys_addr().unwrap_or(0),
            cgroup: s.cgroup().unwrap_or(0),
            data_page_size: s.data_page_size().unwrap_or(0),
            code_page_size: s.code_page_size().unwrap_or(0),
            aux: bytes(s.aux()),
            rest: bytes(Some(s.rest())),
        }
    }
}

impl SampleFields {
    /// Appends a SAMPLE record laid out as `layout` says.
    ///
    /// # Errors
    /// [`EncodeError::TooLong`] beyond 65,535 bytes; nothing is appended then.
    pub fn encode(
        &self,
        misc: Misc,
        layout: &SampleLayout,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        put_record(out, RecordType::SAMPLE, misc, layout.endian, |out| {
            let mut w = Out {
                out,
                endian: layout.endian,
            };
            self.put_fixed(&mut w, layout);
            self.put_variable(&mut w, layout);
            w.out.extend_from_slice(&self.rest);
        })
    }

    fn put_fixed(&self, w: &mut Out<'_>, layout: &SampleLayout) {
        for field in FIXED {
            if !layout.sample_type.contains(field) {
                continue;
            }
            match field {
                SampleType::IDENTIFIER | SampleType::ID => w.u64(self.id),
                SampleType::IP => w.u64(self.ip),
                SampleType::TID => {
                    w.i32(self.pid);
                    w.i32(self.tid);
                }
                SampleType::TIME => w.u64(self.time),
                SampleType::ADDR => w.u64(self.addr),
                SampleType::STREAM_ID => w.u64(self.stream_id),
                SampleType::CPU => {
                    w.u32(self.cpu);
                    w.u32(0);
                }
                _ => w.u64(self.period),
            }
        }
    }

    fn put_variable(&self, w: &mut Out<'_>, layout: &SampleLayout) {
        let has = |bits| layout.sample_type.intersects(bits);
        if has(SampleType::READ) {
            self.read.encode(layout.read_format, layout.endian, w.out);
        }
        if has(SampleType::CALLCHAIN) {
            w.u64(self.callchain.len() as u64);
            self.callchain.iter().for_each(|v| w.u64(*v));
        }
        if has(SampleType::RAW) {
            // The size counts padding, so that the next field is aligned.
            let size = (4 + self.raw.len()).next_multiple_of(8) - 4;
            w.u32(size as u32);
            w.out.extend_from_slice(&self.raw);
            w.out.extend(std::iter::repeat_n(0, size - self.raw.len()));
        }
        if has(SampleType::BRANCH_STACK) {
            w.u64(self.branches.len() as u64);
            if layout.branch.contains(BranchSampleType::HW_INDEX) {
                w.u64(self.hw_index);
            }
            for b in &self.branches {
                w.u64(b.from);
                w.u64(b.to);
                w.u64(b.flags);
            }
            if layout.branch.contains(BranchSampleType::COUNTERS) {
                for i in 0..self.branches.len() {
                    w.u64(self.branch_counters.get(i).copied().unwrap_or(0));
                }
            }
        }
        if has(SampleType::REGS_USER) {
            put_registers(w, &self.regs_user, layout.regs_user);
        }
        if has(SampleType::STACK_USER) {
            self.put_stack(w);
        }
        for (bits, v) in [
            (SampleType::WEIGHT | SampleType::WEIGHT_STRUCT, self.weight),
            (SampleType::DATA_SRC, self.data_src),
            (SampleType::TRANSACTION, self.transaction),
        ] {
            if has(bits) {
                w.u64(v);
            }
        }
        if has(SampleType::REGS_INTR) {
            put_registers(w, &self.regs_intr, layout.regs_intr);
        }
        for (bits, v) in [
            (SampleType::PHYS_ADDR, self.phys_addr),
            (SampleType::CGROUP, self.cgroup),
            (SampleType::DATA_PAGE_SIZE, self.data_page_size),
            (SampleType::CODE_PAGE_SIZE, self.code_page_size),
        ] {
            if has(bits) {
                w.u64(v);
            }
        }
        if has(SampleType::AUX) {
            w.u64(self.aux.len() as u64);
            w.out.extend_from_slice(&self.aux);
        }
    }

    fn put_stack(&self, w: &mut Out<'_>) {
        w.u64(self.stack_user_reserved);
        if self.stack_user_reserved > 0 {
            // Bounded by what a record can hold; put_record refuses the rest.
            let reserved = usize::try_from(self.stack_user_reserved.min(1 << 17)).unwrap_or(0);
            let real = self.stack_user.len().min(reserved);
            w.out.extend_from_slice(&self.stack_user[..real]);
            w.out.extend(std::iter::repeat_n(0, reserved - real));
            w.u64(real as u64);
        }
    }
}

fn put_registers(w: &mut Out<'_>, regs: &RegisterValues, mask: u64) {
    w.u64(regs.abi);
    if regs.abi != 0 {
        for i in 0..mask.count_ones() as usize {
            w.u64(regs.values.get(i).copied().unwrap_or(0));
        }
    }
}
