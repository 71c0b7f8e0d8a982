//! Layouts of feature sections, byte by byte.
//!
//! Encoder and decoder could agree on a wrong layout. So these tests compose the bytes from the
//! structures in the kernel's `tools/perf/Documentation/perf.data-file-format.txt`, in
//! little-endian order. `perf.rs` compares further sections with perf's output.
//!
//! Sources of the layouts:
//!
//! - CPU_TOPOLOGY, NUMA_TOPOLOGY, PMU_MAPPINGS, NRCPUS, TOTAL_MEM, strings, CACHE, MEM_TOPOLOGY,
//!   COMPRESSED, capabilities: perf's own output, in `perf.rs`.
//! - EVENT_DESC, CMDLINE, GROUP_DESC: perf's own files, in `perf.rs`; bytes here.
//! - CACHE, MEM_TOPOLOGY, PMU_MAPPINGS, CPU_PMU_CAPS, PMU_CAPS, CLOCK_DATA: bytes here, from the
//!   document.
//! - BPF_PROG_INFO, BPF_BTF: bytes here, from `write_bpf_prog_info` and `write_bpf_btf` of
//!   `tools/perf/util/header.c`. Nothing else confirms them, because perf prints them only with
//!   `-vv`.
//! - CPU_DOMAIN_INFO: bytes here, from `write_cpu_domain_info` of newer perfs. Nothing else
//!   confirms it, because perf 6.1 does not support it.
//! - META_INFO: bytes here, from simpleperf's `record_file_format.h`. The simpleperf file in the
//!   corpus has one.

use rprof_perfdata::features::EventGroup;
use rprof_perfdata::features::bpf::{BpfBtf, BpfProgram};
use rprof_perfdata::features::domains::{CpuDomains, DomainsOfCpu, SchedulingDomain};
use rprof_perfdata::features::memory::{Cache, MemoryNode, MemoryTopology};
use rprof_perfdata::features::pmus::PmuCaps;
use rprof_perfdata::features::run::ClockData;
use rprof_perfdata::{EventDescription, Feature, FeatureSections};
use rprof_records::{Attr, Endian};

#[derive(Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn u32(mut self, numbers: &[u32]) -> Bytes {
        self.0.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
        self
    }

    fn u64(mut self, numbers: &[u64]) -> Bytes {
        self.0.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
        self
    }

    /// `struct perf_header_string`: a length with the NUL and padding to 64 bytes, as in perf's
    /// `do_write_string`, then the text.
    fn string(mut self, text: &str) -> Bytes {
        let len = (text.len() + 1).next_multiple_of(64);
        self = self.u32(&[len as u32]);
        let end = self.0.len() + len;
        self.0.extend_from_slice(text.as_bytes());
        self.0.resize(end, 0);
        self
    }

    fn raw(mut self, bytes: &[u8]) -> Bytes {
        self.0.extend_from_slice(bytes);
        self
    }
}

#[track_caller]
#[allow(clippy::needless_pass_by_value, reason = "callers make them for this")]
fn both_ways<T: PartialEq + std::fmt::Debug>(
    feature: Feature,
    bytes: Bytes,
    value: T,
    read: impl Fn(&FeatureSections) -> Option<T>,
    write: impl Fn(&mut FeatureSections, &T),
) {
    let mut sections = FeatureSections::new(Endian::Little);
    sections.insert(feature, bytes.0.clone());
    assert_eq!(read(&sections).as_ref(), Some(&value), "{feature}");
    let mut written = FeatureSections::new(Endian::Little);
    write(&mut written, &value);
    let found = written.get(feature).unwrap_or_default();
    assert_eq!(found, bytes.0, "{feature}");
}

#[test]
fn events_and_groups() {
    let attr = Attr {
        config: 7,
        ..Attr::default()
    };
    both_ways(
        Feature::EVENT_DESC,
        Bytes::default()
            .u32(&[1, 128])
            .raw(&attr.encode(Endian::Little, 128).unwrap())
            .u32(&[2])
            .string("cpu-clock")
            .u64(&[11, 12]),
        vec![EventDescription {
            attr,
            name: "cpu-clock".into(),
            ids: vec![11, 12],
        }],
        FeatureSections::event_descriptions,
        |sections, events| sections.insert_event_descriptions(events, 128),
    );
    both_ways(
        Feature::GROUP_DESC,
        Bytes::default().u32(&[1]).string("name").u32(&[3, 2]),
        vec![EventGroup {
            name: "name".into(),
            leader: 3,
            members: 2,
        }],
        FeatureSections::event_groups,
        |sections, groups| sections.insert_event_groups(groups),
    );
}

#[test]
fn machine() {
    both_ways(
        Feature::CMDLINE,
        Bytes::default().u32(&[2]).string("perf").string("record"),
        vec!["perf".to_owned(), "record".to_owned()],
        FeatureSections::command_line,
        |sections, line| sections.insert_command_line(line),
    );
    both_ways(
        Feature::NRCPUS,
        Bytes::default().u32(&[4, 2]),
        (4, 2),
        FeatureSections::cpu_counts,
        |sections, (available, online)| sections.insert_cpu_counts(*available, *online),
    );
    both_ways(
        Feature::CLOCK_DATA,
        Bytes::default().u32(&[1, 4]).u64(&[1 << 60, 99]),
        ClockData {
            version: 1,
            clockid: 4,
            wall_clock: 1 << 60,
            clock: 99,
        },
        FeatureSections::clock_data,
        FeatureSections::insert_clock_data,
    );
}

#[test]
fn memory() {
    both_ways(
        Feature::CACHE,
        Bytes::default()
            .u32(&[1, 1, 2, 64, 1024, 8])
            .string("Unified")
            .string("512K")
            .string("0-1"),
        vec![Cache {
            level: 2,
            line_size: 64,
            sets: 1024,
            ways: 8,
            kind: "Unified".into(),
            size: "512K".into(),
            cpus: "0-1".into(),
        }],
        FeatureSections::caches,
        |sections, caches| sections.insert_caches(caches),
    );
    // Version, block size, number of nodes; for each node its number, its bits, and the bitmap,
    // which starts with them again.
    both_ways(
        Feature::MEM_TOPOLOGY,
        Bytes::default().u64(&[1, 1 << 27, 1, 5, 70, 70, u64::MAX, 0x3f]),
        MemoryTopology {
            version: 1,
            block_size: 1 << 27,
            nodes: vec![MemoryNode {
                node: 5,
                bits: 70,
                bitmap: vec![u64::MAX, 0x3f],
            }],
        },
        FeatureSections::memory_topology,
        FeatureSections::insert_memory_topology,
    );
}

#[test]
fn pmus() {
    both_ways(
        Feature::PMU_MAPPINGS,
        Bytes::default().u32(&[1, 4]).string("cpu"),
        vec![(4, "cpu".to_owned())],
        FeatureSections::pmu_mappings,
        |sections, mappings| sections.insert_pmu_mappings(mappings),
    );
    let caps = vec![("max_precise".to_owned(), "3".to_owned())];
    both_ways(
        Feature::CPU_PMU_CAPS,
        Bytes::default().u32(&[1]).string("max_precise").string("3"),
        caps.clone(),
        FeatureSections::cpu_pmu_caps,
        |sections, caps| sections.insert_cpu_pmu_caps(caps),
    );
    both_ways(
        Feature::PMU_CAPS,
        Bytes::default()
            .u32(&[1, 1])
            .string("max_precise")
            .string("3")
            .string("cpu_atom"),
        vec![PmuCaps {
            pmu: "cpu_atom".into(),
            caps,
        }],
        FeatureSections::pmu_caps,
        |sections, all| sections.insert_pmu_caps(all),
    );
}

#[test]
fn bpf() {
    // `struct perf_bpil`: length of the info, length of the data, arrays, info, data.
    both_ways(
        Feature::BPF_PROG_INFO,
        Bytes::default()
            .u32(&[1, 8, 4])
            .u64(&[3])
            .raw(b"the info")
            .raw(b"data"),
        vec![BpfProgram {
            arrays: 3,
            info: b"the info".to_vec(),
            data: b"data".to_vec(),
        }],
        FeatureSections::bpf_programs,
        |sections, programs| sections.insert_bpf_programs(programs),
    );
    both_ways(
        Feature::BPF_BTF,
        Bytes::default().u32(&[1, 7, 4]).raw(b"BTF!"),
        vec![BpfBtf {
            id: 7,
            data: b"BTF!".to_vec(),
        }],
        FeatureSections::bpf_btf,
        |sections, blobs| sections.insert_bpf_btf(blobs),
    );
}

#[test]
fn scheduling_domains() {
    let domains = |version, name: Option<&str>| CpuDomains {
        schedstat_version: version,
        max_domains: 2,
        cpus: vec![DomainsOfCpu {
            cpu: 3,
            domains: vec![SchedulingDomain {
                number: 1,
                name: name.map(str::to_owned),
                mask: "00ff".into(),
                cpus: "0-7".into(),
            }],
        }],
    };
    let start = |version| Bytes::default().u32(&[version, 2, 3, 1, 1]);
    both_ways(
        Feature::CPU_DOMAIN_INFO,
        start(15).string("00ff").string("0-7"),
        domains(15, None),
        FeatureSections::cpu_domains,
        FeatureSections::insert_cpu_domains,
    );
    both_ways(
        Feature::CPU_DOMAIN_INFO,
        start(17).string("MC").string("00ff").string("0-7"),
        domains(17, Some("MC")),
        FeatureSections::cpu_domains,
        FeatureSections::insert_cpu_domains,
    );
}

#[test]
fn simpleperf() {
    both_ways(
        Feature::SIMPLEPERF_META_INFO,
        Bytes::default().raw(b"simpleperf_version\x001.build\0app\0\0"),
        vec![
            ("simpleperf_version".to_owned(), "1.build".to_owned()),
            ("app".to_owned(), String::new()),
        ],
        FeatureSections::simpleperf_meta_info,
        |sections, pairs| sections.insert_simpleperf_meta_info(pairs),
    );
}
