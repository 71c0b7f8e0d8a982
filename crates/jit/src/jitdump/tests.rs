//! Jitdumps written by [`DumpWriter`], parsed at once and while they grow.

use super::*;
use crate::source::MapFile;

pub(crate) struct DumpWriter {
    big: bool,
    pub(crate) bytes: Vec<u8>,
}

impl DumpWriter {
    pub(crate) fn new(big: bool, flags: u64) -> DumpWriter {
        let mut writer = DumpWriter {
            big,
            bytes: Vec::new(),
        };
        for word in [0x4a69_5444, 1, 40, 62, 0, 7] {
            writer.u32(word);
        }
        writer.u64(0);
        writer.u64(flags);
        writer
    }

    fn u32(&mut self, value: u32) {
        self.bytes.extend(match self.big {
            true => value.to_be_bytes(),
            false => value.to_le_bytes(),
        });
    }

    fn u64(&mut self, value: u64) {
        self.bytes.extend(match self.big {
            true => value.to_be_bytes(),
            false => value.to_le_bytes(),
        });
    }

    pub(crate) fn record(&mut self, kind: u32, time: u64, words: &[u64], rest: &[u8]) {
        self.u32(kind);
        self.u32((16 + 8 * words.len() + rest.len()) as u32);
        self.u64(time);
        words.iter().for_each(|word| self.u64(*word));
        self.bytes.extend(rest);
    }

    /// The first word stands for pid and tid.
    pub(crate) fn load(&mut self, time: u64, start: u64, size: u64, index: u64, name: &str) {
        let code = vec![0xcc; size as usize];
        let rest = [name.as_bytes(), &[0], &code].concat();
        self.record(0, time, &[0, start, start, size, index], &rest);
    }

    fn moved(&mut self, time: u64, from: u64, to: u64, size: u64, index: u64) {
        self.record(1, time, &[0, to, from, to, size, index], &[]);
    }

    fn lines(&mut self, time: u64, start: u64, entries: &[(u64, u32, &[u8])]) {
        let from = self.bytes.len();
        self.record(2, time, &[start, entries.len() as u64], &[]);
        for (address, line, name) in entries {
            self.u64(*address);
            self.u32(*line);
            self.u32(0);
            self.bytes.extend(*name);
            self.bytes.push(0);
        }
        let size = (self.bytes.len() - from) as u32;
        let size = match self.big {
            true => size.to_be_bytes(),
            false => size.to_le_bytes(),
        };
        self.bytes[from + 4..from + 8].copy_from_slice(&size);
    }
}

fn made(big: bool) -> Vec<u8> {
    let mut writer = DumpWriter::new(big, 0);
    writer.lines(
        90,
        0x1000,
        &[
            (0x1000, 3, b"a.js"),
            (0x1008, 4, b"\xff"),
            (0x100c, 9, b"b.js"),
        ],
    );
    writer.load(100, 0x1000, 0x20, 1, "first one");
    writer.record(77, 160, &[], b"?");
    writer.moved(200, 0x1000, 0x2000, 0x20, 1);
    writer.load(300, 0x1010, 0x20, 2, "second");
    writer.record(3, 400, &[], &[]);
    writer.bytes
}

fn named(dump: &JitDump, avma: u64, time: u64) -> Option<String> {
    dump.lookup(avma, time).map(|found| found.name.into_owned())
}

fn check(dump: &JitDump) {
    for (avma, time, name) in [
        (0x1000, 99, None),
        (0x1000, 100, Some("first one")),
        (0x101f, 199, Some("first one")),
        (0x1020, 199, None),
        (0x1000, 200, None),
        (0x1010, 250, None),
        (0x2000, 199, None),
        (0x2000, 200, Some("first one")),
        (0x1010, 300, Some("second")),
        (0x2010, u64::MAX, Some("first one")),
    ] {
        let at = format!("{avma:#x} at {time}");
        assert_eq!(named(dump, avma, time).as_deref(), name, "{at}");
    }
    let line = |avma, time| {
        let line = dump.line(dump.find(avma, time)?, avma)?;
        Some((line.file.to_owned(), line.line))
    };
    assert_eq!(line(0x1004, 100), Some(("a.js".into(), 3)));
    assert_eq!(line(0x1008, 100), Some(("a.js".into(), 4)));
    assert_eq!(line(0x2010, 200), Some(("b.js".into(), 9)));
    assert_eq!(line(0x1010, 300), None);
    assert_eq!(dump.cut_at(), None);
    assert!(!dump.has_other_clock());
    assert_eq!((dump.epoch(99), dump.epoch(u64::MAX)), (0, 4));
}

#[test]
fn both_byte_orders_with_and_without_code() {
    for big in [false, true] {
        let bytes = made(big);
        check(&JitDump::parse(&bytes).unwrap());
        let stripped = without_code(&bytes).unwrap();
        assert!(stripped.len() < bytes.len());
        check(&JitDump::parse(&stripped).unwrap());
    }
}

#[test]
fn cut_anywhere_keeps_what_stands_before() {
    let bytes = made(false);
    assert_eq!(JitDump::parse(b"ELF?").unwrap_err(), DumpError::NotAJitDump);
    let mut last = 0;
    for len in 4..bytes.len() {
        match JitDump::parse(&bytes[..len]) {
            Err(error) => assert!(len < 40 && error == DumpError::DamagedHeader),
            Ok(dump) => {
                assert!(dump.len() >= last, "{len}");
                last = dump.len();
                assert!(without_code(&bytes[..len]).is_ok());
            }
        }
    }
    assert_eq!(last, 4);
    let cut = JitDump::parse(&bytes[..bytes.len() - 1]).unwrap();
    assert_eq!(cut.cut_at(), Some(bytes.len() as u64 - 16));
}

#[test]
fn sizes_that_lie_end_it() {
    let mut writer = DumpWriter::new(false, 1);
    writer.load(1, 0x10, 0x10, 1, "good");
    let good = writer.bytes.len() as u64;
    writer.record(0, 2, &[], &[]);
    let at = good as usize + 4;
    writer.bytes[at..at + 4].copy_from_slice(&3u32.to_le_bytes());
    writer.load(3, 0x20, 0x10, 2, "never seen");
    let dump = JitDump::parse(&writer.bytes).unwrap();
    assert!(dump.has_other_clock());
    assert_eq!(named(&dump, 0x10, 5).as_deref(), Some("good"));
    assert_eq!((dump.len(), dump.cut_at()), (1, Some(good)));
}

#[test]
fn the_end_of_memory_and_moves_of_nothing() {
    let mut writer = DumpWriter::new(false, 0);
    writer.record(0, 1, &[0, 0, u64::MAX - 1, u64::MAX, 1], b"top\0");
    writer.moved(2, 0x100, 0x200, 0x10, 99);
    let dump = JitDump::parse(&writer.bytes).unwrap();
    assert_eq!(named(&dump, u64::MAX - 1, 1).as_deref(), Some("top"));
    assert_eq!(named(&dump, 0x200, 2), None);
}

#[test]
fn times_of_another_time_namespace_become_those_of_the_kernel() {
    for (big, ahead) in [(false, 60), (true, 60), (false, -1000), (true, 0)] {
        let mut bytes = made(big);
        let before = JitDump::parse(&bytes).unwrap();
        to_kernel_clock(&mut bytes, ahead);
        let after = JitDump::parse(&bytes).unwrap();
        for time in [89_u64, 99, 100, 199, 200, 250, 300] {
            let there = time.saturating_add_signed(-ahead);
            assert_eq!(before.epoch(time), after.epoch(there), "{time} {ahead}");
        }
        for len in 0..bytes.len() {
            to_kernel_clock(&mut bytes[..len], 1);
        }
    }
    let mut counted = DumpWriter::new(false, 1);
    counted.load(500, 0x1000, 0x20, 1, "by the processor's counter");
    let before = counted.bytes.clone();
    to_kernel_clock(&mut counted.bytes, 60);
    assert_eq!(counted.bytes, before);
}

/// Unwinding information: mapped, not mapped, and in the order of the specification.
fn unwound(big: bool) -> Vec<u8> {
    let mut writer = DumpWriter::new(big, 0);
    writer.record(4, 90, &[10, 4, 10], b"EHFRAM\x01hdr");
    writer.load(100, 0x1000, 0x1d, 1, "one");
    writer.record(4, 140, &[4, 4, 0], b"\x01hdr");
    writer.load(150, 0x2000, 0x20, 2, "by frame pointers");
    writer.moved(200, 0x1000, 0x3000, 0x1d, 1);
    writer.record(4, 240, &[10, 4, 10], b"\x01hdrEHFRAM");
    writer.load(250, 0x1000, 0x20, 3, "three");
    writer.load(260, 0x3010, 0x20, 4, "over the end of one");
    writer.bytes
}

/// Start, offset of the table, its bytes.
type Known = Option<(u64, u64, Vec<u8>)>;

fn known(unwinding: JitUnwinding<'_>) -> (u64, u64, Vec<u8>) {
    let JitUnwinding {
        start,
        eh_frame_offset,
        eh_frame,
        ..
    } = unwinding;
    (start, eh_frame_offset, eh_frame.to_vec())
}

#[test]
fn unwinding_information_is_that_of_the_next_code() {
    for big in [false, true] {
        let bytes = unwound(big);
        let stripped = without_code(&bytes).unwrap();
        for bytes in [&bytes, &stripped] {
            let dump = JitDump::parse(bytes).unwrap();
            assert!(dump.has_unwinding());
            assert_eq!((dump.cut_at(), dump.bad_records()), (None, 0));
            let at = |avma, time| -> Known {
                let number = dump.find(avma, time)?;
                dump.unwinding(number).map(known)
            };
            let table = b"EHFRAM".to_vec();
            assert_eq!(at(0x1004, 100), Some((0x1000, 0x20, table.clone())));
            assert_eq!(at(0x2004, 150), None);
            assert_eq!(at(0x1004, 200), None);
            assert_eq!(at(0x3004, 200), Some((0x3000, 0x20, table.clone())));
            assert_eq!(at(0x1004, 250), Some((0x1000, 0x24, table)));
        }
    }
}

#[test]
fn unwinding_information_that_lies_costs_itself() {
    for (words, table) in [
        ([u64::MAX, 4, 4], &b"EHFRAM\x01hdr"[..]),
        ([10, 11, 10], b"EHFRAM\x01hdr"),
        ([11, 4, 10], b"EHFRAM\x01hdr"),
    ] {
        let mut writer = DumpWriter::new(false, 0);
        writer.record(4, 90, &words, table);
        writer.load(100, 0x1000, 0x20, 1, "one");
        let dump = JitDump::parse(&writer.bytes).unwrap();
        assert!(!dump.has_unwinding() && dump.unwinding(0).is_none());
        assert_eq!((dump.bad_records(), dump.len()), (1, 1));
    }
}

#[test]
fn a_dump_is_read_while_it_grows() {
    use std::io::Write;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jit-1.dump");
    let map_file = || {
        let opened = MapFile::open(&rprof_image::FileView::own().unwrap(), &path, &[]).unwrap();
        opened.unwrap()
    };
    let open = || LiveDump::new(&map_file()).unwrap();
    let bytes = unwound(false);
    let mut file = std::fs::File::create(&path).unwrap();
    file.write_all(&bytes[..39]).unwrap();
    assert!(open().is_none(), "not yet");
    file.write_all(&bytes[39..45]).unwrap();
    let mut dump = open().unwrap().unwrap();
    let table = b"EHFRAM".to_vec();
    let at = |dump: &LiveDump, avma, time| -> Known {
        dump.find(avma, time).map(|code| known(code.unwinding))
    };
    let mut seen = Vec::new();
    // A partial file never yields more than the whole.
    for at_byte in 45..bytes.len() {
        file.write_all(&bytes[at_byte..=at_byte]).unwrap();
        assert!(dump.read_on(&map_file(), u64::MAX).unwrap().1);
        let now = [0x1004, 0x2004, 0x3004, 0x3014].map(|avma| at(&dump, avma, 999));
        if seen.last() != Some(&now) {
            seen.push(now);
        }
    }
    let one = |start| Some((start, 0x20, table.clone()));
    let three = Some((0x1000, 0x24, table.clone()));
    assert_eq!(
        seen,
        [
            [None, None, None, None],
            [one(0x1000), None, None, None],
            [None, None, one(0x3000), one(0x3000)],
            [three.clone(), None, one(0x3000), one(0x3000)],
            [three.clone(), None, None, None],
        ]
    );
    assert_eq!(at(&dump, 0x1004, 249), None, "it came later");
    let number = dump.find(0x1004, 250).unwrap().function;
    // The writer's clock is ahead, in another time namespace.
    let ahead = |by| map_file().with_clock_ahead(by);
    for by in [100, -100] {
        let mut dump = LiveDump::new(&ahead(by)).unwrap().unwrap().unwrap();
        dump.read_on(&ahead(by), u64::MAX).unwrap();
        let begins = 250u64.saturating_add_signed(-by);
        assert_eq!(at(&dump, 0x1004, begins - 1), None, "{by}");
        assert_eq!(at(&dump, 0x1004, begins), three, "{by}");
    }
    // At once, with code longer than one read.
    let mut writer = DumpWriter::new(false, 0);
    writer.record(4, 1, &[10, 4, 10], b"EHFRAM\x01hdr");
    writer.load(2, 0x10_0000, 3 << 20, 9, "long");
    writer.bytes.extend(&bytes[40..]);
    std::fs::write(&path, &writer.bytes).unwrap();
    let mut other = open().unwrap().unwrap();
    assert!(other.read_on(&map_file(), u64::MAX).unwrap().1);
    let found = other.find(0x1004, 250).unwrap();
    assert_eq!(known(found.unwinding), (0x1000, 0x24, table));
    assert_eq!(found.function, number + 1);
    assert!(other.find(0x30_0000, 2).is_some());
    // Another file of the same name must not be read as a continuation.
    std::fs::rename(&path, folder.path().join("old")).unwrap();
    writer.load(2, 0x50_0000, 0x20, 11, "other");
    std::fs::write(&path, &writer.bytes).unwrap();
    assert_eq!(other.read_on(&map_file(), u64::MAX).unwrap(), (0, true));
}
