//! Damaged input: no panic, no hang, and everything before the damage.

use rprof_perfdata::WriteOptions;
use rprof_records::Endian;

use crate::made;

fn forms() -> [Vec<u8>; 4] {
    let plain = WriteOptions::default();
    [
        made::file(40, plain),
        made::file(40, made::compressed()),
        made::stream(40, plain),
        made::stream(40, made::compressed()),
    ]
}

#[test]
fn truncated_at_every_byte() {
    for whole in forms() {
        let all = made::exhaust(&whole).expect("a whole recording");
        assert!(all > 40, "{all} records");
        let mut last = 0;
        let mut steps = 0;
        for len in 0..=whole.len() {
            // More bytes never yield fewer records.
            if let Some(records) = made::exhaust(&whole[..len]) {
                assert!(records >= last, "{records} records of {len} bytes");
                steps += u64::from(records > last);
                last = records;
            }
        }
        assert_eq!(last, all);
        let compressed = made::read(&whole).unwrap().features().compression();
        let least = if compressed.is_some() { 1 } else { all };
        assert!(steps >= least, "{all} records in {steps} steps");
    }
}

#[test]
fn truncated_files_keep_the_records_before_the_cut() {
    let whole = made::file(40, WriteOptions::default());
    let at = u64::from_le_bytes(whole[40..48].try_into().unwrap()) as usize;
    for len in at..at + 40 * 40 {
        let data = made::read(&whole[..len]).unwrap();
        let kept: Vec<u8> = made::all_records(&data).concat();
        assert_eq!(whole[at..at + kept.len()], kept);
        assert!(len - at - kept.len() < 48, "{} of {}", kept.len(), len - at);
        assert!(!data.warnings().is_empty());
    }
}

#[test]
fn cut_files_lack_their_header_and_whole_ones_do_not() {
    let whole = made::file(40, WriteOptions::default());
    let is_cut = |len: usize| made::read(&whole[..len]).unwrap().features().is_cut();
    assert!(!is_cut(whole.len()));
    let word = |at: usize| u64::from_le_bytes(whole[at..at + 8].try_into().unwrap()) as usize;
    let sections_at = word(40) + word(48);
    for len in [
        sections_at / 2 + word(40) / 2,
        sections_at,
        sections_at + 20,
        whole.len() - 1,
    ] {
        assert!(is_cut(len), "{len} bytes of {}", whole.len());
    }
}

/// Random numbers with a fixed seed (xorshift64*).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

#[test]
fn flipped_bits() {
    let mut numbers = Numbers(0x1234_5678_9abc_def1);
    for mut bytes in forms() {
        for _ in 0..4000 {
            let bit = numbers.next() as usize % (bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            made::exhaust(&bytes);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn hostile_values_in_each_word() {
    let values = [0, 1, 1 << 32, u64::MAX, u64::MAX - 7, 1 << 63];
    for whole in forms() {
        for at in (0..whole.len().min(1400) - 8).step_by(4) {
            for value in values {
                let mut bytes = whole.clone();
                bytes[at..at + 8].copy_from_slice(&u64::to_le_bytes(value));
                made::exhaust(&bytes);
                bytes[at..at + 8].copy_from_slice(&whole[at..at + 8]);
                bytes[at..at + 4].copy_from_slice(&u32::to_le_bytes(value as u32));
                made::exhaust(&bytes);
            }
        }
    }
}

#[test]
fn sections_may_overlap() {
    let mut bytes = made::file(4, WriteOptions::default());
    bytes[40..48].copy_from_slice(&104u64.to_le_bytes());
    bytes[56..64].copy_from_slice(&0u64.to_le_bytes());
    let len = bytes.len() as u64;
    bytes[64..72].copy_from_slice(&len.to_le_bytes());
    made::exhaust(&bytes);
}

#[test]
fn events_that_share_a_giant_list_of_ids_do_not_multiply_it() {
    let (count, stride) = (5000u64, 80u64);
    let mut bytes = made::file(0, WriteOptions::default())[..104].to_vec();
    let end = 104 + count * stride;
    for (at, word) in [
        (16, stride),
        (24, 104),
        (32, count * stride),
        (40, end),
        (48, 0),
    ] {
        bytes[at..at + 8].copy_from_slice(&u64::to_le_bytes(word));
    }
    for _ in 0..count {
        bytes.extend([0; 64]);
        bytes.extend(0u64.to_le_bytes());
        bytes.extend(end.to_le_bytes());
    }
    let data = made::read(&bytes).unwrap();
    let ids: usize = data.events().list().iter().map(|e| e.ids.len()).sum();
    assert!(ids <= bytes.len() / 8);
    assert!(data.warnings().len() < 8);
}

#[test]
fn many_events_are_read_in_linear_time() {
    // Quadratic time would take minutes.
    let options = WriteOptions::default();
    let mut bytes = made::stream(0, options);
    let attr = made::events()[0].attr.encode(Endian::NATIVE, 64).unwrap();
    for id in 0..200_000u64 {
        let kind = rprof_records::RecordType::HEADER_ATTR;
        rprof_records::put_record(
            &mut bytes,
            kind,
            rprof_records::Misc(0),
            Endian::NATIVE,
            |o| {
                o.extend(&attr);
                o.extend(id.to_ne_bytes());
            },
        )
        .unwrap();
    }
    let data = made::read(&bytes).unwrap();
    assert_eq!(data.events().list().len(), 200_002);
}

#[test]
fn a_compressed_stream_in_tiny_pieces_is_read_in_linear_time() {
    let whole = made::file(2000, made::compressed());
    let data_at = u64::from_le_bytes(whole[40..48].try_into().unwrap()) as usize;
    let data_len = u64::from_le_bytes(whole[48..56].try_into().unwrap()) as usize;
    let mut bytes = whole[..data_at].to_vec();
    // Every byte in its own record; a data length of 0 means "to the end of the file".
    for byte in &whole[data_at + 8..data_at + data_len] {
        bytes.extend([81, 0, 0, 0, 0, 0, 9, 0, *byte]);
    }
    bytes[48..56].fill(0);
    let data = made::read(&bytes).unwrap();
    assert_eq!(made::counts(&data)[&9], 2000);
}

#[test]
fn a_stream_that_ends_within_a_record_says_so() {
    let damage = |bytes: &[u8]| {
        let data = made::read(bytes).unwrap();
        made::damage(&data)
    };
    for options in [WriteOptions::default(), made::compressed()] {
        let whole = made::stream(2000, options);
        assert_eq!(damage(&whole), None);
        for missing in [1, 9] {
            let cut = &whole[..whole.len() - missing];
            let found = damage(cut).expect("the last record is not whole");
            let offset = found.offset as usize;
            assert!(
                offset < cut.len() && whole.len() - offset < 1 << 16,
                "{found}"
            );
            assert!(
                found.what.contains("cut off") || found.what.contains("too few"),
                "{found}"
            );
        }
    }
}

#[test]
#[ignore = "takes minutes, see .ci/slow: every byte of files and captures cut off, and 240,000 flipped bits"]
fn files_cut_at_every_byte_and_flipped() {
    let mut numbers = Numbers(0x0dd_ba11);
    let (mut slowest, mut mutants) = (std::time::Duration::ZERO, 0u64);
    let wanted = [
        "group_desc-4.14",
        "fibo.compressed2.pipe.data",
        "sleep.data",
    ];
    let of = |path: &std::path::PathBuf| wanted.iter().any(|w| path.to_string_lossy().ends_with(w));
    let captures = rprof_testing::recordings().into_iter().filter(of);
    let captures = captures.map(|path| std::fs::read(path).unwrap());
    for mut bytes in forms().into_iter().chain(captures) {
        let mut timed = |bytes: &[u8]| {
            let start = std::time::Instant::now();
            made::exhaust(bytes);
            slowest = slowest.max(start.elapsed());
            mutants += 1;
        };
        for len in 0..bytes.len().min(64 << 10) {
            timed(&bytes[..len]);
        }
        for _ in 0..34_000 {
            let bit = numbers.next() as usize % (bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            timed(&bytes);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
    assert!(slowest < std::time::Duration::from_secs(10), "{slowest:?}");
    let peak = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = peak.lines().find(|l| l.starts_with("VmHWM")).unwrap_or("");
    std::io::Write::write_fmt(
        &mut std::io::stderr(),
        format_args!("{mutants} mutants, slowest {slowest:?}, {peak}\n"),
    )
    .unwrap();
}
