//! Encoded records decode to equal ones, in both byte orders, and at any wrap-around of a ring
//! buffer.

use std::borrow::Cow;

use proptest::prelude::*;
use rprof_records::{
    Attr, AttrFlags, BranchEntry, BranchFlags, BranchSampleType, BuildId, Comm, Endian, Lost, Misc,
    Mmap, Mmap2, MmapIdentity, RawBytes, RawRecord, ReadFormat, ReadValue, ReadValues, Record,
    RegisterValues, Sample, SampleFields, SampleId, SampleLayout, SampleType, Task,
};

fn endian() -> impl Strategy<Value = Endian> {
    prop_oneof![Just(Endian::Little), Just(Endian::Big)]
}

fn bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..max)
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(1u8..=255, 0..64)
}

prop_compose! {
    fn attr()(
        sample_type in 0u64..1 << 25,
        read_format in 0u64..1 << 5,
        branch in 0u64..4,
        regs_user in any::<u64>(),
        regs_intr in any::<u64>(),
        sample_id_all in any::<bool>(),
    ) -> Attr {
        let mut branches = BranchSampleType::ANY;
        branches.set(BranchSampleType::HW_INDEX, branch & 1 != 0);
        branches.set(BranchSampleType::COUNTERS, branch & 2 != 0);
        let mut flags = AttrFlags::empty();
        flags.set(AttrFlags::SAMPLE_ID_ALL, sample_id_all);
        Attr {
            sample_type: SampleType::from_bits_retain(sample_type),
            read_format: ReadFormat::from_bits_retain(read_format),
            branch_sample_type: branches,
            sample_regs_user: regs_user,
            sample_regs_intr: regs_intr,
            flags,
            ..Attr::default()
        }
    }
}

/// Exactly the fields of `attr`, so that the decoded result can be compared as a whole.
fn fields(attr: &Attr) -> impl Strategy<Value = SampleFields> + use<> {
    let attr = attr.clone();
    let has = {
        let t = attr.sample_type;
        move |bits| t.intersects(bits)
    };
    let words = proptest::collection::vec(any::<u64>(), 18);
    let lists = (
        proptest::collection::vec(any::<u64>(), 0..20),
        bytes(64),
        proptest::collection::vec((any::<u64>(), any::<u64>(), any::<u64>()), 0..5),
        bytes(128),
        bytes(40),
        (0u64..3, 0u64..3),
        proptest::collection::vec((any::<u64>(), any::<u64>(), any::<u64>()), 0..4),
    );
    (words, lists).prop_map(
        move |(w, (chain, raw, branches, stack, aux, abis, reads))| {
            let word = |i: usize, bits| if has(bits) { w[i] } else { 0 };
            let regs = |abi: u64, mask: u64, bits| {
                let count = if abi == 0 {
                    0
                } else {
                    mask.count_ones() as u64
                };
                match has(bits) {
                    true => RegisterValues {
                        abi,
                        values: (0..count).map(|i| w[17].wrapping_mul(i + 1)).collect(),
                    },
                    false => RegisterValues::default(),
                }
            };
            let format = attr.read_format;
            let mut read = ReadValues::default();
            if has(SampleType::READ) {
                read.time_enabled = format
                    .contains(ReadFormat::TOTAL_TIME_ENABLED)
                    .then_some(w[0]);
                read.time_running = format
                    .contains(ReadFormat::TOTAL_TIME_RUNNING)
                    .then_some(w[1]);
                read.values = (reads.iter())
                    .map(|(value, id, lost)| ReadValue {
                        value: *value,
                        id: format.contains(ReadFormat::ID).then_some(*id),
                        lost: format.contains(ReadFormat::LOST).then_some(*lost),
                    })
                    .collect();
                if !format.contains(ReadFormat::GROUP) {
                    let one = read.values.first().copied().unwrap_or(ReadValue {
                        value: w[2],
                        id: format.contains(ReadFormat::ID).then_some(w[3]),
                        lost: format.contains(ReadFormat::LOST).then_some(w[4]),
                    });
                    read.values = vec![one];
                }
            }
            let branches: Vec<BranchEntry> = match has(SampleType::BRANCH_STACK) {
                true => (branches.iter())
                    .map(|(from, to, flags)| BranchEntry {
                        from: *from,
                        to: *to,
                        flags: BranchFlags(*flags),
                    })
                    .collect(),
                false => Vec::new(),
            };
            let with_branch =
                |bit| has(SampleType::BRANCH_STACK) && attr.branch_sample_type.contains(bit);
            let counters = with_branch(BranchSampleType::COUNTERS);
            let mut raw = if has(SampleType::RAW) {
                raw
            } else {
                Vec::new()
            };
            if has(SampleType::RAW) {
                // The kernel counts its padding as payload.
                raw.resize((raw.len() + 4).next_multiple_of(8) - 4, 0);
            }
            let reserved = if has(SampleType::STACK_USER) {
                stack.len() as u64
            } else {
                0
            };
            let stack = if reserved > 0 {
                stack[..stack.len() / 2].to_vec()
            } else {
                Vec::new()
            };
            SampleFields {
                id: word(0, SampleType::IDENTIFIER | SampleType::ID),
                ip: word(1, SampleType::IP),
                pid: word(2, SampleType::TID) as i32,
                tid: word(3, SampleType::TID) as i32,
                time: word(4, SampleType::TIME),
                addr: word(5, SampleType::ADDR),
                stream_id: word(6, SampleType::STREAM_ID),
                cpu: word(7, SampleType::CPU) as u32,
                period: word(8, SampleType::PERIOD),
                read,
                callchain: if has(SampleType::CALLCHAIN) {
                    chain
                } else {
                    Vec::new()
                },
                raw,
                hw_index: if with_branch(BranchSampleType::HW_INDEX) {
                    w[9]
                } else {
                    0
                },
                branch_counters: if counters {
                    branches.iter().map(|b| b.from).collect()
                } else {
                    Vec::new()
                },
                branches,
                regs_user: regs(abis.0, attr.sample_regs_user, SampleType::REGS_USER),
                stack_user: stack,
                stack_user_reserved: reserved,
                weight: word(10, SampleType::WEIGHT | SampleType::WEIGHT_STRUCT),
                data_src: word(11, SampleType::DATA_SRC),
                transaction: word(12, SampleType::TRANSACTION),
                regs_intr: regs(abis.1, attr.sample_regs_intr, SampleType::REGS_INTR),
                phys_addr: word(13, SampleType::PHYS_ADDR),
                cgroup: word(14, SampleType::CGROUP),
                data_page_size: word(15, SampleType::DATA_PAGE_SIZE),
                code_page_size: word(16, SampleType::CODE_PAGE_SIZE),
                aux: if has(SampleType::AUX) {
                    aux
                } else {
                    Vec::new()
                },
                rest: Vec::new(),
            }
        },
    )
}

/// Splits the record, as at a ring buffer's end.
fn wrapped(bytes: &[u8], cut: usize) -> RawBytes<'_> {
    let cut = cut % (bytes.len() + 1);
    RawBytes::split(&bytes[..cut], &bytes[cut..])
}

proptest! {
    #[test]
    fn samples(
        (attr, fields) in attr().prop_flat_map(|a| { let f = fields(&a); (Just(a), f) }),
        endian in endian(),
        cut in any::<usize>(),
    ) {
        let layout = SampleLayout::new(&attr, endian);
        let mut out = Vec::new();
        fields.encode(Misc::USER, &layout, &mut out).unwrap();
        let raw = RawRecord::parse(wrapped(&out, cut), endian).unwrap();
        prop_assert_eq!(raw.size(), out.len());
        let sample = Sample::parse(raw.body, &layout).unwrap();
        prop_assert!(sample.rest().is_empty());
        prop_assert_eq!(SampleFields::from(&sample), fields);
        for len in 0..raw.body.len() {
            let short = raw.body.get(0..len).unwrap();
            prop_assert!(Sample::parse(short, &layout).is_err());
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(attr in attr(), kind in 0u32..90, body in bytes(300), endian in endian()) {
        let layout = SampleLayout::new(&attr, endian);
        let raw = RawRecord {
            kind: rprof_records::RecordType(kind),
            misc: Misc(0x4000),
            body: RawBytes::from(&body[..]),
            endian,
        };
        if let Ok(record) = Record::decode(&raw, Some(&layout)) {
            let mut out = Vec::new();
            record.encode(raw.misc, &layout, &layout.sample_id(&raw), &mut out).ok();
        }
        let _ = Record::decode(&raw, None);
    }

    #[test]
    fn records(
        attr in attr(), endian in endian(), cut in any::<usize>(), name in name(),
        w in proptest::collection::vec(any::<u64>(), 12), build_id in any::<[u8; 20]>(), len in 1u8..=20,
    ) {
        let layout = SampleLayout::new(&attr, endian);
        let name = || Cow::Borrowed(&name[..]);
        let (pid, tid) = (w[0] as i32, w[1] as i32);
        let inode = MmapIdentity::Inode {
            major: w[2] as u32, minor: w[3] as u32, inode: w[4], generation: w[5],
        };
        let mmap2 = |identity| Record::Mmap2(Mmap2 {
            pid, tid, start: w[6], len: w[7], pgoff: w[8], identity, prot: 5, flags: 2, path: name(),
        });
        let task = Task { pid, ppid: w[2] as i32, tid, ptid: w[3] as i32, time: w[4] };
        let all = [
            Record::Mmap(Mmap { pid, tid, start: w[2], len: w[3], pgoff: w[4], path: name() }),
            mmap2(inode),
            mmap2(MmapIdentity::BuildId(BuildId::new(&build_id[..usize::from(len)]).unwrap())),
            Record::Lost(Lost { id: w[2], lost: w[3] }),
            Record::Comm(Comm { pid, tid, name: name() }),
            Record::Exit(task),
            Record::Fork(task),
            Record::Throttle { time: w[2], id: w[3], stream_id: w[4] },
            Record::Unthrottle { time: w[2], id: w[3], stream_id: w[4] },
            Record::Aux { offset: w[2], size: w[3], flags: w[4] },
            Record::ItraceStart { pid, tid },
            Record::LostSamples { lost: w[2] },
            Record::Switch,
            Record::SwitchCpuWide { next_prev_pid: pid, next_prev_tid: tid },
            Record::Namespaces { pid, tid, links: vec![(w[2], w[3]), (w[4], w[5])] },
            Record::Ksymbol { addr: w[2], len: w[3] as u32, ksym_type: 1, flags: 0, name: name() },
            Record::BpfEvent { kind: 1, flags: 0, id: w[2] as u32, tag: w[3].to_le_bytes() },
            Record::Cgroup { id: w[2], path: name() },
            Record::TextPoke { addr: w[2], old_len: 3, new_len: 4, bytes: RawBytes::from(&build_id[..7]) },
            Record::AuxOutputHwId { hw_id: w[2] },
        ];
        let has = |bit| (layout.trailer_len() > 0 && attr.sample_type.contains(bit)).then_some(());
        let id = SampleId {
            pid: has(SampleType::TID).map(|()| pid),
            tid: has(SampleType::TID).map(|()| tid),
            time: has(SampleType::TIME).map(|()| w[9]),
            id: has(SampleType::IDENTIFIER).or(has(SampleType::ID)).map(|()| w[10]),
            stream_id: has(SampleType::STREAM_ID).map(|()| w[11]),
            cpu: has(SampleType::CPU).map(|()| w[8] as u32),
        };
        for record in all {
            let mut out = Vec::new();
            record.encode(Misc::USER, &layout, &id, &mut out).unwrap();
            prop_assert_eq!(out.len() % 8, 0);
            let raw = RawRecord::parse(wrapped(&out, cut), endian).unwrap();
            let again = Record::decode(&raw, Some(&layout)).unwrap();
            // Debug text shows every field.
            prop_assert_eq!(format!("{again:?}"), format!("{record:?}"));
            prop_assert_eq!(layout.sample_id(&raw), id);
        }
    }
}

/// A record of Linux 6.18 for a recorder that did not request build-ids, beside one that did: the
/// exec of a program with inode 10,969,470 on device fe:00.
#[test]
fn an_inode_that_is_called_a_build_id_is_an_inode() {
    let ids = [7_354_u32, 7_354].map(u32::to_le_bytes).concat();
    let range = [0x557b_f0c0_f000_u64, 0x1000, 0x1000]
        .map(u64::to_le_bytes)
        .concat();
    let device = [0xfe_u32, 0].map(u32::to_le_bytes).concat();
    let inode = [10_969_470_u64, 2_748_134_224]
        .map(u64::to_le_bytes)
        .concat();
    let tail = [5_u32, 2].map(u32::to_le_bytes).concat();
    let name = b"/bin/ls\0";
    let identity = |device: &[u8], inode: &[u8]| {
        let body = [&ids, &range, device, inode, &tail, &name[..]].concat();
        let raw = RawRecord {
            kind: rprof_records::RecordType::MMAP2,
            misc: Misc::USER | Misc::MMAP_BUILD_ID,
            body: RawBytes::from(&body[..]),
            endian: Endian::Little,
        };
        match Record::decode(&raw, None).unwrap() {
            Record::Mmap2(mmap) => mmap.identity,
            other => panic!("{other:?}"),
        }
    };
    let expected = |major| MmapIdentity::Inode {
        major,
        minor: 0,
        inode: 10_969_470,
        generation: 2_748_134_224,
    };
    assert_eq!(identity(&device, &inode), expected(0xfe));
    // A major number may be a valid length, but zeroes follow it.
    for major in [0_u32, 8, 259] {
        let device = [major, 0].map(u32::to_le_bytes).concat();
        assert_eq!(identity(&device, &inode), expected(major));
    }
    let build_id = [20, 0, 0, 0, 1, 2, 3, 4];
    assert!(matches!(
        identity(&build_id, &inode),
        MmapIdentity::BuildId(id) if id.as_bytes().len() == 20 && id.as_bytes()[..4] == [1, 2, 3, 4]
    ));
}

#[test]
fn a_build_id_that_has_no_room_is_refused() {
    let layout = SampleLayout::new(&Attr::default(), Endian::Little);
    let mut out = vec![1];
    for (len, fits) in [(20, true), (21, false)] {
        let id = BuildId::new(&[7; 64][..len]).unwrap();
        let record = Record::Mmap2(Mmap2 {
            pid: 1,
            tid: 1,
            start: 0,
            len: 1,
            pgoff: 0,
            identity: MmapIdentity::BuildId(id),
            prot: 5,
            flags: 2,
            path: Cow::Borrowed(b"/a"),
        });
        out.truncate(1);
        let encoded = record.encode(Misc(0), &layout, &SampleId::default(), &mut out);
        assert_eq!((encoded.is_ok(), out.len() > 1), (fits, fits), "{len}");
    }
}
