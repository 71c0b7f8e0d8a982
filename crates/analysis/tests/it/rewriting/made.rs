//! Random recordings.

use std::borrow::Cow;
use std::io::Cursor;

use proptest::prelude::*;
use rprof_perfdata::{
    BuildIdEntry, EventDescription, Feature, FeatureSections, FileWriter, RecordWriter,
    WriteOptions,
};
use rprof_records::{
    Attr, AttrFlags, BuildId, Comm, ContextMarker, Endian, EventKind, Lost, Misc, Mmap2,
    MmapIdentity, Record, SampleFields, SampleId, SampleLayout, SampleType, Task,
};

#[derive(Clone, Debug)]
pub(crate) enum Made {
    Comm(i32, i32, String, bool),
    Map(i32, u64, u64, usize, bool),
    Fork(i32, i32, i32),
    Exit(i32, i32),
    Lost(u64),
    Throttle,
    Symbol(u64, String),
    Sample {
        event: usize,
        pid: i32,
        tid: i32,
        kernel: Vec<u64>,
        user: Vec<u64>,
        period: u64,
    },
}

pub(crate) fn any_made() -> impl Strategy<Value = Made> {
    let pid = || prop_oneof![1..5i32, Just(0), Just(-1)];
    let address = || prop_oneof![(0x1000..0x5000u64), any::<u64>()];
    let kernel = prop_oneof![
        (0xffff_ffff_8100_0000..0xffff_ffff_8100_1000u64),
        (0xffff_ffff_c000_0000..0xffff_ffff_c000_3000u64),
    ];
    let chain = |address| prop::collection::vec(address, 0..4);
    prop_oneof![
        1 => (pid(), pid(), "[a-z ;]{1,15}", any::<bool>())
            .prop_map(|(pid, tid, name, exec)| Made::Comm(pid, tid, name, exec)),
        2 => (pid(), 1..5u64, 1..4u64, 0..PATHS.len(), any::<bool>())
            .prop_map(|(pid, at, pages, path, id)| Made::Map(pid, at << 12, pages << 12, path, id)),
        1 => (pid(), pid(), pid()).prop_map(|(pid, tid, parent)| Made::Fork(pid, tid, parent)),
        1 => (pid(), pid()).prop_map(|(pid, tid)| Made::Exit(pid, tid)),
        1 => prop_oneof![(1..9u64).prop_map(Made::Lost), Just(Made::Throttle)],
        1 => (0xffff_ffff_c000_0000..0xffff_ffff_c000_2000u64, "[a-z_]{1,9}")
            .prop_map(|(at, name)| Made::Symbol(at, name)),
        6 => (0..3usize, pid(), pid(), chain(kernel.boxed()), chain(address().boxed()), 0..99u64)
            .prop_map(|(event, pid, tid, kernel, user, period)| Made::Sample {
                event, pid, tid, kernel, user, period,
            }),
    ]
}

const PATHS: [&str; 5] = ["/nowhere/a", "/nowhere/b", "[vdso]", "//anon", "[heap]"];

/// Returns events that all have an identifier first.
fn events(count: usize) -> Vec<EventDescription> {
    let common = SampleType::IDENTIFIER | SampleType::IP | SampleType::TID | SampleType::TIME;
    let kinds = [
        common | SampleType::CALLCHAIN | SampleType::PERIOD | SampleType::CPU,
        common | SampleType::CALLCHAIN | SampleType::ADDR | SampleType::RAW,
        common | SampleType::PERIOD,
    ];
    (kinds.into_iter().take(count).zip(0..))
        .map(|(sample_type, number)| EventDescription {
            attr: Attr {
                kind: EventKind::SOFTWARE,
                config: number,
                period_or_freq: 7,
                sample_type,
                flags: AttrFlags::SAMPLE_ID_ALL,
                ..Attr::default()
            },
            name: format!("event {number}"),
            ids: vec![10 * number + 1, 10 * number + 2],
        })
        .collect()
}

fn encode(events: &[EventDescription], time: u64, made: &Made, endian: Endian, out: &mut Vec<u8>) {
    let event = match made {
        Made::Sample { event, .. } => event % events.len(),
        _ => time as usize % events.len(),
    };
    let layout = SampleLayout::new(&events[event].attr, endian);
    let id = events[event].ids[time as usize % 2];
    let text = |text: &str| Cow::Owned(text.as_bytes().to_vec());
    let mut misc = Misc::USER;
    let record = match made {
        Made::Comm(pid, tid, name, exec) => {
            if *exec {
                misc = misc | Misc::COMM_EXEC;
            }
            Record::Comm(Comm {
                pid: *pid,
                tid: *tid,
                name: text(name),
            })
        }
        Made::Map(pid, start, len, path, with_id) => Record::Mmap2(Mmap2 {
            pid: *pid,
            tid: *pid,
            start: *start,
            len: *len,
            pgoff: 0,
            identity: match with_id {
                true => MmapIdentity::BuildId(BuildId::new(&[*path as u8; 20]).unwrap()),
                false => MmapIdentity::Inode {
                    major: 8,
                    minor: 1,
                    inode: *path as u64,
                    generation: 0,
                },
            },
            prot: 5,
            flags: 2,
            path: text(PATHS[*path]),
        }),
        Made::Fork(pid, tid, parent) => Record::Fork(task(*pid, *tid, *parent, time)),
        Made::Exit(pid, tid) => Record::Exit(task(*pid, *tid, *pid, time)),
        Made::Lost(lost) => Record::Lost(Lost { id, lost: *lost }),
        Made::Throttle => Record::Throttle {
            time,
            id,
            stream_id: id,
        },
        Made::Symbol(addr, name) => Record::Ksymbol {
            addr: *addr,
            len: 0x800,
            ksym_type: 1,
            flags: 0,
            name: text(name),
        },
        Made::Sample {
            pid,
            tid,
            kernel,
            user,
            period,
            ..
        } => {
            if user.is_empty() {
                misc = Misc::KERNEL;
            }
            let chain: Vec<u64> = (std::iter::once(&ContextMarker::KERNEL.0).chain(kernel))
                .chain(std::iter::once(&ContextMarker::USER.0).chain(user))
                .copied()
                .collect();
            let sample = SampleFields {
                id,
                ip: user.first().or(kernel.first()).copied().unwrap_or(0),
                pid: *pid,
                tid: *tid,
                time,
                cpu: 1,
                period: *period,
                callchain: chain,
                raw: vec![1; 12],
                ..SampleFields::default()
            };
            sample.encode(misc, &layout, out).expect("short");
            return;
        }
    };
    let trailer = SampleId {
        time: Some(time),
        id: Some(id),
        ..SampleId::default()
    };
    record.encode(misc, &layout, &trailer, out).expect("short");
}

fn task(pid: i32, tid: i32, parent: i32, time: u64) -> Task {
    Task {
        pid,
        ppid: parent,
        tid,
        ptid: parent,
        time,
    }
}

/// Writes a file. With `here`, it claims this machine, so that names come from the kernel's symbol
/// list.
pub(crate) fn file(
    count: usize,
    all: &[(u64, Made)],
    here: bool,
    options: WriteOptions,
) -> Vec<u8> {
    let events = events(count);
    let mut records = Vec::new();
    for (time, made) in all {
        encode(&events, *time, made, options.endian, &mut records);
    }
    let mut out = Cursor::new(Vec::new());
    let mut writer = FileWriter::create_with(&mut out, events, options).expect("memory");
    writer.write_records(&records).expect("memory");
    let mut features = FeatureSections::new(options.endian);
    features.insert_build_ids(&[BuildIdEntry {
        misc: Misc::USER,
        pid: -1,
        build_id: vec![3; 20],
        path: PATHS[0].into(),
    }]);
    if here {
        let files = ["/proc/sys/kernel/hostname", "/proc/sys/kernel/osrelease"];
        for (feature, file) in [Feature::HOSTNAME, Feature::OSRELEASE]
            .into_iter()
            .zip(files)
        {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            features.insert_string(feature, text.trim_end());
        }
    }
    writer.finish(features).expect("memory");
    out.into_inner()
}
