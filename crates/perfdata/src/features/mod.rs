//! Feature sections: the header's data about the machine and the run.
//!
//! BRANCH_STACK and STAT are empty: see [`FeatureSections::has`]. Other sections stay bytes.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use rprof_records::Endian;

use crate::contents::Contents;

pub mod bpf;
pub mod build_ids;
mod codec;
pub mod domains;
pub mod embedded;
pub mod events;
pub mod inode_build_ids;
pub mod machine;
pub mod memory;
pub mod numbers;
pub mod pmus;
pub mod rprof_notes;
pub mod run;
pub mod simpleperf;
pub mod topology;
pub mod tracing_data;

pub use build_ids::BuildIdEntry;
pub use embedded::{EmbeddedFile, EmbeddedKind};
pub use events::{DescribedEvent, EventGroup};
pub use numbers::Feature;

pub(crate) use build_ids::{build_id_entry, put_build_id};
pub(crate) use codec::text;
use codec::{Decoder, Encoder};

#[derive(Clone)]
enum Bytes {
    Owned(Vec<u8>),
    /// Range of the file, not copied: a hostile header can list 256 sections that each span it.
    InFile(Arc<Contents>, Range<usize>),
}

impl Bytes {
    fn get(&self) -> &[u8] {
        match self {
            Bytes::Owned(bytes) => bytes,
            Bytes::InFile(contents, range) => contents.get(range.clone()).unwrap_or_default(),
        }
    }
}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.get().len())
    }
}

/// Feature sections as bytes, with typed accessors for the sections that rprof interprets.
///
/// Accessors return `None` for a missing or damaged section. The section's length limits their
/// allocations, not a count in it. Invalid UTF-8 in strings is replaced; [`get`](Self::get) returns
/// the bytes.
#[derive(Clone, Debug, Default)]
pub struct FeatureSections {
    sections: BTreeMap<Feature, Bytes>,
    endian: Option<Endian>,
    is_cut: bool,
}

impl PartialEq for FeatureSections {
    fn eq(&self, other: &Self) -> bool {
        self.endian() == other.endian() && self.iter().eq(other.iter())
    }
}

impl Eq for FeatureSections {}

impl FeatureSections {
    /// Creates an empty set. Sections added later are encoded in `endian`.
    pub fn new(endian: Endian) -> FeatureSections {
        FeatureSections {
            sections: BTreeMap::new(),
            endian: Some(endian),
            is_cut: false,
        }
    }

    /// Creates an empty set of a file whose recorder ended before it wrote the sections.
    pub(crate) fn unwritten(endian: Endian) -> FeatureSections {
        FeatureSections {
            is_cut: true,
            ..FeatureSections::new(endian)
        }
    }

    /// Returns true if the file ends before its sections do, such as an interrupted copy, or if the
    /// recorder ended before it wrote them.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    pub(crate) fn mark_cut(&mut self) {
        self.is_cut = true;
    }

    /// Returns the byte order of the sections.
    pub fn endian(&self) -> Endian {
        self.endian.unwrap_or(Endian::NATIVE)
    }

    /// Adds a section as bytes, or replaces it.
    pub fn insert(&mut self, feature: Feature, bytes: Vec<u8>) {
        self.sections.insert(feature, Bytes::Owned(bytes));
    }

    pub(crate) fn insert_in_file(
        &mut self,
        feature: Feature,
        contents: &Arc<Contents>,
        range: Range<usize>,
    ) {
        self.sections
            .insert(feature, Bytes::InFile(Arc::clone(contents), range));
    }

    /// Removes a section.
    pub fn remove(&mut self, feature: Feature) {
        self.sections.remove(&feature);
    }

    /// Keeps only the sections that `keep` accepts.
    pub fn retain(&mut self, mut keep: impl FnMut(Feature) -> bool) {
        self.sections.retain(|feature, _| keep(*feature));
    }

    /// Returns true if the section exists, even if it is empty.
    pub fn has(&self, feature: Feature) -> bool {
        self.sections.contains_key(&feature)
    }

    /// Returns a section's bytes.
    pub fn get(&self, feature: Feature) -> Option<&[u8]> {
        self.sections.get(&feature).map(Bytes::get)
    }

    /// Iterates over all sections in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (Feature, &[u8])> {
        self.sections.iter().map(|(f, b)| (*f, b.get()))
    }

    /// Returns the number of sections.
    pub fn len(&self) -> usize {
        self.sections.len()
    }

    /// Returns true if there are no sections.
    pub fn is_empty(&self) -> bool {
        self.sections.is_empty()
    }

    fn decoder(&self, feature: Feature) -> Option<Decoder<'_>> {
        Some(Decoder::new(self.get(feature)?, self.endian()))
    }

    fn encode(&mut self, feature: Feature, write: impl FnOnce(&mut Encoder)) {
        let mut out = Encoder::new(self.endian());
        write(&mut out);
        self.insert(feature, out.bytes);
    }
}

#[cfg(test)]
pub(crate) fn in_both_orders(mut test: impl FnMut(&mut FeatureSections)) {
    for endian in [Endian::Little, Endian::Big] {
        test(&mut FeatureSections::new(endian));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_not_trusted() {
        for fill in [0xff, 0x7f, 0x01] {
            for len in [0, 4, 8, 12, 13, 64, 200] {
                let mut f = FeatureSections::new(Endian::Little);
                for number in 0..Feature::MAX {
                    f.insert(Feature(number), vec![fill; len]);
                }
                read_all(&f);
            }
        }
    }

    fn read_all(f: &FeatureSections) {
        f.command_line();
        f.cpu_counts();
        f.event_descriptions();
        f.event_groups();
        f.build_ids();
        f.cpu_topology();
        f.numa_nodes();
        f.hybrid_pmus();
        f.caches();
        f.memory_topology();
        f.cpu_domains();
        f.pmu_mappings();
        f.cpu_pmu_caps();
        f.pmu_caps();
        f.compression();
        f.clock_data();
        f.auxtrace_index();
        f.bpf_programs();
        f.bpf_btf();
        f.simpleperf_meta_info();
        f.rprof_notes();
        f.embedded_files();
        f.tracing_data();
    }

    #[test]
    fn absent_is_none() {
        let f = FeatureSections::new(Endian::Big);
        assert_eq!(f.string(Feature::ARCH), None);
        assert_eq!(f.command_line(), None);
        assert!(f.is_empty() && !f.has(Feature::STAT));
    }
}
