//! Whole recordings: files with all sections, and pipe streams.

use super::*;

pub(crate) fn descriptions() -> Vec<EventDescription> {
    vec![
        EventDescription {
            attr: attr(usual()),
            name: "cpu-clock:u".into(),
            ids: vec![1, 2],
        },
        EventDescription {
            attr: attr(usual()),
            name: "dummy".into(),
            ids: vec![3],
        },
    ]
}

pub(crate) fn sections(endian: Endian) -> FeatureSections {
    let mut features = FeatureSections::new(endian);
    for feature in [
        Feature::HOSTNAME,
        Feature::OSRELEASE,
        Feature::VERSION,
        Feature::ARCH,
    ] {
        features.insert_string(feature, "x86_64");
    }
    features.insert_command_line(&["rprof".into(), "record".into()]);
    features.insert_cpu_counts(2, 2);
    features.insert_words(Feature::TOTAL_MEM, &[1 << 20]);
    features.insert_words(Feature::SAMPLE_TIME, &[1, 200]);
    let entry = |misc, path: &str| BuildIdEntry {
        misc,
        pid: -1,
        build_id: BUILD_ID.to_vec(),
        path: path.into(),
    };
    features.insert_build_ids(&[
        entry(Misc::USER, "/nonexistent/app"),
        entry(Misc::KERNEL, "[kernel.kallsyms]"),
    ]);
    machine(&mut features);
    features
}

/// Adds sections about the machine and the run. Few recordings have all of them.
pub(crate) fn machine(features: &mut FeatureSections) {
    let pair = || ("key".to_owned(), "value".to_owned());
    let cpus = || "0-1".to_owned();
    features.insert_cpu_topology(&CpuTopology {
        sockets: vec![cpus()],
        cores: vec!["0".into(), "1".into()],
        dies: vec![cpus()],
        cpus: [0, 1]
            .map(|core| CpuTopologyEntry {
                core,
                socket: 0,
                die: Some(0),
            })
            .to_vec(),
    });
    features.insert_numa_nodes(&[NumaNode {
        node: 0,
        total: 1 << 20,
        free: 1 << 10,
        cpus: cpus(),
    }]);
    features.insert_hybrid_pmus(&[HybridPmu {
        pmu: "cpu_core".into(),
        cpus: cpus(),
    }]);
    features.insert_caches(&[Cache {
        level: 1,
        line_size: 64,
        sets: 64,
        ways: 8,
        kind: "Data".into(),
        size: "32K".into(),
        cpus: cpus(),
    }]);
    features.insert_memory_topology(&MemoryTopology {
        version: 1,
        block_size: 1 << 27,
        nodes: vec![MemoryNode {
            node: 0,
            bits: 70,
            bitmap: vec![u64::MAX, 63],
        }],
    });
    features.insert_cpu_domains(&CpuDomains {
        schedstat_version: 17,
        max_domains: 1,
        cpus: vec![DomainsOfCpu {
            cpu: 0,
            domains: vec![SchedulingDomain {
                number: 0,
                name: Some("SMT".into()),
                mask: "3".into(),
                cpus: cpus(),
            }],
        }],
    });
    features.insert_pmu_mappings(&[(1, "software".into()), (4, "cpu".into())]);
    features.insert_cpu_pmu_caps(&[pair()]);
    features.insert_pmu_caps(&[PmuCaps {
        pmu: "cpu_core".into(),
        caps: vec![pair(), pair()],
    }]);
    features.insert_event_groups(&[EventGroup {
        name: "{a,b}".into(),
        leader: 0,
        members: 2,
    }]);
    features.insert_clock_data(&ClockData {
        version: 1,
        clockid: 1,
        wall_clock: 5,
        clock: 6,
    });
    features.insert_bpf_programs(&[BpfProgram {
        arrays: 1,
        info: vec![1; 16],
        data: vec![2; 8],
    }]);
    features.insert_bpf_btf(&[BpfBtf {
        id: 1,
        data: vec![3; 8],
    }]);
    features.insert_auxtrace_index(&[AuxtraceEntry {
        offset: 8,
        size: 16,
    }]);
    features.insert_cache_line_size(64);
    features.insert_rprof_notes(&[pair()]);
    features.insert_simpleperf_meta_info(&[pair()]);
}

pub(crate) fn files() -> Result<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    let (one, all) = (1, descriptions().len());
    for (name, events) in [("one", one), ("two", all)] {
        let events = descriptions()[..events].to_vec();
        let layout = SampleLayout::new(&events[0].attr, Endian::NATIVE);
        let records = recording(&layout)?;
        for (kind, records) in [
            ("plain", records.clone()),
            ("zstd", compressed(&records, Endian::NATIVE)?),
        ] {
            let mut out = Cursor::new(Vec::new());
            let mut writer = FileWriter::create(&mut out, events.clone())?;
            writer.write_records(&records)?;
            writer.finish(sections(Endian::NATIVE))?;
            files.push((format!("{name}-{kind}"), out.into_inner()));
        }
    }
    files.push(("tracepoint".into(), tracepoint_file()?));
    files.push(("group".into(), group_file()?));
    // A killed recorder.
    let mut out = Cursor::new(Vec::new());
    let mut writer = FileWriter::create(&mut out, descriptions())?;
    let layout = SampleLayout::new(&descriptions()[0].attr, Endian::NATIVE);
    writer.write_records(&recording(&layout)?)?;
    writer.checkpoint()?;
    drop(writer);
    files.push(("killed".into(), out.into_inner()));
    Ok(files)
}

/// Returns a recording of a group. Its leader reads the counts of both events.
pub(crate) fn group_file() -> Result<Vec<u8>> {
    let mut events = descriptions();
    for event in &mut events {
        event.attr.sample_type = usual() | SampleType::READ;
        event.attr.read_format = ReadFormat::GROUP | ReadFormat::ID;
    }
    events[1].attr.period_or_freq = 0;
    let layout = SampleLayout::new(&events[0].attr, Endian::NATIVE);
    let mut records = Vec::new();
    for (time, counts) in [
        (2, [(1, 50), (3, 5)]),
        (1, [(1, 20), (3, 5)]),
        (3, [(2, 9), (4, 1)]),
    ] {
        let mut sample = sample(time, 0x2000, vec![-512i64 as u64, 0x2000]);
        let value = |(id, value)| ReadValue {
            value,
            id: Some(id),
            lost: None,
        };
        sample.read.values = counts.map(value).to_vec();
        sample.encode(Misc::USER, &layout, &mut records)?;
    }
    let mut out = Cursor::new(Vec::new());
    let mut writer = FileWriter::create(&mut out, events)?;
    writer.write_records(&records)?;
    writer.finish(sections(Endian::NATIVE))?;
    Ok(out.into_inner())
}

pub(crate) fn compressed(records: &[u8], endian: Endian) -> Result<Vec<u8>> {
    let stream = zstd::stream::encode_all(records, 3)?;
    let (first, second) = stream.split_at(stream.len() / 2);
    let mut out = Vec::new();
    for piece in [first, second] {
        put_record(&mut out, RecordType::COMPRESSED, Misc(0), endian, |out| {
            out.extend_from_slice(piece);
        })?;
    }
    Ok(out)
}

/// Returns streams, after the option byte of `pipe_reader`.
pub(crate) fn streams() -> Result<Vec<(String, Vec<u8>)>> {
    let mut streams = Vec::new();
    for (endian, order) in ORDERS.into_iter().zip(["little", "big"]) {
        let mut head = vec![u8::from(endian == Endian::Big)];
        for event in descriptions() {
            put_record(&mut head, RecordType::HEADER_ATTR, Misc(0), endian, |out| {
                out.extend(event.attr.encode(endian, 128).expect("short enough"));
                out.extend(event.ids.iter().flat_map(|id| endian.put_u64(*id)));
            })?;
            put_record(
                &mut head,
                RecordType::EVENT_UPDATE,
                Misc(0),
                endian,
                |out| {
                    out.extend(endian.put_u64(2));
                    out.extend(endian.put_u64(event.ids[0]));
                    out.extend_from_slice(b"named\0\0\0");
                },
            )?;
        }
        for (feature, bytes) in sections(endian).iter() {
            if feature == Feature::BUILD_ID {
                head.extend_from_slice(&build_id_record(bytes, endian)?);
                continue;
            }
            put_record(
                &mut head,
                RecordType::HEADER_FEATURE,
                Misc(0),
                endian,
                |out| {
                    out.extend(endian.put_u64(u64::from(feature.0)));
                    out.extend_from_slice(bytes);
                },
            )?;
        }
        put_record(
            &mut head,
            RecordType::HEADER_TRACING_DATA,
            Misc(0),
            endian,
            |out| {
                out.extend(endian.put_u32(8));
            },
        )?;
        head.extend([1; 8]);
        let layout = SampleLayout::new(&descriptions()[0].attr, endian);
        let records = recording(&layout)?;
        streams.push((
            format!("stream-{order}"),
            [&head[..], &records[..]].concat(),
        ));
        let packed = compressed(&records, endian)?;
        streams.push((format!("stream-user-{order}"), user_records(&head, endian)?));
        streams.push((
            format!("stream-zstd-{order}"),
            [&head[..], &packed[..]].concat(),
        ));
    }
    Ok(streams)
}

/// Returns one of every user record type, with small numbers in it.
pub(crate) fn user_records(head: &[u8], endian: Endian) -> Result<Vec<u8>> {
    let mut out = head.to_vec();
    for number in (68..=84).filter(|number| !matches!(number, 80 | 81 | 83)) {
        let kind = RecordType(number);
        // A count of one first, as in most types; a payload of one byte.
        put_record(&mut out, kind, Misc(0), endian, |out| {
            out.extend((1..9).flat_map(|word| endian.put_u64(word)));
        })?;
        if kind == RecordType::AUXTRACE {
            out.push(0);
        }
    }
    Ok(out)
}

pub(crate) fn build_id_record(entries: &[u8], endian: Endian) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(raw) = entries
        .get(at..)
        .and_then(|b| RawRecord::parse(b.into(), endian))
    {
        put_record(
            &mut out,
            RecordType::HEADER_BUILD_ID,
            raw.misc,
            endian,
            |out| {
                out.extend_from_slice(&raw.body.to_cow());
            },
        )?;
        at += raw.size();
    }
    Ok(out)
}
