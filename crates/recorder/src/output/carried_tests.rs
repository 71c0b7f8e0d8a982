use std::borrow::Cow;

use super::*;
use rprof_records::{Attr, AttrFlags, BuildId, Endian, MmapIdentity, RawBytes, SampleType};
use rprof_records::{Comm, Misc, Mmap2, Task};

fn layout() -> SampleLayout {
    let attr = Attr {
        sample_type: SampleType::IDENTIFIER | SampleType::TIME,
        flags: AttrFlags::SAMPLE_ID_ALL,
        ..Attr::default()
    };
    SampleLayout::new(&attr, Endian::NATIVE)
}

fn map(pid: i32, start: u64, len: u64, path: &'static [u8]) -> Record<'static> {
    Record::Mmap2(Mmap2 {
        pid,
        tid: pid,
        start,
        len,
        pgoff: 0,
        identity: MmapIdentity::BuildId(BuildId::new(&[7; 20]).unwrap()),
        prot: 5,
        flags: 2,
        path: Cow::Borrowed(path),
    })
}

fn comm(pid: i32, tid: i32, name: &'static [u8]) -> Record<'static> {
    let name = Cow::Borrowed(name);
    Record::Comm(Comm { pid, tid, name })
}

fn fork(ppid: i32, ptid: i32, pid: i32, tid: i32) -> Record<'static> {
    Record::Fork(Task {
        pid,
        ppid,
        tid,
        ptid,
        time: 5,
    })
}

fn exit(pid: i32, tid: i32) -> Record<'static> {
    Record::Exit(Task {
        pid,
        tid,
        ..Task::default()
    })
}

fn after(records: &[(Record<'_>, Misc)]) -> CarriedRecords {
    let layout = layout();
    let mut state = CarriedRecords::default();
    for (record, misc) in records {
        let mut bytes = Vec::new();
        record
            .encode(*misc, &layout, &SampleId::default(), &mut bytes)
            .unwrap();
        feed(&mut state, &bytes, &layout);
    }
    state
}

fn feed(state: &mut CarriedRecords, bytes: &[u8], layout: &SampleLayout) -> usize {
    let raw = RawRecord::parse(RawBytes::from(bytes), Endian::NATIVE).unwrap();
    let event = ProcessEvent::decode(&raw, Some(layout)).unwrap();
    let size = raw.size();
    state.handle(&raw, event.as_ref(), &bytes[..size]);
    size
}

/// Returns a line for each record at the start of a new file.
fn said(state: &CarriedRecords) -> Vec<String> {
    let layout = layout();
    let mut bytes = Vec::new();
    state.append(&layout, &mut bytes);
    let mut lines = Vec::new();
    let mut again = CarriedRecords::default();
    let mut at = 0;
    while at < bytes.len() {
        let raw = RawRecord::parse(RawBytes::from(&bytes[at..]), Endian::NATIVE).unwrap();
        assert_eq!(layout.trailer_time(&raw), Some(0));
        lines.push(match Record::decode(&raw, Some(&layout)).unwrap() {
            Record::Comm(c) => {
                format!("{}/{} {}", c.pid, c.tid, String::from_utf8_lossy(&c.name))
            }
            Record::Mmap2(m) => format!(
                "{} {:x}+{:x}@{:x} {}",
                m.pid,
                m.start,
                m.len,
                m.pgoff,
                String::from_utf8_lossy(&m.path)
            ),
            other => format!("{other:?}"),
        });
        at += feed(&mut again, &bytes[at..], &layout);
    }
    let mut twice = Vec::new();
    again.append(&layout, &mut twice);
    assert_eq!(bytes, twice, "it says the same of itself");
    lines
}

const EXEC: Misc = Misc::COMM_EXEC;
const MAP: Misc = Misc(Misc::USER.0 | Misc::MMAP_BUILD_ID.0);

#[test]
fn the_dead_are_forgotten() {
    let none = Misc(0);
    let state = after(&[
        (comm(1, 1, b"sh"), EXEC),
        (map(1, 0x1000, 0x1000, b"/bin/sh"), MAP),
        (fork(1, 1, 2, 2), none),
        (fork(1, 1, 3, 3), none),
        (comm(3, 3, b"cat"), EXEC),
        (map(3, 0x5000, 0x1000, b"/bin/cat"), MAP),
        (exit(2, 2), none),
    ]);
    assert_eq!(
        said(&state),
        [
            "1/1 sh",
            "1 1000+1000@0 /bin/sh",
            "3/3 cat",
            "3 5000+1000@0 /bin/cat"
        ]
    );
    // The first thread may end before others.
    let state = after(&[
        (comm(1, 1, b"a"), EXEC),
        (map(1, 0x1000, 0x1000, b"/a"), MAP),
        (fork(1, 1, 1, 7), none),
        (exit(1, 1), none),
    ]);
    assert_eq!(said(&state), ["1/7 a", "1 1000+1000@0 /a"]);
}

#[test]
fn a_child_has_its_parents_mappings_until_it_changes_them() {
    let none = Misc(0);
    let state = after(&[
        (comm(1, 1, b"a"), EXEC),
        (map(1, 0x1000, 0x1000, b"/a"), MAP),
        (fork(1, 1, 2, 2), none),
        (map(2, 0x9000, 0x1000, b"/b"), MAP),
    ]);
    assert_eq!(
        said(&state),
        [
            "1/1 a",
            "1 1000+1000@0 /a",
            "2/2 a",
            "2 1000+1000@0 /a",
            "2 9000+1000@0 /b"
        ]
    );
}

#[test]
fn a_mapping_replaces_what_it_covers() {
    let state = after(&[
        (comm(1, 1, b"a"), EXEC),
        (map(1, 0x1000, 0x4000, b"/a"), MAP),
        (map(1, 0x2000, 0x1000, b"/b"), MAP),
        (map(1, 0x2000, 0x1000, b"/c"), MAP),
    ]);
    assert_eq!(
        said(&state),
        [
            "1/1 a",
            "1 1000+1000@0 /a",
            "1 2000+1000@0 /c",
            "1 3000+2000@2000 /a"
        ]
    );
    let state = after(&[
        (map(1, 0x1000, 0x2000, b"/a"), MAP),
        (map(1, 0x4000, 0x2000, b"/b"), MAP),
        (map(1, 0x2000, 0x3000, b"/c"), MAP),
    ]);
    assert_eq!(
        said(&state),
        [
            "1 1000+1000@0 /a",
            "1 2000+3000@0 /c",
            "1 5000+1000@1000 /b"
        ]
    );
}
