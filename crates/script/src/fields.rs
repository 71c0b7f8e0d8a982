//! Fields of samples, by name.

use rprof_records::{Attr, BranchSampleType, EventKind, SampleType, request_context};

/// Field of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "named as in the list below")]
pub enum OutputField {
    Comm,
    Tid,
    Pid,
    Time,
    Cpu,
    Event,
    Period,
    Trace,
    Ip,
    Sym,
    SymOff,
    Dso,
    Addr,
    IRegs,
    URegs,
    BrStack,
    BrStackSym,
    BrStackOff,
    Weight,
    InsLat,
    PStageCyc,
    DataSrc,
    PhysAddr,
    DataPageSize,
    CodePageSize,
    Cgroup,
    Read,
    Transaction,
    Id,
    StreamId,
    Raw,
    Stack,
    Misc,
    SrcLine,
    BpfOutput,
    HwIndex,
    BrCounters,
    Aux,
}

use OutputField as F;

/// Names, required sample bits, and perf's name of the required attribute.
const FIELDS: [(&str, OutputField, SampleType, &str); 38] = [
    ("comm", F::Comm, SampleType::empty(), ""),
    ("tid", F::Tid, SampleType::TID, "TID"),
    ("pid", F::Pid, SampleType::TID, "TID"),
    ("time", F::Time, SampleType::TIME, "TIME"),
    ("cpu", F::Cpu, SampleType::CPU, "CPU"),
    ("event", F::Event, SampleType::empty(), ""),
    ("period", F::Period, SampleType::empty(), ""),
    ("trace", F::Trace, SampleType::RAW, "RAW"),
    ("ip", F::Ip, SampleType::IP, "IP"),
    ("sym", F::Sym, SampleType::empty(), ""),
    ("symoff", F::SymOff, SampleType::empty(), ""),
    ("dso", F::Dso, SampleType::empty(), ""),
    ("addr", F::Addr, SampleType::ADDR, "ADDR"),
    ("iregs", F::IRegs, SampleType::REGS_INTR, "IREGS"),
    ("uregs", F::URegs, SampleType::REGS_USER, "UREGS"),
    (
        "brstack",
        F::BrStack,
        SampleType::BRANCH_STACK,
        "BRANCH_STACK",
    ),
    (
        "brstacksym",
        F::BrStackSym,
        SampleType::BRANCH_STACK,
        "BRANCH_STACK",
    ),
    (
        "brstackoff",
        F::BrStackOff,
        SampleType::BRANCH_STACK,
        "BRANCH_STACK",
    ),
    (
        "weight",
        F::Weight,
        SampleType::WEIGHT.union(SampleType::WEIGHT_STRUCT),
        "WEIGHT",
    ),
    (
        "ins_lat",
        F::InsLat,
        SampleType::WEIGHT_STRUCT,
        "WEIGHT_STRUCT",
    ),
    (
        "p_stage_cyc",
        F::PStageCyc,
        SampleType::WEIGHT_STRUCT,
        "WEIGHT_STRUCT",
    ),
    ("data_src", F::DataSrc, SampleType::DATA_SRC, "DATA_SRC"),
    ("phys_addr", F::PhysAddr, SampleType::PHYS_ADDR, "PHYS_ADDR"),
    (
        "data_page_size",
        F::DataPageSize,
        SampleType::DATA_PAGE_SIZE,
        "DATA_PAGE_SIZE",
    ),
    (
        "code_page_size",
        F::CodePageSize,
        SampleType::CODE_PAGE_SIZE,
        "CODE_PAGE_SIZE",
    ),
    ("cgroup", F::Cgroup, SampleType::CGROUP, "CGROUP"),
    ("read", F::Read, SampleType::READ, "READ"),
    (
        "transaction",
        F::Transaction,
        SampleType::TRANSACTION,
        "TRANSACTION",
    ),
    (
        "id",
        F::Id,
        SampleType::ID.union(SampleType::IDENTIFIER),
        "ID",
    ),
    ("stream_id", F::StreamId, SampleType::STREAM_ID, "STREAM_ID"),
    ("raw", F::Raw, SampleType::RAW, "RAW"),
    ("stack", F::Stack, SampleType::STACK_USER, "STACK_USER"),
    ("misc", F::Misc, SampleType::empty(), ""),
    ("srcline", F::SrcLine, SampleType::empty(), ""),
    ("bpf-output", F::BpfOutput, SampleType::RAW, "RAW"),
    (
        "hw_index",
        F::HwIndex,
        SampleType::BRANCH_STACK,
        "BRANCH_HW_INDEX",
    ),
    (
        "brcntr",
        F::BrCounters,
        SampleType::BRANCH_STACK,
        "BRANCH_COUNTERS",
    ),
    ("aux", F::Aux, SampleType::AUX, "AUX"),
];

impl OutputField {
    /// Returns all names, in help order.
    pub fn names() -> impl Iterator<Item = &'static str> {
        FIELDS.iter().map(|(name, ..)| *name)
    }

    pub(crate) fn by_name(name: &str) -> Option<OutputField> {
        FIELDS.iter().find(|f| f.0 == name).map(|f| f.1)
    }

    /// Returns the name of the field.
    pub fn name(self) -> &'static str {
        FIELDS[self as usize].0
    }

    pub(crate) fn is_recorded(self, attr: &Attr) -> bool {
        let (.., needed, _) = FIELDS[self as usize];
        let has = needed.is_empty() || attr.sample_type.intersects(needed);
        has && match self {
            F::HwIndex => (attr.branch_sample_type).contains(BranchSampleType::HW_INDEX),
            F::BrCounters => (attr.branch_sample_type).contains(BranchSampleType::COUNTERS),
            _ => true,
        }
    }

    /// Returns true if the field applies to an event: `trace` to tracepoints, `bpf-output` to the
    /// event of that name.
    pub(crate) fn applies_to(self, attr: &Attr) -> bool {
        match self {
            F::Trace => attr.kind == EventKind::TRACEPOINT,
            F::BpfOutput => {
                attr.kind == EventKind::SOFTWARE && attr.config == request_context::BPF_OUTPUT
            }
            _ => true,
        }
    }

    pub(crate) fn needed_attribute(self) -> &'static str {
        FIELDS[self as usize].3
    }
}

/// Set of printed fields, as in `-F`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FieldSet(u64);

impl FieldSet {
    /// Returns true if the set contains a field.
    pub fn has(self, field: OutputField) -> bool {
        self.0 & 1 << field as u8 != 0
    }

    /// Returns true if the set contains any of these fields.
    pub fn has_any(self, fields: &[OutputField]) -> bool {
        fields.iter().any(|f| self.has(*f))
    }

    /// Returns true if the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn add(&mut self, field: OutputField) {
        self.0 |= 1 << field as u8;
    }

    pub(crate) fn remove(&mut self, field: OutputField) {
        self.0 &= !(1 << field as u8);
    }

    /// Iterates over the fields, in the order of [`OutputField::names`].
    pub fn iter(self) -> impl Iterator<Item = OutputField> {
        (FIELDS.iter().map(|f| f.1)).filter(move |f| self.has(*f))
    }
}

impl FromIterator<OutputField> for FieldSet {
    fn from_iter<T: IntoIterator<Item = OutputField>>(fields: T) -> Self {
        let mut set = FieldSet::default();
        fields.into_iter().for_each(|f| set.add(f));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_fields() {
        for (i, (name, field, ..)) in FIELDS.iter().enumerate() {
            assert_eq!(*field as usize, i, "{name}");
            assert_eq!(field.name(), *name);
        }
    }
}
