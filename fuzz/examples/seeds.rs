//! Writes the seeds of every target: `cargo run --example seeds -- FOLDER`.
//!
//! Everything is made here, but for the ELF files, which the C compiler makes.

use std::borrow::Cow;
use std::error::Error;
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::Command;

use rprof_perfdata::features::EventGroup;
use rprof_perfdata::features::bpf::{BpfBtf, BpfProgram};
use rprof_perfdata::features::domains::{CpuDomains, DomainsOfCpu, SchedulingDomain};
use rprof_perfdata::features::memory::{Cache, MemoryNode, MemoryTopology};
use rprof_perfdata::features::pmus::PmuCaps;
use rprof_perfdata::features::run::{AuxtraceEntry, ClockData};
use rprof_perfdata::features::topology::{CpuPlace, CpuTopology, HybridPmu, NumaNode};
use rprof_perfdata::{BuildIdEntry, EventDescription, Feature, FeatureSections, FileWriter};
use rprof_records::{
    Attr, AttrFlags, BranchEntry, BranchSampleType, Comm, Endian, EventKind, Lost, Misc, Mmap,
    Mmap2, MmapIdentity, RawBytes, RawRecord, ReadFormat, ReadValue, ReadValues, Record,
    RecordType, RegisterValues, SampleFields, SampleId, SampleLayout, SampleType, Task, put_record,
};

#[path = "seeds/jit.rs"]
mod jit;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const ORDERS: [Endian; 2] = [Endian::Little, Endian::Big];
const BUILD_ID: [u8; 20] = [7; 20];

fn main() -> Result<()> {
    let root = PathBuf::from(std::env::args().nth(1).ok_or("which folder?")?);
    record_decode(&Seeds::new(&root, "record_decode")?)?;
    let files = files()?;
    for target in ["file_reader", "analyse"] {
        let seeds = Seeds::new(&root, target)?;
        for (name, bytes) in &files {
            seeds.put(name, bytes)?;
        }
        for (name, records) in streams()? {
            let magic = match name.ends_with("big") {
                false => [*b"PERFILE2", 16u64.to_le_bytes()],
                true => [*b"2ELIFREP", 16u64.to_be_bytes()],
            };
            seeds.put(&name, &[&magic.concat()[..], &records[1..]].concat())?;
        }
    }
    let seeds = Seeds::new(&root, "pipe_reader")?;
    for (name, records) in streams()? {
        seeds.put(&name, &records)?;
    }
    feature_sections(&Seeds::new(&root, "feature_sections")?)?;
    process_map(&Seeds::new(&root, "process_map")?)?;
    tracepoint(&Seeds::new(&root, "tracepoint")?)?;
    elf_symbols(&Seeds::new(&root, "elf_symbols")?)?;
    kallsyms(&Seeds::new(&root, "kallsyms")?)?;
    demangle(&Seeds::new(&root, "demangle")?)?;
    jit::perf_maps(&Seeds::new(&root, "perf_map")?)?;
    jit::jitdumps(&Seeds::new(&root, "jitdump")?)?;
    Ok(())
}

/// The seeds of one target.
struct Seeds(PathBuf);

impl Seeds {
    fn new(root: &Path, target: &str) -> Result<Seeds> {
        let folder = root.join(target);
        fs::create_dir_all(&folder)?;
        Ok(Seeds(folder))
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<()> {
        Ok(fs::write(self.0.join(name), bytes)?)
    }
}

fn attr(sample_type: SampleType) -> Attr {
    let mut branches = BranchSampleType::ANY;
    branches.insert(BranchSampleType::HW_INDEX);
    Attr {
        kind: EventKind::SOFTWARE,
        period_or_freq: 999,
        sample_type,
        read_format: ReadFormat::ID | ReadFormat::TOTAL_TIME_ENABLED,
        flags: AttrFlags::SAMPLE_ID_ALL | AttrFlags::FREQ,
        branch_sample_type: branches,
        sample_regs_user: 0b1011,
        sample_regs_intr: 0b1,
        sample_stack_user: 64,
        ..Attr::default()
    }
}

/// What `rprof record` and `perf record -g` ask for.
fn usual() -> SampleType {
    SampleType::IDENTIFIER
        | SampleType::IP
        | SampleType::TID
        | SampleType::TIME
        | SampleType::CPU
        | SampleType::PERIOD
        | SampleType::CALLCHAIN
}

fn sample(time: u64, ip: u64, callchain: Vec<u64>) -> SampleFields {
    SampleFields {
        id: 1,
        ip,
        pid: 7,
        tid: 7,
        time,
        period: 1_000_000,
        read: ReadValues {
            time_enabled: Some(5),
            values: vec![ReadValue {
                value: 3,
                id: Some(1),
                lost: None,
            }],
            ..ReadValues::default()
        },
        callchain,
        raw: vec![9; 12],
        branches: vec![BranchEntry {
            from: 0x2000,
            to: 0x3000,
            flags: 1,
        }],
        branch_counters: vec![4],
        regs_user: RegisterValues {
            abi: 2,
            values: vec![1, 2, 3],
        },
        stack_user: vec![5; 16],
        stack_user_reserved: 24,
        regs_intr: RegisterValues {
            abi: 2,
            values: vec![1],
        },
        aux: vec![6; 8],
        ..SampleFields::default()
    }
}

fn name(text: &str) -> Cow<'_, [u8]> {
    Cow::Borrowed(text.as_bytes())
}

/// One of every record but samples.
fn every_record() -> Vec<(Misc, Record<'static>)> {
    let user = Misc::USER;
    let task = Task {
        pid: 8,
        ppid: 7,
        tid: 8,
        ptid: 7,
        time: 30,
    };
    let mmap2 = |identity, path| {
        Record::Mmap2(Mmap2 {
            pid: 7,
            tid: 7,
            start: 0x1000,
            len: 0x10_0000,
            pgoff: 0,
            identity,
            prot: 5,
            flags: 2,
            path: name(path),
        })
    };
    let identity = MmapIdentity::BuildId {
        len: 20,
        bytes: BUILD_ID,
    };
    let inode = MmapIdentity::Inode {
        major: 8,
        minor: 1,
        inode: 99,
        generation: 1,
    };
    let kernel = Record::Mmap(Mmap {
        pid: -1,
        tid: 0,
        start: 0xffff_ffff_8100_0000,
        len: 0x100_0000,
        pgoff: 0xffff_ffff_8100_0000,
        path: name("[kernel.kallsyms]_text"),
    });
    let module = Record::Mmap(Mmap {
        pid: -1,
        tid: 0,
        start: 0xffff_ffff_c000_0000,
        len: 0x1000,
        pgoff: 0,
        path: name("[module]"),
    });
    let read = Record::Read {
        pid: 7,
        tid: 7,
        values: sample(0, 0, Vec::new()).read,
    };
    vec![
        (Misc::KERNEL, kernel),
        (Misc::KERNEL, module),
        (
            user | Misc::COMM_EXEC,
            Record::Comm(Comm {
                pid: 7,
                tid: 7,
                name: name("a\x1b[31m;b"),
            }),
        ),
        (user, mmap2(identity, "/nonexistent/app")),
        (user, mmap2(inode, "//anon")),
        (user, mmap2(inode, "[vdso]")),
        (user, Record::Fork(task)),
        (user, Record::Exit(task)),
        (user, Record::Lost(Lost { id: 1, lost: 5 })),
        (
            user,
            Record::Throttle {
                time: 1,
                id: 1,
                stream_id: 1,
            },
        ),
        (
            user,
            Record::Unthrottle {
                time: 1,
                id: 1,
                stream_id: 1,
            },
        ),
        (user, read),
        (
            user,
            Record::Aux {
                offset: 0,
                size: 8,
                flags: 1,
            },
        ),
        (user, Record::ItraceStart { pid: 7, tid: 7 }),
        (user, Record::LostSamples { lost: 2 }),
        (user, Record::Switch),
        (
            user,
            Record::SwitchCpuWide {
                next_prev_pid: 7,
                next_prev_tid: 7,
            },
        ),
        (
            user,
            Record::Namespaces {
                pid: 7,
                tid: 7,
                links: vec![(4, 5), (6, 7)],
            },
        ),
        (
            user,
            Record::Ksymbol {
                addr: 0xffff_ffff_c100_0000,
                len: 64,
                ksym_type: 1,
                flags: 0,
                name: name("bpf_prog_x"),
            },
        ),
        (
            user,
            Record::BpfEvent {
                kind: 1,
                flags: 0,
                id: 3,
                tag: [1; 8],
            },
        ),
        (
            user,
            Record::Cgroup {
                id: 1,
                path: name("/a"),
            },
        ),
        (
            user,
            Record::TextPoke {
                addr: 0xffff_ffff_8100_1000,
                old_len: 2,
                new_len: 3,
                bytes: RawBytes::from(&[1, 2, 3, 4, 5][..]),
            },
        ),
        (user, Record::AuxOutputHwId { hw_id: 1 }),
        (
            user,
            Record::Other(RawRecord {
                kind: RecordType::FINISHED_ROUND,
                misc: Misc(0),
                body: RawBytes::from(&[][..]),
                endian: Endian::NATIVE,
            }),
        ),
    ]
}

fn sample_id() -> SampleId {
    SampleId {
        pid: Some(7),
        tid: Some(7),
        time: Some(1),
        id: Some(1),
        stream_id: Some(1),
        cpu: Some(0),
    }
}

/// Records of an event: what describes processes, then samples.
fn recording(layout: &SampleLayout) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    for (misc, record) in every_record() {
        record.encode(misc, layout, &sample_id(), &mut out)?;
    }
    let (kernel, user) = (-128i64 as u64, -512i64 as u64);
    let chains = [
        vec![user, 0x2000, 0x3001, 0x4001],
        vec![
            kernel,
            0xffff_ffff_8100_1010,
            0xffff_ffff_c000_0010,
            user,
            0x2000,
        ],
        vec![user, 0x2000, 0xdead_0000],
        vec![],
    ];
    for (time, chain) in (100..).zip(chains) {
        let ip = chain.get(1).copied().unwrap_or(0x2000);
        let misc = match chain.first() {
            Some(first) if *first == kernel => Misc::KERNEL,
            _ => Misc::USER,
        };
        sample(time, ip, chain).encode(misc, layout, &mut out)?;
    }
    Ok(out)
}

fn record_decode(seeds: &Seeds) -> Result<()> {
    let all = SampleType::from_bits_retain((1 << 25) - 1);
    let mut types: Vec<(String, SampleType)> = (0..25)
        .map(|bit| {
            (
                format!("bit{bit}"),
                SampleType::from_bits_retain(1 << bit) | SampleType::IP,
            )
        })
        .collect();
    types.push(("all".into(), all));
    types.push(("usual".into(), usual()));
    for endian in ORDERS {
        let order = match endian {
            Endian::Little => "little",
            Endian::Big => "big",
        };
        let start = [u8::from(endian == Endian::Big), 40, 0];
        for (name, sample_type) in &types {
            let attr = attr(*sample_type);
            let layout = SampleLayout::new(&attr, endian);
            let mut out = start.to_vec();
            out.extend(attr.encode(endian, attr.needed_size())?);
            sample(5, 6, vec![1, 2]).encode(Misc::USER, &layout, &mut out)?;
            seeds.put(&format!("{name}-{order}"), &out)?;
        }
        let mut group = attr(usual() | SampleType::READ);
        group.read_format = ReadFormat::from_bits_retain(31);
        for (name, attr) in [("records", attr(usual())), ("group", group)] {
            let layout = SampleLayout::new(&attr, endian);
            for (number, (misc, record)) in every_record().into_iter().enumerate() {
                let mut out = start.to_vec();
                out.extend(attr.encode(endian, 144)?);
                record.encode(misc, &layout, &sample_id(), &mut out)?;
                seeds.put(&format!("{name}{number}-{order}"), &out)?;
            }
        }
    }
    Ok(())
}

fn descriptions() -> Vec<EventDescription> {
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

fn sections(endian: Endian) -> FeatureSections {
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

/// Sections about the machine and the run that few recordings have all of.
fn machine(features: &mut FeatureSections) {
    let pair = || ("key".to_owned(), "value".to_owned());
    let cpus = || "0-1".to_owned();
    features.insert_cpu_topology(&CpuTopology {
        sockets: vec![cpus()],
        cores: vec!["0".into(), "1".into()],
        dies: vec![cpus()],
        cpus: [0, 1]
            .map(|core| CpuPlace {
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
    features.insert_private(&[pair()]);
    features.insert_simpleperf_meta_info(&[pair()]);
}

fn files() -> Result<Vec<(String, Vec<u8>)>> {
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
    // A recorder that was killed.
    let mut out = Cursor::new(Vec::new());
    let mut writer = FileWriter::create(&mut out, descriptions())?;
    let layout = SampleLayout::new(&descriptions()[0].attr, Endian::NATIVE);
    writer.write_records(&recording(&layout)?)?;
    writer.checkpoint()?;
    drop(writer);
    files.push(("killed".into(), out.into_inner()));
    Ok(files)
}

/// A recording of a group, whose first event reads the counts of both.
fn group_file() -> Result<Vec<u8>> {
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

/// The records in two COMPRESSED records, cut where no record ends.
fn compressed(records: &[u8], endian: Endian) -> Result<Vec<u8>> {
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

/// Streams, with the byte of options that `pipe_reader` has first.
fn streams() -> Result<Vec<(String, Vec<u8>)>> {
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

/// One of every record that recorders write themselves, with little numbers in it.
fn user_records(head: &[u8], endian: Endian) -> Result<Vec<u8>> {
    let mut out = head.to_vec();
    for number in (68..=84).filter(|number| !matches!(number, 80 | 81 | 83)) {
        let kind = RecordType(number);
        // A count of one first, as most have; a payload of one byte.
        put_record(&mut out, kind, Misc(0), endian, |out| {
            out.extend((1..9).flat_map(|word| endian.put_u64(word)));
        })?;
        if kind == RecordType::AUXTRACE {
            out.push(0);
        }
    }
    Ok(out)
}

fn build_id_record(entries: &[u8], endian: Endian) -> Result<Vec<u8>> {
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

fn feature_sections(seeds: &Seeds) -> Result<()> {
    for (endian, order) in ORDERS.into_iter().zip(["little", "big"]) {
        let mut features = sections(endian);
        features.insert_event_descriptions(&descriptions(), 128);
        for (feature, bytes) in features.iter() {
            seeds.put(&format!("{feature}-{order}"), bytes)?;
        }
    }
    Ok(())
}

fn process_map(seeds: &Seeds) -> Result<()> {
    // See the target for what the bytes mean: a map, one over it, an exec, a fork.
    let map = |time: u8, pid: u8, start: u8, len: u8, path: u8| {
        vec![time << 6, pid, start, len, 0, path, 0]
    };
    let huge = |time: u8, start: u8, len: u8, path: u8| {
        vec![time << 6, 1, 0xc0 + start, 0xc0 + len, 0, path, 0]
    };
    let maps = [map(1, 1, 4, 16, 0), map(1, 1, 8, 4, 1), map(0, 1, 2, 8, 3)].concat();
    let fork = vec![0x4a, 2, 1, 2, 1];
    let exec = vec![0x57, 1, 1, b'x'];
    let exit = vec![0x4f, 2, 2];
    let moved = [huge(1, 1, 4, 0), huge(1, 2, 1, 3)].concat();
    let kernel = vec![0x70, 0xff, 0xe1, 0xbf, 0, 8, 0];
    let all = [&maps[..], &fork, &maps, &exec, &maps, &exit, &kernel].concat();
    for options in 0..4u8 {
        for (name, bytes) in [("maps", &maps), ("moved", &moved), ("all", &all)] {
            let bytes = [&[options][..], bytes].concat();
            seeds.put(&format!("{name}{options}"), &bytes)?;
        }
    }
    Ok(())
}

/// A description of a tracepoint with fields of many kinds, and this print format.
fn format_file(print: &str) -> String {
    let fields = [
        ("unsigned short common_type", 0, 2, 0),
        ("unsigned char common_flags", 2, 1, 0),
        ("unsigned char common_preempt_count", 3, 1, 0),
        ("int common_pid", 4, 4, 1),
        ("int i", 8, 4, 1),
        ("unsigned long flags", 16, 8, 0),
        ("char comm[8]", 24, 8, 0),
        ("__data_loc char[] name", 32, 4, 0),
        ("__rel_loc u16[] words", 36, 4, 0),
        ("void * ip", 40, 8, 0),
        ("__u8 v4[4]", 48, 4, 0),
    ];
    let mut text = String::from("name: event\nID: 42\nformat:\n");
    for (declaration, offset, size, signed) in fields {
        text +=
            &format!("\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n");
    }
    text + "\nprint fmt: " + print + "\n"
}

/// The payload of a sample of it.
fn payload(endian: Endian) -> Vec<u8> {
    let mut out = vec![0; 8];
    out.extend(endian.put_u32(-5i32 as u32));
    out.extend([0; 4]);
    out.extend(endian.put_u64(0x83));
    out.extend(b"worker\0x");
    out.extend(endian.put_u32(6 << 16 | 56));
    out.extend(endian.put_u32(4 << 16 | 24));
    out.extend(endian.put_u64(0xffff_ffff_8100_0010));
    out.extend([127, 0, 0, 1, 0, 0, 0, 0]);
    out.extend(b"hello\0\0\0\x01\x00\x02\x00");
    out
}

/// A TRACING_DATA section with one description.
fn tracing_data(text: &str, endian: Endian) -> Vec<u8> {
    let mut out = b"\x17\x08Dtracing0.6\0".to_vec();
    out.extend([u8::from(endian == Endian::Big), 8]);
    out.extend(endian.put_u32(4096));
    for header in [&b"header_page\0"[..], b"header_event\0"] {
        out.extend_from_slice(header);
        out.extend(endian.put_u64(0));
    }
    out.extend(endian.put_u32(0));
    out.extend(endian.put_u32(1));
    out.extend(b"system\0");
    out.extend(endian.put_u32(1));
    out.extend(endian.put_u64(text.len() as u64));
    out.extend(text.as_bytes());
    out.extend(endian.put_u32(0));
    let strings = b"0x1234 : \"a string\"\n";
    out.extend(endian.put_u32(strings.len() as u32));
    out.extend(strings);
    out.extend(endian.put_u64(0));
    out
}

fn tracepoint(seeds: &Seeds) -> Result<()> {
    let prints = [
        r#""i=%d comm=%s", REC->i, REC->comm"#,
        r#""%s %-10s|%5.2s", __get_str(name), __get_str(name), REC->comm"#,
        r#""%s", __print_flags(REC->flags, "|", { 1, "A" }, { 1 << 1, "B" }, { 0x80UL, "C" })"#,
        r#""%s", __print_symbolic(REC->i & 3, { 0, "zero" }, { 3, "three" })"#,
        r#""%pS %pI4 %p", REC->ip, REC->v4, (void *)REC->ip"#,
        r#""%s", __print_hex(REC->v4, 4)"#,
        r#""%s", __print_array(__get_rel_dynamic_array(words), 2, 2)"#,
        r#""%llu.%03lu", (unsigned long long)REC->flags / 1000ULL, REC->flags % 1000"#,
        r#""%s%x", REC->i < 0 ? "neg" : "pos", ~REC->i >> 2 | (REC->i && !REC->flags)"#,
        r#""%*pbl", 32, REC->v4"#,
        r#""%c%%%#o%+d%08lx", REC->i, REC->i, REC->i, sizeof(REC->flags)"#,
        r#""%d", jiffies(REC->i)"#,
    ];
    for (number, print) in prints.into_iter().enumerate() {
        let endian = ORDERS[number % 2];
        let payload = payload(endian);
        let mut out = vec![(number % 2) as u8, payload.len() as u8];
        out.extend(payload);
        out.extend(format_file(print).as_bytes());
        seeds.put(&format!("print{number}"), &out)?;
    }
    for (endian, order) in ORDERS.into_iter().zip(["little", "big"]) {
        let text = format_file(prints[0]);
        seeds.put(&format!("section-{order}"), &tracing_data(&text, endian))?;
    }
    Ok(())
}

/// A recording of a tracepoint, with its description.
fn tracepoint_file() -> Result<Vec<u8>> {
    let mut attr = attr(usual() | SampleType::RAW);
    (attr.kind, attr.config) = (EventKind::TRACEPOINT, 42);
    let layout = SampleLayout::new(&attr, Endian::NATIVE);
    let mut sample = sample(5, 0x2000, vec![-512i64 as u64, 0x2000]);
    sample.raw = payload(Endian::NATIVE);
    let mut records = Vec::new();
    sample.encode(Misc::USER, &layout, &mut records)?;
    let mut out = Cursor::new(Vec::new());
    let event = EventDescription {
        attr,
        name: "system:event".into(),
        ids: vec![1],
    };
    let mut writer = FileWriter::create(&mut out, vec![event])?;
    writer.write_records(&records)?;
    let mut features = FeatureSections::new(Endian::NATIVE);
    let text = format_file(r#""i=%d %s %pS", REC->i, __get_str(name), REC->ip"#);
    features.insert(Feature::TRACING_DATA, tracing_data(&text, Endian::NATIVE));
    writer.finish(features)?;
    Ok(out.into_inner())
}

fn elf_symbols(seeds: &Seeds) -> Result<()> {
    let source = "int g(void); static int h(void) { return 3; } \
                  int f(void) { return g() + h(); } int e(void) { return f(); }";
    let folder = std::env::temp_dir().join("rprof-fuzz-seeds");
    fs::create_dir_all(&folder)?;
    let path = folder.join("a.c");
    fs::write(&path, source)?;
    let common = [
        "-nostdlib",
        "-Os",
        "-Wl,-z,noseparate-code",
        "-Wl,-z,max-page-size=64",
    ];
    for (name, flags) in [
        ("shared", &["-shared", "-fPIC", "-Wl,--build-id"][..]),
        ("stripped", &["-shared", "-fPIC", "-s"]),
        ("object", &["-c"]),
        ("m32", &["-c", "-m32"]),
    ] {
        let out = folder.join(name);
        let status = Command::new("cc")
            .args(common)
            .args(flags)
            .arg(&path)
            .arg("-o")
            .arg(&out)
            .status()?;
        if status.success() {
            seeds.put(name, &fs::read(&out)?)?;
        }
    }
    fs::remove_dir_all(&folder)?;
    Ok(())
}

fn kallsyms(seeds: &Seeds) -> Result<()> {
    seeds.put(
        "usual",
        b"0000000000000000 A fixed_percpu_data\nffffffff81000000 T _stext\n\
          ffffffff81000000 T _text\nffffffff81000100 t f\nffffffff81000100 t g\n\
          ffffffff82000000 T _etext\nffffffff82000000 D _sdata\n\
          ffffffffc0000000 t h\t[module]\nffffffffc0001000 t b\t[bpf]\n",
    )?;
    seeds.put(
        "hidden",
        b"0000000000000000 T _text\n0000000000000000 T f\n",
    )?;
    seeds.put(
        "odd",
        b"ffffffffffffffff T x\n1 t\n\n2 W \xff\n3 T $x\n4 w y [m] z\n",
    )
}

fn demangle(seeds: &Seeds) -> Result<()> {
    for (number, name) in [
        "_ZN4core3fmt9Formatter3pad17h0123456789abcdefE",
        "_RNvCs1234_7mycrate3foo",
        "_RINvNtC3std3mem8align_ofdE",
        "_RNvXs_C3fooINtB4_3BarpEINtB4_3BazRSTmxEE3qux",
        "_ZNSt6vectorIiSaIiEE9push_backEOi",
        "_ZN1AIN1BIN1CIiEEEEE1fEv.cold",
        "_ZZ4mainENKUlvE_clEv",
        "_ZNSt8ios_base4InitC1Ev@@GLIBCXX_3.4",
        "_Z1fIiJdcEEvT_DpT0_@plt",
        "_ZL1fPFivE",
        "_ZThn16_N1A1fEv",
        "main",
    ]
    .into_iter()
    .enumerate()
    {
        seeds.put(&format!("name{number}"), name.as_bytes())?;
    }
    Ok(())
}
