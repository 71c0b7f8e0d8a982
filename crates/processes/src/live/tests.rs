use super::*;
use proptest::prelude::*;
use rprof_records::{BuildId, Misc, Mmap2, MmapIdentity, Record};

fn mapped(pid: i32, start: u64, len: u64, path: &str) -> ProcessEvent<'_> {
    ProcessEvent::Mapped(Mapped {
        pid,
        tid: pid,
        start,
        len,
        file_offset: 0x1000,
        path: path.as_bytes().into(),
        identity: BuildId::new(path.as_bytes()).map(MmapIdentity::BuildId),
        executable: true,
        kernel: false,
        prot_and_flags: Some((5, 2)),
        misc: Misc::USER,
    })
}

fn forked(pid: i32, tid: i32, parent_pid: i32) -> ProcessEvent<'static> {
    ProcessEvent::Forked {
        pid,
        tid,
        parent_pid,
        parent_tid: parent_pid,
    }
}

fn named(pid: i32, tid: i32, name: &'static str) -> ProcessEvent<'static> {
    let name = name.as_bytes().into();
    ProcessEvent::Renamed { pid, tid, name }
}

fn after<R: Retain>(events: &[ProcessEvent<'_>]) -> LiveMap<R> {
    let mut live = LiveMap::new();
    for event in events {
        live.handle(event);
    }
    live
}

fn at(map: &LiveMap, pid: i32, address: u64) -> Option<(String, u64)> {
    let found = map.find(Pid(pid), address)?;
    let path = &map.image(found.backing)?.path;
    let offset = found.file_offset + (address - found.start);
    Some((String::from_utf8_lossy(path).into_owned(), offset))
}

#[test]
fn a_new_mapping_cuts_what_it_covers() {
    let live = after(&[
        mapped(1, 0x1000, 0x9000, "/a"),
        mapped(1, 0x3000, 0x1000, "/b"),
    ]);
    assert_eq!(at(&live, 1, 0x2fff), Some(("/a".into(), 0x2fff)));
    assert_eq!(at(&live, 1, 0x3000), Some(("/b".into(), 0x1000)));
    assert_eq!(at(&live, 1, 0x4000), Some(("/a".into(), 0x4000)));
    assert_eq!(at(&live, 1, 0xa000), None);
    assert_eq!(at(&live, 2, 0x3000), None);
}

#[test]
fn forks_share_and_execs_forget() {
    let mut live = after(&[
        named(1, 1, "sh"),
        mapped(1, 0x1000, 0x1000, "/a"),
        forked(2, 2, 1),
    ]);
    assert_eq!(live.generation(Pid(1)), live.generation(Pid(2)));
    live.handle(&mapped(2, 0x5000, 0x1000, "/b"));
    assert!(at(&live, 2, 0x1000).is_some() && at(&live, 1, 0x5000).is_none());
    assert_ne!(live.generation(Pid(1)), live.generation(Pid(2)));
    live.handle(&ProcessEvent::Executed {
        pid: 2,
        tid: 2,
        name: b"ls".into(),
    });
    assert!(at(&live, 2, 0x1000).is_none() && at(&live, 1, 0x1000).is_some());
}

#[test]
fn a_found_thread_has_no_ones_mappings() {
    let found = ProcessEvent::Found {
        pid: 2,
        tid: 2,
        parent_pid: 1,
    };
    let live = after(&[mapped(1, 0x1000, 0x1000, "/a"), found]);
    assert_eq!(at(&live, 2, 0x1000), None);
    assert_eq!(live.processes().count(), 2);
}

#[test]
fn a_process_goes_with_its_last_thread() {
    let mut live = after(&[
        forked(2, 2, 1),
        forked(2, 3, 2),
        mapped(2, 0x1000, 0x1000, "/a"),
    ]);
    assert!(!live.handle(&ProcessEvent::Ended { pid: 2, tid: 2 }));
    assert!(at(&live, 2, 0x1000).is_some());
    assert!(live.handle(&ProcessEvent::Ended { pid: 2, tid: 3 }));
    assert_eq!((live.processes().count(), at(&live, 2, 0x1000)), (0, None));
}

#[test]
fn the_kernels_mappings_are_not_kept() {
    let ProcessEvent::Mapped(m) = mapped(-1, 0x1000, 0x1000, "[kernel.kallsyms]_text") else {
        unreachable!("made as a mapping");
    };
    let kernel = ProcessEvent::Mapped(Mapped {
        kernel: true,
        pid: 0,
        ..m.clone()
    });
    let live: LiveMap = after(&[ProcessEvent::Mapped(m), kernel]);
    assert_eq!(live.processes().count(), 0);
}

#[test]
fn images_that_nobody_maps_are_forgotten() {
    let mut live = after(&[mapped(2, 0x1000, 0x1000, "/kept"), forked(3, 3, 2)]);
    let kept = live.find(Pid(2), 0x1000).unwrap().backing;
    let mut forgotten = Vec::new();
    let mut most = 0;
    for n in 0..100_000 {
        // As if a file were renamed and mapped again.
        let path = format!("/{n}/{}", "x".repeat(2000));
        live.handle(&mapped(1, 0x1000, 0x1000, &path));
        forgotten.extend(live.take_forgotten());
        most = most.max(n - forgotten.len());
    }
    assert!(most < 5_000, "{most} at a time");
    assert_eq!((live.refused_images(), live.refused()), (0, 0));
    assert!(!forgotten.contains(&kept));
    live.handle(&ProcessEvent::Ended { pid: 2, tid: 2 });
    assert_eq!(at(&live, 3, 0x1000), Some(("/kept".into(), 0x1000)));
}

#[test]
fn a_number_is_used_again_and_a_serial_is_not() {
    let mut live: LiveMap = LiveMap::new();
    let mut serials = std::collections::HashSet::new();
    let mut numbers = std::collections::HashSet::new();
    for n in 0..10_000 {
        live.handle(&mapped(1, 0x1000, 0x1000, &format!("/{n}")));
        let id = live.find(Pid(1), 0x1000).unwrap().backing;
        numbers.insert(id);
        assert!(serials.insert(live.image_serial(id).unwrap()));
    }
    assert!(numbers.len() < 5_000, "{}", numbers.len());
}

#[test]
fn mappings_of_a_process_are_bounded() {
    let mut live: LiveMap = LiveMap::new();
    for n in 0..40_000 {
        live.handle(&mapped(1, n * 0x2000, 0x1000, "/a"));
    }
    assert_eq!(live.mappings(Pid(1)).len(), MAX_MAPPINGS);
    assert_eq!(live.refused(), 40_000 - MAX_MAPPINGS as u64);
    // A replacement needs no room.
    live.handle(&mapped(1, 0x2000, 0x1000, "/b"));
    live.handle(&mapped(2, 0x2000, 0x1000, "/b"));
    for pid in [1, 2] {
        assert_eq!(at(&live, pid, 0x2000), Some(("/b".into(), 0x1000)));
    }
    for pid in [1, 2] {
        live.handle(&named(pid, pid, "x"));
        live.handle(&forked(pid + 10, pid + 10, pid));
        live.handle(&ProcessEvent::Ended { pid, tid: pid });
        assert!(live.mappings > 0);
        live.handle(&ProcessEvent::Executed {
            pid: pid + 10,
            tid: pid + 10,
            name: b"y".into(),
        });
    }
    assert_eq!(live.mappings, 0);
}

fn recorded(live: &LiveMap<Records>, pid: i32) -> Vec<(String, u64, u64, u64)> {
    let shown = |record| match record {
        Record::Mmap2(m) => {
            let m: Mmap2<'_> = m;
            let path = String::from_utf8_lossy(&m.path).into_owned();
            Some((path, m.start, m.len, m.pgoff))
        }
        _ => None,
    };
    let records = live.records(Pid(pid));
    records.filter_map(|(record, _)| shown(record)).collect()
}

#[test]
fn records_say_what_was_recorded() {
    let live: LiveMap<Records> = after(&[
        named(1, 1, "sh"),
        mapped(1, 0x1000, 0x3000, "/a"),
        mapped(1, 0x2000, 0x1000, "/b"),
        forked(1, 5, 1),
        ProcessEvent::Found {
            pid: 1,
            tid: 6,
            parent_pid: 1,
        },
    ]);
    let named = |(record, misc)| match record {
        Record::Comm(comm) => Some((comm.pid, comm.tid, comm.name.to_vec(), misc)),
        _ => None,
    };
    let names: Vec<_> = live.records(Pid(1)).filter_map(named).collect();
    let expected = [
        (1, 1, b"sh".to_vec(), Misc(0)),
        (1, 5, b"sh".to_vec(), Misc(0)),
    ];
    assert_eq!(names, expected);
    let expected = [
        ("/a".to_owned(), 0x1000, 0x1000, 0x1000),
        ("/b".to_owned(), 0x2000, 0x1000, 0x1000),
        ("/a".to_owned(), 0x3000, 0x1000, 0x3000),
    ];
    assert_eq!(recorded(&live, 1), expected);
    let identities: Vec<_> = (live.records(Pid(1)))
        .filter_map(|(record, misc)| match record {
            Record::Mmap2(m) => Some((m.identity, m.prot, m.flags, misc)),
            _ => None,
        })
        .collect();
    let b = MmapIdentity::BuildId(BuildId::new(b"/b").unwrap());
    assert_eq!(identities.len(), 3);
    assert_eq!(identities[1], (b, 5, 2, Misc::USER));
}

#[test]
fn text_on_huge_pages_is_its_files() {
    const M2: u64 = 2 << 20;
    let from = |mut event, offset| {
        if let ProcessEvent::Mapped(mapped) = &mut event {
            mapped.file_offset = offset;
        }
        event
    };
    let on_top = [
        mapped(1, M2, 3 * M2, "/app"),
        mapped(1, 2 * M2, M2, "//anon"),
    ];
    let between = [
        from(mapped(1, M2, M2, "/app"), 0x1000),
        mapped(1, 2 * M2, M2, "//anon"),
        from(mapped(1, 3 * M2, M2, "/app"), 0x1000 + 2 * M2),
    ];
    let expected = Some(("/app".into(), 0x1006 + M2));
    for events in [&on_top[..], &between] {
        assert_eq!(at(&after(events), 1, 2 * M2 + 6), expected);
        let named = after::<NamedImages>(events);
        let image = named.find(Pid(1), 2 * M2 + 6).unwrap().backing;
        assert_eq!(*named.images()[image.0 as usize].path, *b"/app");
        // As it was recorded, for readers with rules of their own.
        let paths = recorded(&after(events), 1);
        assert!(paths.iter().any(|(path, ..)| path == "//anon"));
    }
    let jit = after(&between[..2]);
    assert_eq!(at(&jit, 1, 2 * M2), Some(("//anon".into(), 0x1000)));
}

#[test]
fn named_images_are_bounded() {
    let mut live = LiveMap::<NamedImages>::new();
    live.handle(&mapped(1, 0x1000, 0x1000, "/first"));
    let path = "x".repeat(4000);
    for number in 0..6000 {
        live.handle(&mapped(2, 0x1000, 0x1000, &format!("/{number}/{path}")));
    }
    let bytes: usize = live.images().iter().map(|image| image.path.len()).sum();
    assert!(bytes < 17 << 20, "{bytes}");
    live.handle(&mapped(3, 0x1000, 0x1000, "/first"));
    let path = |pid| {
        let mapping = live.find(Pid(pid), 0x1000).unwrap();
        String::from_utf8_lossy(&live.images()[mapping.backing.0 as usize].path).into_owned()
    };
    assert_eq!((&*path(3), &*path(2)), ("/first", "[too many images]"));
}

proptest! {
    /// The reference is an array with the last mapping of each address.
    #[test]
    fn agrees_with_an_array(made in proptest::collection::vec((0u64..64, 0u64..20), 0..40)) {
        let mut live = LiveMap::<Images>::new();
        let mut cells = [None; 96];
        for (n, (start, len)) in made.iter().enumerate() {
            let path = format!("/{n}");
            live.handle(&mapped(1, *start, *len, &path));
            for cell in &mut cells[*start as usize..(start + len) as usize] {
                *cell = Some((n, *start));
            }
        }
        for (address, cell) in cells.iter().enumerate() {
            let expected = cell.map(|(n, start)| {
                (format!("/{n}"), 0x1000 + address as u64 - start)
            });
            prop_assert_eq!(at(&live, 1, address as u64), expected);
        }
        let list = live.mappings(Pid(1));
        prop_assert!(list.windows(2).all(|w| w[0].end <= w[1].start));
    }
}
