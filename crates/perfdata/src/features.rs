//! Feature sections: what the header says of the machine and the run.

use std::collections::BTreeMap;

use rprof_records::{Attr, Endian, Misc, RawBytes, RecordType, put_record};

/// Number of a feature: its bit in the header's bitmap (`HEADER_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Feature(pub u32);

macro_rules! features {
    ($($(#[$doc:meta])* $name:ident = $value:literal;)*) => {
        impl Feature {
            $($(#[$doc])* pub const $name: Feature = Feature($value);)*

            /// The name used in perf's header.h, if the number is known.
            pub fn name(self) -> Option<&'static str> {
                match self.0 { $($value => Some(stringify!($name)),)* _ => None }
            }
        }
    };
}

features! {
    /// Tracepoint formats.
    TRACING_DATA = 1;
    /// Build-ids of images.
    BUILD_ID = 2;
    /// Host name.
    HOSTNAME = 3;
    /// Kernel release.
    OSRELEASE = 4;
    /// Version of the recorder.
    VERSION = 5;
    /// Machine architecture, as uname(2) says.
    ARCH = 6;
    /// CPUs available and online.
    NRCPUS = 7;
    /// CPU model.
    CPUDESC = 8;
    /// CPU vendor, family, model, stepping.
    CPUID = 9;
    /// Memory in KiB.
    TOTAL_MEM = 10;
    /// The recorder's command line.
    CMDLINE = 11;
    /// Events with names and ids.
    EVENT_DESC = 12;
    /// Cores and threads.
    CPU_TOPOLOGY = 13;
    /// Memory nodes.
    NUMA_TOPOLOGY = 14;
    /// Samples hold branch stacks.
    BRANCH_STACK = 15;
    /// Names of PMU numbers.
    PMU_MAPPINGS = 16;
    /// Event groups.
    GROUP_DESC = 17;
    /// AUX traces.
    AUXTRACE = 18;
    /// Written by perf stat.
    STAT = 19;
    /// CPU caches.
    CACHE = 20;
    /// Time of the first and last sample.
    SAMPLE_TIME = 21;
    /// Memory blocks.
    MEM_TOPOLOGY = 22;
    /// Resolution of the clock.
    CLOCKID = 23;
    /// The data is in a folder.
    DIR_FORMAT = 24;
    /// BPF programs.
    BPF_PROG_INFO = 25;
    /// BPF type information.
    BPF_BTF = 26;
    /// Records are compressed.
    COMPRESSED = 27;
    /// Capabilities of the CPU's PMU.
    CPU_PMU_CAPS = 28;
    /// Clock and wall clock at one instant.
    CLOCK_DATA = 29;
    /// CPUs of each kind of core.
    HYBRID_TOPOLOGY = 30;
    /// Capabilities of other PMUs.
    PMU_CAPS = 31;
}

impl Feature {
    /// Bits in the header's bitmap.
    pub const MAX: u32 = 256;
}

impl std::fmt::Display for Feature {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "feature {}", self.0),
        }
    }
}

/// The build-id of an image that was mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildIdEntry {
    /// CPU mode of the image: [`Misc::KERNEL`] or [`Misc::USER`].
    pub misc: Misc,
    /// Process; -1 for "all".
    pub pid: i32,
    /// The build-id: 1 to 20 bytes.
    pub build_id: Vec<u8>,
    /// Path, or a name such as `[kernel.kallsyms]`.
    pub path: Vec<u8>,
}

/// An event as EVENT_DESC describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedEvent {
    /// How it was opened.
    pub attr: Attr,
    /// Its name.
    pub name: String,
    /// Ids of its instances.
    pub ids: Vec<u64>,
}

/// Set in a build-id record's `misc` when its length is said; before, 20 was meant.
const BUILD_ID_SIZE: u16 = 1 << 15;

/// Feature sections as bytes, with readers and writers for those that rprof
/// interprets. Readers answer `None` for a section that is absent or damaged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureSections {
    sections: BTreeMap<Feature, Vec<u8>>,
    endian: Option<Endian>,
}

impl FeatureSections {
    /// No sections; those added are written in `endian`.
    pub fn new(endian: Endian) -> FeatureSections {
        FeatureSections {
            sections: BTreeMap::new(),
            endian: Some(endian),
        }
    }

    fn endian(&self) -> Endian {
        self.endian.unwrap_or(Endian::NATIVE)
    }

    /// Adds a section as bytes.
    pub fn insert(&mut self, feature: Feature, bytes: Vec<u8>) {
        self.sections.insert(feature, bytes);
    }

    /// A section's bytes.
    pub fn get(&self, feature: Feature) -> Option<&[u8]> {
        self.sections.get(&feature).map(Vec::as_slice)
    }

    /// All sections in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (Feature, &[u8])> {
        self.sections.iter().map(|(f, b)| (*f, b.as_slice()))
    }

    /// A section that holds one string: HOSTNAME, OSRELEASE, VERSION, ARCH, CPUDESC, CPUID.
    pub fn string(&self, feature: Feature) -> Option<String> {
        Reader::new(self.get(feature)?, self.endian()).string()
    }

    /// Adds a section that holds one string.
    pub fn insert_string(&mut self, feature: Feature, text: &str) {
        let mut out = Vec::new();
        put_string(&mut out, text, self.endian());
        self.insert(feature, out);
    }

    /// The recorder's command line.
    pub fn command_line(&self) -> Option<Vec<String>> {
        let mut r = Reader::new(self.get(Feature::CMDLINE)?, self.endian());
        let count = r.u32()?;
        // Bounded by the section, not by what the count says.
        (0..count).map(|_| r.string()).collect()
    }

    /// Sets the command line.
    pub fn insert_command_line(&mut self, args: &[String]) {
        let endian = self.endian();
        let mut out = endian.put_u32(args.len() as u32).to_vec();
        for arg in args {
            put_string(&mut out, arg, endian);
        }
        self.insert(Feature::CMDLINE, out);
    }

    /// CPUs available, and of these online.
    pub fn cpu_counts(&self) -> Option<(u32, u32)> {
        let mut r = Reader::new(self.get(Feature::NRCPUS)?, self.endian());
        Some((r.u32()?, r.u32()?))
    }

    /// Sets the number of CPUs available, and of these online.
    pub fn insert_cpu_counts(&mut self, available: u32, online: u32) {
        let e = self.endian();
        let out = [e.put_u32(available), e.put_u32(online)].concat();
        self.insert(Feature::NRCPUS, out);
    }

    /// Memory in KiB.
    pub fn total_memory(&self) -> Option<u64> {
        Reader::new(self.get(Feature::TOTAL_MEM)?, self.endian()).u64()
    }

    /// Adds a section of 64-bit words: TOTAL_MEM, CLOCKID.
    pub fn insert_words(&mut self, feature: Feature, words: &[u64]) {
        let e = self.endian();
        self.insert(feature, words.iter().flat_map(|w| e.put_u64(*w)).collect());
    }

    /// Time of the first and of the last sample, in nanoseconds.
    pub fn sample_time(&self) -> Option<(u64, u64)> {
        let mut r = Reader::new(self.get(Feature::SAMPLE_TIME)?, self.endian());
        Some((r.u64()?, r.u64()?))
    }

    /// Build-ids of images.
    pub fn build_ids(&self) -> Option<Vec<BuildIdEntry>> {
        let (bytes, endian) = (self.get(Feature::BUILD_ID)?, self.endian());
        let mut entries = Vec::new();
        for walked in crate::walk::Walk::new(bytes, 0, endian) {
            entries.extend(build_id_entry(&walked.record));
        }
        Some(entries)
    }

    /// Sets the build-ids. An entry whose path is too long for a record is left out.
    pub fn insert_build_ids(&mut self, entries: &[BuildIdEntry]) {
        let endian = self.endian();
        let mut out = Vec::new();
        for entry in entries {
            let mut id = [0; 24];
            let len = entry.build_id.len().min(20);
            id[..len].copy_from_slice(&entry.build_id[..len]);
            id[20] = len as u8;
            let misc = Misc(entry.misc.0 | BUILD_ID_SIZE);
            // perf skips by the header's size; the type of these was never used.
            put_record(&mut out, RecordType(0), misc, endian, |out| {
                out.extend(endian.put_u32(entry.pid as u32));
                out.extend(id);
                out.extend_from_slice(&entry.path);
                // perf's reader wants the path padded to a multiple of 64.
                let padded = (entry.path.len() + 1).next_multiple_of(64);
                out.extend(std::iter::repeat_n(0, padded - entry.path.len()));
            })
            .ok();
        }
        self.insert(Feature::BUILD_ID, out);
    }

    /// Events with names and ids.
    pub fn event_descriptions(&self) -> Option<Vec<DescribedEvent>> {
        let mut r = Reader::new(self.get(Feature::EVENT_DESC)?, self.endian());
        let (count, attr_size) = (r.u32()?, r.u32()?);
        let mut events = Vec::new();
        for _ in 0..count {
            let attr = Attr::parse(&r.bytes(attr_size as usize)?, self.endian()).ok()?;
            let ids = r.u32()?;
            let name = r.string()?;
            let ids = (0..ids).map(|_| r.u64()).collect::<Option<_>>()?;
            events.push(DescribedEvent { attr, name, ids });
        }
        Some(events)
    }

    /// Sets the event descriptions; `attr_size` must hold every attr.
    pub fn insert_event_descriptions(&mut self, events: &[DescribedEvent], attr_size: usize) {
        let e = self.endian();
        let mut out = Vec::new();
        out.extend(e.put_u32(events.len() as u32));
        out.extend(e.put_u32(attr_size as u32));
        for event in events {
            let Ok(attr) = event.attr.encode(e, attr_size) else {
                return;
            };
            out.extend(attr);
            out.extend(e.put_u32(event.ids.len() as u32));
            put_string(&mut out, &event.name, e);
            out.extend(event.ids.iter().flat_map(|id| e.put_u64(*id)));
        }
        self.insert(Feature::EVENT_DESC, out);
    }
}

/// A build-id out of a section's entry or a pipe's HEADER_BUILD_ID record.
pub(crate) fn build_id_entry(record: &rprof_records::RawRecord<'_>) -> Option<BuildIdEntry> {
    let body = record.body;
    let id = body.get(4..28)?.to_cow();
    let len = match record.misc.0 & BUILD_ID_SIZE != 0 {
        true => usize::from(id[20]).min(20),
        false => 20,
    };
    Some(BuildIdEntry {
        misc: Misc(record.misc.0 & 7),
        pid: body.u32(0, record.endian)? as i32,
        build_id: id[..len].to_vec(),
        path: body.c_str(28)?.into_owned(),
    })
}

/// Strings are a 32-bit length that counts padding, and NULs up to it. perf
/// pads to a multiple of 64.
fn put_string(out: &mut Vec<u8>, text: &str, endian: Endian) {
    let len = (text.len() + 1).next_multiple_of(64);
    out.extend(endian.put_u32(len as u32));
    out.extend_from_slice(text.as_bytes());
    out.extend(std::iter::repeat_n(0, len - text.len()));
}

struct Reader<'a> {
    bytes: RawBytes<'a>,
    at: usize,
    endian: Endian,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8], endian: Endian) -> Reader<'a> {
        Reader {
            bytes: RawBytes::from(bytes),
            at: 0,
            endian,
        }
    }

    fn u32(&mut self) -> Option<u32> {
        self.at += 4;
        self.bytes.u32(self.at - 4, self.endian)
    }

    fn u64(&mut self) -> Option<u64> {
        self.at += 8;
        self.bytes.u64(self.at - 8, self.endian)
    }

    fn bytes(&mut self, len: usize) -> Option<std::borrow::Cow<'a, [u8]>> {
        let start = self.at;
        self.at = start.checked_add(len)?;
        Some(self.bytes.get(start..self.at)?.to_cow())
    }

    fn string(&mut self) -> Option<String> {
        let len = self.u32()? as usize;
        let bytes = self.bytes(len)?;
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_read() {
        for endian in [Endian::Little, Endian::Big] {
            let mut f = FeatureSections::new(endian);
            f.insert_string(Feature::HOSTNAME, "somewhere");
            f.insert_command_line(&["rprof".into(), "record".into()]);
            f.insert_cpu_counts(4, 2);
            f.insert_words(Feature::SAMPLE_TIME, &[5, 6]);
            let ids = [BuildIdEntry {
                misc: Misc::USER,
                pid: -1,
                build_id: vec![7; 16],
                path: b"/bin/true".to_vec(),
            }];
            f.insert_build_ids(&ids);
            let events = [DescribedEvent {
                attr: Attr::default(),
                name: "cpu-clock".into(),
                ids: vec![1, 2],
            }];
            f.insert_event_descriptions(&events, 128);
            assert_eq!(f.string(Feature::HOSTNAME).as_deref(), Some("somewhere"));
            assert_eq!(f.command_line().unwrap(), ["rprof", "record"]);
            assert_eq!(f.cpu_counts(), Some((4, 2)));
            assert_eq!(f.sample_time(), Some((5, 6)));
            assert_eq!(f.build_ids().unwrap(), ids);
            assert_eq!(f.event_descriptions().unwrap(), events);
        }
    }

    #[test]
    fn counts_are_not_trusted() {
        let mut f = FeatureSections::new(Endian::Little);
        f.insert(Feature::CMDLINE, vec![0xff; 12]);
        f.insert(Feature::EVENT_DESC, vec![0xff; 12]);
        f.insert(Feature::HOSTNAME, vec![0xff; 4]);
        assert_eq!(f.command_line(), None);
        assert_eq!(f.event_descriptions(), None);
        assert_eq!(f.string(Feature::HOSTNAME), None);
        assert_eq!(f.string(Feature::ARCH), None);
    }
}
