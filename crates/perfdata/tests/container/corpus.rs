//! Real captures, if available: record counts match the index.

use std::collections::BTreeMap;

use rprof_perfdata::{PerfData, UserRecord};
use rprof_records::{RecordType, Sample};

use crate::made;

/// Names in the index that are shorter than perf's own.
fn number(name: &str) -> u32 {
    match name {
        "ATTR" => RecordType::HEADER_ATTR.0,
        "FEATURE" => RecordType::HEADER_FEATURE.0,
        "TRACING_DATA" => RecordType::HEADER_TRACING_DATA.0,
        "EVENT_TYPE" => RecordType::HEADER_EVENT_TYPE.0,
        "BUILD_ID" => RecordType::HEADER_BUILD_ID.0,
        "LOST_SAMPLES" => RecordType::LOST_SAMPLES.0,
        name => match name.strip_prefix('t').and_then(|n| n.parse().ok()) {
            Some(number) => number,
            None => (0..100)
                .find(|n| RecordType(*n).name() == Some(name))
                .unwrap_or(u32::MAX),
        },
    }
}

#[test]
fn record_counts_are_those_of_the_index() {
    let Some(corpus) = rprof_testing::corpus_file("perfdata") else {
        return;
    };
    let index = std::fs::read_to_string(corpus.join("INDEX.tsv")).unwrap();
    let mut lines = index.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split('\t').collect();
    let column = |name| names.iter().position(|n| *n == name).unwrap();
    let (file, records, compressed) = (column("file"), column("records"), column("compressed"));
    let (perf_rc, perf_count) = (
        column("perf612_script_rc"),
        column("perf612_script_samples"),
    );
    for line in lines {
        let fields: Vec<&str> = line.split('\t').collect();
        let Ok(data) = PerfData::open(&corpus.join(fields[file])) else {
            // perf must not read it either.
            assert_eq!(fields[perf_count], "0", "{line}");
            continue;
        };
        let counts = made::counts(&data);
        let said: BTreeMap<u32, u64> = (fields[records].split_whitespace())
            .filter_map(|one| one.rsplit_once(':'))
            .map(|(name, count)| (number(name), count.parse().unwrap()))
            .collect();
        // The index counts compressed records as stored. In one file, it mistakes 2,800 bytes of
        // records for tracepoint formats.
        if fields[file].ends_with("perf_sched_stat_runtime.data") {
            let right = BTreeMap::from([(1, 11651), (3, 1957), (7, 1399), (9, 2430), (66, 1)]);
            assert_eq!(counts, right);
        } else if fields[compressed] == "no" {
            assert_eq!(counts, said, "{}", fields[file]);
        } else {
            let plain = said.iter().filter(|(k, _)| ![81, 83].contains(*k));
            for (kind, count) in plain {
                assert!(counts.get(kind) >= Some(count), "{}: {kind}", fields[file]);
            }
        }
        // perf derives further samples from AUX traces.
        if fields[perf_rc] == "0" && fields[perf_count] != "0" && !fields[file].contains("_pt") {
            let mut samples = counts.get(&9).copied().unwrap_or(0);
            // perf shows a group read once for each member.
            let first = &data.events().list()[0].attr;
            if first.read_format.contains(rprof_records::ReadFormat::GROUP)
                && first.sample_type.contains(rprof_records::SampleType::READ)
            {
                samples *= data.events().list().len() as u64;
            }
            let samples = samples.to_string();
            assert_eq!(samples, fields[perf_count], "{}", fields[file]);
        }
    }
}

/// Reading and writing traces reproduces their bytes.
#[test]
fn traces_of_captures_are_written_back_to_the_byte() {
    let Some(file) = rprof_testing::corpus_file("perfdata/quipper/perf.data.intel_pt-4.14") else {
        return;
    };
    let data = PerfData::open(&file).unwrap();
    let (mut infos, mut traces) = (0, 0);
    for block in data.blocks() {
        for walked in block.unwrap().walk() {
            let (record, endian) = (&walked.record, data.endian());
            let mut written = Vec::new();
            match UserRecord::decode(record) {
                Ok(UserRecord::AuxtraceInfo(info)) => {
                    info.encode(endian, &mut written).unwrap();
                    infos += 1;
                }
                Ok(UserRecord::Auxtrace(trace)) => {
                    trace.encode(walked.payload, endian, &mut written).unwrap();
                    assert!(written.ends_with(walked.payload));
                    written.truncate(written.len() - walked.payload.len());
                    traces += 1;
                }
                _ => continue,
            }
            assert_eq!(written[8..], *record.body.to_cow());
            assert_eq!(written.len(), record.size());
        }
    }
    assert!(infos == 1 && traces > 1, "{infos}, {traces}");
}

#[test]
fn records_of_captures_are_known_and_their_samples_consistent() {
    let mut found = Vec::new();
    for path in rprof_testing::recordings() {
        let Ok(data) = PerfData::open(&path) else {
            continue;
        };
        let (mut unknown, mut inconsistent) = (0, 0);
        for block in data.blocks().map_while(Result::ok) {
            for walked in block.walk() {
                let record = &walked.record;
                unknown += u64::from(!record.kind.is_known());
                if record.kind == RecordType::SAMPLE
                    && let Some(layout) = data.events().layout_of(record)
                    && let Ok(sample) = Sample::parse(record.body, layout)
                {
                    inconsistent += u64::from(!sample.is_consistent());
                }
            }
        }
        let sections = data.features().iter().map(|(feature, _)| feature);
        let sections = sections.filter(|feature| feature.name().is_none()).count();
        if (unknown, inconsistent, sections) != (0, 0, 0) {
            let name = path.file_name().unwrap_or_default();
            found.push((
                name.to_string_lossy().into_owned(),
                unknown,
                inconsistent,
                sections,
            ));
        }
    }
    // Fuzzer output may contain anything.
    found.retain(|(name, ..)| !name.starts_with("poc-") && !name.starts_with("clusterfuzz-"));
    assert_eq!(found, []);
}
