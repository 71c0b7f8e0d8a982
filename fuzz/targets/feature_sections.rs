//! Parses bytes as every feature section, in both byte orders. Writes valid sections, and reads
//! them again.
//!
//! Input: the bytes of a section.

use rprof_perfdata::{Feature, FeatureSections};
use rprof_records::Endian;

use super::readers::read_all;

/// All feature numbers below this are tested, and some higher ones.
const NUMBERS: u32 = 40;

pub(crate) fn run(data: &[u8]) {
    let features = || (0..NUMBERS).chain(128..136).chain([200, 255]).map(Feature);
    for endian in [Endian::Little, Endian::Big] {
        let mut sections = FeatureSections::new(endian);
        for feature in features() {
            sections.insert(feature, data.to_vec());
        }
        read_all(&sections);
        // Bytes and their meaning are equal in both byte orders.
        if let Some(text) = sections.string(Feature::HOSTNAME) {
            let mut again = FeatureSections::new(endian);
            again.insert_string(Feature::HOSTNAME, &text);
            assert_eq!(again.string(Feature::HOSTNAME), Some(text));
        }
        numbers(&sections, endian);
        build_ids(&sections, endian);
        topology(&sections, endian);
        events(&sections, endian);
        others(&sections, endian);
    }
}

fn numbers(sections: &FeatureSections, endian: Endian) {
    let mut again = FeatureSections::new(endian);
    if let Some((available, online)) = sections.cpu_counts() {
        again.insert_cpu_counts(available, online);
        assert_eq!(again.cpu_counts(), Some((available, online)));
    }
    if let Some(memory) = sections.total_memory() {
        again.insert_words(Feature::TOTAL_MEM, &[memory]);
        assert_eq!(again.total_memory(), Some(memory));
    }
    if let Some((first, last)) = sections.sample_time() {
        again.insert_words(Feature::SAMPLE_TIME, &[first, last]);
        assert_eq!(again.sample_time(), Some((first, last)));
    }
    if let Some(bytes) = sections.cache_line_size() {
        again.insert_cache_line_size(bytes);
        assert_eq!(again.cache_line_size(), Some(bytes));
    }
}

fn build_ids(sections: &FeatureSections, endian: Endian) {
    let entries = sections.build_ids().unwrap_or_default();
    assert!(entries.iter().all(|e| e.build_id.len() <= 20));
    let mut again = FeatureSections::new(endian);
    again.insert_build_ids(&entries);
    let fits = |path: &[u8]| path.len() < 65_000;
    if entries.iter().all(|e| fits(&e.path)) {
        assert_eq!(again.build_ids(), Some(entries));
    }
}

/// Another section has the number of CPUs.
fn topology(sections: &FeatureSections, endian: Endian) {
    let Some(topology) = sections.cpu_topology() else {
        return;
    };
    let count = topology.cpus.len() as u32;
    let mut again = FeatureSections::new(endian);
    again.insert_cpu_counts(count, count);
    again.insert_cpu_topology(&topology);
    assert_eq!(again.cpu_topology(), Some(topology));
}

fn events(sections: &FeatureSections, endian: Endian) {
    let Some(mut events) = sections.event_descriptions() else {
        return;
    };
    let size = (events.iter())
        .map(|e| e.attr.needed_size())
        .fold(64, usize::max);
    let mut again = FeatureSections::new(endian);
    again.insert_event_descriptions(&events, size);
    // Zero bytes after the newest known field may be added or removed.
    for event in &mut events {
        event.attr.rest.resize(size.saturating_sub(144), 0);
    }
    assert_eq!(again.event_descriptions(), Some(events));
}

/// Sections that are written exactly as read.
fn others(sections: &FeatureSections, endian: Endian) {
    macro_rules! again {
        ($($read:ident $write:ident;)*) => {
            $(if let Some(value) = sections.$read() {
                let mut again = FeatureSections::new(endian);
                again.$write(&value);
                assert_eq!(again.$read(), Some(value), stringify!($read));
            })*
        };
    }
    again! {
        auxtrace_index insert_auxtrace_index;
        bpf_btf insert_bpf_btf;
        bpf_programs insert_bpf_programs;
        caches insert_caches;
        clock_data insert_clock_data;
        command_line insert_command_line;
        compression insert_compression;
        cpu_domains insert_cpu_domains;
        cpu_pmu_caps insert_cpu_pmu_caps;
        event_groups insert_event_groups;
        hybrid_pmus insert_hybrid_pmus;
        memory_topology insert_memory_topology;
        numa_nodes insert_numa_nodes;
        pmu_caps insert_pmu_caps;
        pmu_mappings insert_pmu_mappings;
        rprof_notes insert_rprof_notes;
        simpleperf_meta_info insert_simpleperf_meta_info;
    }
}
