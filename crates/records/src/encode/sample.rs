//! Encodes samples.

use super::put::{EncodeError, Out, put_record};
use crate::bytes::RawBytes;
use crate::flags::{BranchSampleType, SampleType};
use crate::header::{Misc, RecordType};
use crate::layout::{FIXED, SampleLayout};
use crate::read_values::ReadValues;
use crate::sample::{BranchEntry, RecordedRegisters, Sample};
use crate::words::Weight;

/// Registers to encode: the ABI, and the values of the mask's bits, lowest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegisterValues {
    /// `PERF_SAMPLE_REGS_ABI_*`; 0 means no values.
    pub abi: u64,
    /// Register values in the order of the bits of the event's mask.
    pub values: Vec<u64>,
}

/// Owned field values of a sample, for encoding. Fields missing in the layout are not written.
/// Fields missing in the [`Sample`](crate::Sample) are 0 or empty.
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
    /// Counter values, one for each branch.
    pub branch_counters: Vec<u64>,
    pub regs_user: RegisterValues,
    /// Valid bytes of the stack dump.
    pub stack_user: Vec<u8>,
    /// Bytes reserved for the dump in the record.
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
        let registers = |regs: Option<RecordedRegisters<'_>>| {
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
            weight: s.weight().map_or(0, Weight::word),
            data_src: s.data_src().map_or(0, |source| source.0),
            transaction: s.transaction().map_or(0, |transaction| transaction.0),
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
    /// Appends a SAMPLE record with this `layout`. `misc` is written unchanged; it contains the CPU
    /// mode of `ip`.
    ///
    /// # Errors
    /// Returns [`EncodeError::TooLong`] above 65,535 bytes. Nothing is appended then.
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
            // With padding, so that the next field is aligned.
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
                w.u64(b.flags.0);
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
            // More than a record can hold.
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
