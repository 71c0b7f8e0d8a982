//! One of every record type, and recordings with them.

use super::*;

pub(crate) fn attr(sample_type: SampleType) -> Attr {
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

/// Returns the sample fields of `rprof record` and `perf record -g`.
pub(crate) fn usual() -> SampleType {
    SampleType::IDENTIFIER
        | SampleType::IP
        | SampleType::TID
        | SampleType::TIME
        | SampleType::CPU
        | SampleType::PERIOD
        | SampleType::CALLCHAIN
}

pub(crate) fn sample(time: u64, ip: u64, callchain: Vec<u64>) -> SampleFields {
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
            flags: BranchFlags(1),
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

pub(crate) fn name(text: &str) -> Cow<'_, [u8]> {
    Cow::Borrowed(text.as_bytes())
}

pub(crate) fn every_record() -> Vec<(Misc, Record<'static>)> {
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
    let identity = MmapIdentity::BuildId(BuildId::new(&BUILD_ID).expect("20 bytes"));
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

pub(crate) fn sample_id() -> SampleId {
    SampleId {
        pid: Some(7),
        tid: Some(7),
        time: Some(1),
        id: Some(1),
        stream_id: Some(1),
        cpu: Some(0),
    }
}

pub(crate) fn recording(layout: &SampleLayout) -> Result<Vec<u8>> {
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
