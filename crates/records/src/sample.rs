//! View of one SAMPLE record.

mod parts;

use parts::counted;
pub use parts::{
    BranchEntries, BranchEntry, Callchain, ContextMarker, RecordedRegisters, RecordedStack,
};

use crate::bytes::RawBytes;
use crate::error::DecodeError;
use crate::flags::{BranchSampleType, SampleType};
use crate::layout::SampleLayout;
use crate::read_values::{ReadValues, read_len};
use crate::words::{DataSource, Transaction, Weight};

/// Variable-size fields after the fixed ones, in the kernel's order. WEIGHT represents both of its
/// forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in SampleType")]
pub enum SampleField {
    Read,
    Callchain,
    Raw,
    BranchStack,
    RegsUser,
    StackUser,
    Weight,
    DataSrc,
    Transaction,
    RegsIntr,
    PhysAddr,
    Cgroup,
    DataPageSize,
    CodePageSize,
    Aux,
}

use SampleField as F;

/// Variable-size fields in the kernel's order.
const VARIABLE: [(SampleField, SampleType); 15] = [
    (F::Read, SampleType::READ),
    (F::Callchain, SampleType::CALLCHAIN),
    (F::Raw, SampleType::RAW),
    (F::BranchStack, SampleType::BRANCH_STACK),
    (F::RegsUser, SampleType::REGS_USER),
    (F::StackUser, SampleType::STACK_USER),
    (
        F::Weight,
        SampleType::WEIGHT.union(SampleType::WEIGHT_STRUCT),
    ),
    (F::DataSrc, SampleType::DATA_SRC),
    (F::Transaction, SampleType::TRANSACTION),
    (F::RegsIntr, SampleType::REGS_INTR),
    (F::PhysAddr, SampleType::PHYS_ADDR),
    (F::Cgroup, SampleType::CGROUP),
    (F::DataPageSize, SampleType::DATA_PAGE_SIZE),
    (F::CodePageSize, SampleType::CODE_PAGE_SIZE),
    (F::Aux, SampleType::AUX),
];

/// No field starts there: a body has at most 65,527 bytes.
pub(crate) const ABSENT: u16 = u16::MAX;

/// Sample record. Parsing checks the lengths of variable fields; each accessor is then one load.
/// Accessors return `None` if the event's `sample_type` lacks the field.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    pub(crate) body: RawBytes<'a>,
    pub(crate) layout: &'a SampleLayout,
    /// Byte offset of each field of `VARIABLE`, or `ABSENT`.
    pub(crate) at: [u16; VARIABLE.len()],
    pub(crate) end: usize,
}

impl<'a> Sample<'a> {
    /// Parses the body of a SAMPLE record. `layout` must be its event's.
    ///
    /// # Errors
    /// Returns [`DecodeError`] for the first field that exceeds the body.
    pub fn parse(body: RawBytes<'a>, layout: &'a SampleLayout) -> Result<Sample<'a>, DecodeError> {
        let mut next = usize::from(layout.fixed_len);
        let too_short = |what, at| DecodeError::TooShort {
            what,
            at,
            len: body.len(),
        };
        if next > body.len() {
            return Err(too_short("fixed fields of a sample", 0));
        }
        let mut at = [ABSENT; VARIABLE.len()];
        let tail = layout.sample_type.difference(SampleType::all_fixed());
        if !tail.is_empty() {
            for (slot, (field, bits)) in at.iter_mut().zip(VARIABLE) {
                if !layout.sample_type.intersects(bits) {
                    continue;
                }
                let len = field_len(field, &body, next, layout)
                    .filter(|len| *len <= body.len() - next)
                    .ok_or_else(|| too_short(field.name(), next))?;
                *slot = (u16::try_from(next).ok())
                    .filter(|at| *at != ABSENT)
                    .ok_or_else(|| too_short(field.name(), next))?;
                next += len;
            }
        }
        Ok(Sample {
            body,
            layout,
            at,
            end: next,
        })
    }

    #[inline]
    fn fixed(&self, field: SampleType) -> Option<u64> {
        (self.body).u64(self.layout.fixed_offset(field)?, self.layout.endian)
    }

    #[inline]
    fn fixed_u32(&self, field: SampleType, plus: usize) -> Option<u32> {
        (self.body).u32(self.layout.fixed_offset(field)? + plus, self.layout.endian)
    }

    #[inline]
    fn offset(&self, field: SampleField) -> Option<usize> {
        match self.at[field as usize] {
            ABSENT => None,
            at => Some(usize::from(at)),
        }
    }

    fn word(&self, field: SampleField) -> Option<u64> {
        self.body.u64(self.offset(field)?, self.layout.endian)
    }

    /// Returns the instruction pointer.
    #[inline]
    pub fn ip(&self) -> Option<u64> {
        self.fixed(SampleType::IP)
    }

    /// Returns the process id; -1 if the task had already exited.
    #[inline]
    pub fn pid(&self) -> Option<i32> {
        self.fixed_u32(SampleType::TID, 0).map(|v| v as i32)
    }

    /// Returns the thread id.
    #[inline]
    pub fn tid(&self) -> Option<i32> {
        self.fixed_u32(SampleType::TID, 4).map(|v| v as i32)
    }

    /// Returns the time in nanoseconds of the event's clock.
    #[inline]
    pub fn time(&self) -> Option<u64> {
        self.fixed(SampleType::TIME)
    }

    /// Returns the event's address.
    pub fn addr(&self) -> Option<u64> {
        self.fixed(SampleType::ADDR)
    }

    /// Returns the event id: IDENTIFIER, else ID.
    pub fn id(&self) -> Option<u64> {
        self.fixed(SampleType::IDENTIFIER)
            .or_else(|| self.fixed(SampleType::ID))
    }

    /// Returns the stream id.
    pub fn stream_id(&self) -> Option<u64> {
        self.fixed(SampleType::STREAM_ID)
    }

    /// Returns the CPU number.
    #[inline]
    pub fn cpu(&self) -> Option<u32> {
        self.fixed_u32(SampleType::CPU, 0)
    }

    /// Returns the number of events that the sample represents, its weight in a profile (not
    /// `PERF_SAMPLE_WEIGHT`).
    #[inline]
    pub fn period(&self) -> Option<u64> {
        self.fixed(SampleType::PERIOD)
    }

    /// Returns the counter values.
    pub fn read(&self) -> Option<ReadValues> {
        ReadValues::parse(
            &self.body,
            self.offset(F::Read)?,
            self.layout.read_format,
            self.layout.endian,
        )
    }

    /// Returns the callchain.
    #[inline]
    pub fn callchain(&self) -> Option<Callchain<'a>> {
        Callchain::parse(self.body, self.offset(F::Callchain)?, self.layout.endian)
    }

    /// Returns the raw payload, including padding.
    pub fn raw(&self) -> Option<RawBytes<'a>> {
        let at = self.offset(F::Raw)?;
        let len = self.body.u32(at, self.layout.endian)? as usize;
        self.body.get(at + 4..at + 4 + len)
    }

    /// Returns the branch records.
    pub fn branch_stack(&self) -> Option<BranchEntries<'a>> {
        let mut at = self.offset(F::BranchStack)?;
        let endian = self.layout.endian;
        let n = usize::try_from(self.body.u64(at, endian)?).ok()?;
        at += 8;
        let hw_index = match self.layout.branch.contains(BranchSampleType::HW_INDEX) {
            true => {
                at += 8;
                Some(self.body.u64(at - 8, endian)?)
            }
            false => None,
        };
        let entries = self.body.get(at..at + n * 24)?;
        at += n * 24;
        let counters = match self.layout.branch.contains(BranchSampleType::COUNTERS) {
            true => self.body.get(at..at + n * 8)?,
            false => self.body.get(at..at)?,
        };
        Some(BranchEntries {
            hw_index,
            entries,
            counters,
            endian,
        })
    }

    fn registers(&self, field: SampleField, mask: u64) -> Option<RecordedRegisters<'a>> {
        let at = self.offset(field)?;
        let endian = self.layout.endian;
        let abi = self.body.u64(at, endian)?;
        let count = if abi == 0 {
            0
        } else {
            mask.count_ones() as usize
        };
        Some(RecordedRegisters {
            abi,
            mask,
            bytes: self.body.get(at + 8..at + 8 + count * 8)?,
            endian,
        })
    }

    /// Returns the user registers.
    pub fn regs_user(&self) -> Option<RecordedRegisters<'a>> {
        self.registers(F::RegsUser, self.layout.regs_user)
    }

    /// Returns the registers at the interrupt.
    pub fn regs_intr(&self) -> Option<RecordedRegisters<'a>> {
        self.registers(F::RegsIntr, self.layout.regs_intr)
    }

    /// Returns the user stack dump. `dyn_size` may be 0 (a kernel thread, a fault).
    pub fn stack_user(&self) -> Option<RecordedStack<'a>> {
        let at = self.offset(F::StackUser)?;
        let endian = self.layout.endian;
        let reserved = self.body.u64(at, endian)?;
        if reserved == 0 {
            return Some(RecordedStack {
                bytes: self.body.get(at..at)?,
                reserved,
            });
        }
        let len = usize::try_from(reserved).ok()?;
        let dyn_size = usize::try_from(self.body.u64(at + 8 + len, endian)?).ok()?;
        Some(RecordedStack {
            bytes: self.body.get(at + 8..at + 8 + dyn_size.min(len))?,
            reserved,
        })
    }

    /// Returns the body offset of the user stack field: its length, the bytes, and the number of
    /// valid ones.
    pub fn stack_user_offset(&self) -> Option<usize> {
        self.offset(F::StackUser)
    }

    /// Returns the cost of the event, in the requested form.
    pub fn weight(&self) -> Option<Weight> {
        let word = self.word(F::Weight)?;
        let is_split = (self.layout.sample_type).contains(SampleType::WEIGHT_STRUCT);
        Some(match is_split {
            true => Weight::split(word),
            false => Weight::Whole(word),
        })
    }

    /// Returns the data source.
    pub fn data_src(&self) -> Option<DataSource> {
        self.word(F::DataSrc).map(DataSource)
    }

    /// Returns the type and end of a memory transaction.
    pub fn transaction(&self) -> Option<Transaction> {
        self.word(F::Transaction).map(Transaction)
    }

    /// Returns the physical address.
    pub fn phys_addr(&self) -> Option<u64> {
        self.word(F::PhysAddr)
    }

    /// Returns the cgroup id.
    pub fn cgroup(&self) -> Option<u64> {
        self.word(F::Cgroup)
    }

    /// Returns the page size at `addr` in bytes.
    pub fn data_page_size(&self) -> Option<u64> {
        self.word(F::DataPageSize)
    }

    /// Returns the page size at `ip` in bytes.
    pub fn code_page_size(&self) -> Option<u64> {
        self.word(F::CodePageSize)
    }

    /// Returns the piece of the AUX area.
    pub fn aux(&self) -> Option<RawBytes<'a>> {
        let at = self.offset(F::Aux)?;
        let len = usize::try_from(self.body.u64(at, self.layout.endian)?).ok()?;
        self.body.get(at + 8..at + 8 + len)
    }

    /// Returns true if the fields are plausible: they fill the record, and a stack dump's size is a
    /// multiple of the word size and not below its valid part (`perf_output_sample_ustack`). A
    /// corrupt size shifts all later fields. Also true for events with newer fields than this
    /// crate.
    pub fn is_consistent(&self) -> bool {
        if self.end != self.body.len() && self.layout.has_known_fields() {
            return false;
        }
        let Some(at) = self.offset(F::StackUser) else {
            return true;
        };
        let endian = self.layout.endian;
        let word = |at| self.body.u64(at, endian).unwrap_or(0);
        let size = word(at);
        size == 0 || size.is_multiple_of(8) && word(at + 8 + size as usize) <= size
    }

    /// Returns the bytes after the last known field: fields newer than this crate.
    pub fn rest(&self) -> RawBytes<'a> {
        self.body
            .get_from(self.end)
            .unwrap_or(RawBytes::from(&[][..]))
    }
}

/// Returns the length in bytes of a variable field; `None` if its count exceeds the body.
fn field_len(
    field: SampleField,
    body: &RawBytes<'_>,
    at: usize,
    layout: &SampleLayout,
) -> Option<usize> {
    let endian = layout.endian;
    let regs = |mask: u64| {
        let abi = body.u64(at, endian)?;
        Some(
            8 + if abi == 0 {
                0
            } else {
                mask.count_ones() as usize * 8
            },
        )
    };
    match field {
        F::Read => read_len(body, at, layout.read_format, endian),
        F::Callchain => counted(body, at, endian, 8, 0),
        F::Raw => (body.u32(at, endian)? as usize)
            .checked_add(4)?
            .checked_next_multiple_of(8),
        F::BranchStack => {
            let extra = usize::from(layout.branch.contains(BranchSampleType::HW_INDEX)) * 8;
            let counters = usize::from(layout.branch.contains(BranchSampleType::COUNTERS)) * 8;
            counted(body, at, endian, 24 + counters, extra)
        }
        F::RegsUser => regs(layout.regs_user),
        F::RegsIntr => regs(layout.regs_intr),
        F::StackUser => match body.u64(at, endian)? {
            0 => Some(8),
            len => usize::try_from(len).ok()?.checked_add(16),
        },
        F::Aux => counted(body, at, endian, 1, 0),
        F::Weight
        | F::DataSrc
        | F::Transaction
        | F::PhysAddr
        | F::Cgroup
        | F::DataPageSize
        | F::CodePageSize => Some(8),
    }
}

impl SampleField {
    /// Returns the name for messages.
    pub fn name(self) -> &'static str {
        match self {
            F::Read => "read values of a sample",
            F::Callchain => "callchain of a sample",
            F::Raw => "raw data of a sample",
            F::BranchStack => "branch stack of a sample",
            F::RegsUser => "user registers of a sample",
            F::StackUser => "user stack of a sample",
            F::Weight => "weight of a sample",
            F::DataSrc => "data source of a sample",
            F::Transaction => "transaction of a sample",
            F::RegsIntr => "interrupt registers of a sample",
            F::PhysAddr => "physical address of a sample",
            F::Cgroup => "cgroup of a sample",
            F::DataPageSize => "data page size of a sample",
            F::CodePageSize => "code page size of a sample",
            F::Aux => "AUX data of a sample",
        }
    }
}

impl SampleType {
    pub(crate) fn all_known() -> SampleType {
        (VARIABLE.iter()).fold(SampleType::all_fixed(), |all, (_, bits)| all.union(*bits))
    }

    fn all_fixed() -> SampleType {
        SampleType::IDENTIFIER
            | SampleType::IP
            | SampleType::TID
            | SampleType::TIME
            | SampleType::ADDR
            | SampleType::ID
            | SampleType::STREAM_ID
            | SampleType::CPU
            | SampleType::PERIOD
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attr::Attr;
    use crate::bytes::Endian;
    use crate::encode::SampleFields;
    use crate::header::Misc;

    fn with_dump(endian: Endian, more: SampleType) -> (Vec<u8>, SampleLayout) {
        let attr = Attr {
            sample_type: SampleType::IP | SampleType::STACK_USER | SampleType::DATA_SRC | more,
            sample_stack_user: 4096,
            ..Attr::default()
        };
        let layout = SampleLayout::new(&attr, endian);
        let fields = SampleFields {
            ip: 1,
            stack_user: vec![7; 4000],
            stack_user_reserved: 4096,
            ..SampleFields::default()
        };
        let mut record = Vec::new();
        fields
            .encode(Misc::USER, &layout, &mut record)
            .expect("it fits");
        (record.split_off(8), layout)
    }

    #[test]
    fn a_stack_dump_with_another_size_is_not_consistent() {
        for endian in [Endian::Little, Endian::Big] {
            let (whole, layout) = with_dump(endian, SampleType::empty());
            let is_consistent = |body: &[u8]| {
                let sample = Sample::parse(RawBytes::from(body), &layout);
                sample.map(|sample| sample.is_consistent()).ok()
            };
            assert_eq!(is_consistent(&whole), Some(true));
            for (size, expected) in [
                (0, Some(false)),
                (1, Some(false)),
                (4088, Some(false)),
                (4095, Some(false)),
                (u64::MAX, None),
            ] {
                let mut body = whole.clone();
                body[8..16].copy_from_slice(&endian.put_u64(size));
                assert_eq!(is_consistent(&body), expected, "{size}");
            }
            let mut body = whole.clone();
            body[16 + 4096..][..8].copy_from_slice(&endian.put_u64(4104));
            assert_eq!(is_consistent(&body), Some(false));
            let longer = [&whole[..], &[0; 8]].concat();
            assert_eq!(is_consistent(&longer), Some(false));
        }
    }

    #[test]
    fn fields_that_are_not_known_may_have_bytes_of_their_own() {
        let newer = SampleType::from_bits_retain(1 << 40);
        let (whole, layout) = with_dump(Endian::NATIVE, newer);
        let longer = [&whole[..], &[0; 8]].concat();
        let sample = Sample::parse(RawBytes::from(&longer[..]), &layout).expect("it fits");
        assert!(sample.is_consistent() && sample.rest().len() == 8);
    }
}
