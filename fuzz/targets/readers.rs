//! Every reader of a feature section.

use rprof_perfdata::FeatureSections;

/// Calls all readers. Returns the number of readable sections.
pub(crate) fn read_all(sections: &FeatureSections) -> usize {
    let strings = sections.iter().filter(|(feature, bytes)| {
        assert_eq!(sections.get(*feature), Some(*bytes));
        assert!(sections.has(*feature) && !feature.to_string().is_empty());
        sections.string(*feature).is_some()
    });
    let read = [
        sections.auxtrace_index().is_some(),
        sections.bpf_btf().is_some(),
        sections.bpf_programs().is_some(),
        sections.build_ids().is_some(),
        sections.cache_line_size().is_some(),
        sections.caches().is_some(),
        sections.clock_data().is_some(),
        sections.clock_resolution().is_some(),
        sections.command_line().is_some(),
        sections.compression().is_some(),
        sections.cpu_counts().is_some(),
        sections.cpu_domains().is_some(),
        sections.cpu_pmu_caps().is_some(),
        sections.cpu_topology().is_some(),
        sections.event_descriptions().is_some(),
        sections.event_groups().is_some(),
        sections.folder_version().is_some(),
        sections
            .embedded_files()
            .is_some_and(|files| files.iter().all(|file| file.contents().is_some())),
        sections.hybrid_pmus().is_some(),
        sections.memory_topology().is_some(),
        sections.numa_nodes().is_some(),
        sections.pmu_caps().is_some(),
        sections.pmu_mappings().is_some(),
        sections.rprof_notes().is_some(),
        sections.sample_time().is_some(),
        sections.simpleperf_meta_info().is_some(),
        sections.total_memory().is_some(),
        sections.tracing_data().is_some(),
    ];
    strings.count() + read.into_iter().filter(|read| *read).count()
}
