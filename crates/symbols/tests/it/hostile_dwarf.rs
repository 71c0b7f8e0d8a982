//! Damaged and malicious debug information must not cause a panic or a hang.

use crate::others::addresses;
use crate::tools::{Scratch, have};
use object::{Object, ObjectSection};
use rprof_symbols::{ImageKey, Symbolizer};
use rprof_testing::Random;
use std::path::Path;

fn look_up(path: &Path, offsets: &[u64]) {
    let symbolizer = Symbolizer::builder()
        .debug_dirs(Vec::new())
        .threads(2)
        .build();
    let lookups = symbolizer.resolve_image(&ImageKey::file(path), offsets);
    for frames in lookups.into_iter().flatten() {
        let names = frames.names().map(str::len).sum::<usize>();
        assert!(names > 0 || frames.symbol().raw.is_empty());
    }
}

#[test]
fn damaged_sections() {
    if !have(&["gcc"]) {
        return;
    }
    let scratch = Scratch::new();
    let mut random = Random::new(17);
    for version in ["4", "5"] {
        let option = format!("-gdwarf-{version}");
        let path = scratch.compile(
            "gcc",
            "program.c",
            &format!("v{version}"),
            &["-O2", "-g", &option],
        );
        let original = std::fs::read(&path).unwrap();
        let offsets: Vec<u64> = addresses(&path, 60, 3)
            .into_iter()
            .map(|(_, offset)| offset)
            .collect();
        let file = object::File::parse(&original[..]).unwrap();
        let sections: Vec<(u64, u64)> = file
            .sections()
            .filter(|section| section.name().is_ok_and(|name| name.starts_with(".debug")))
            .filter_map(|section| section.file_range())
            .collect();
        let damaged = scratch.path().join("damaged");
        for _ in 0..250 {
            let mut bytes = original.clone();
            for _ in 0..1 + random.below(12) {
                let (start, len) = sections[random.below(sections.len() as u64) as usize];
                let at = (start + random.below(len)) as usize;
                bytes[at] =
                    [0, 1, 0x7f, 0x80, 0xff, random.below(256) as u8][random.below(6) as usize];
            }
            std::fs::write(&damaged, bytes).unwrap();
            look_up(&damaged, &offsets);
        }
    }
}

/// Sections of a forged file, besides one text section.
struct Forged {
    abbreviations: Vec<u8>,
    info: Vec<u8>,
    ranges: Vec<u8>,
}

const TEXT: u64 = 0x1000;

impl Forged {
    /// Writes an ELF file with these sections, and 4 KiB of text at its own offset.
    fn write(&self, path: &Path) {
        let names = b"\0.text\0.debug_abbrev\0.debug_info\0.debug_ranges\0.shstrtab\0";
        let name = |text: &str| {
            names
                .windows(text.len())
                .position(|w| w == text.as_bytes())
                .unwrap() as u32
        };
        let mut file = vec![0; 0x2000];
        let mut headers: Vec<[u64; 6]> = vec![[0; 6]];
        headers.push([u64::from(name(".text")), 1, 6, TEXT, 0x1000, 0x1000]);
        for (text, bytes) in [
            (".debug_abbrev", &self.abbreviations[..]),
            (".debug_info", &self.info),
            (".debug_ranges", &self.ranges),
            (".shstrtab", names),
        ] {
            let kind = if text == ".shstrtab" { 3 } else { 1 };
            headers.push([
                u64::from(name(text)),
                kind,
                0,
                0,
                file.len() as u64,
                bytes.len() as u64,
            ]);
            file.extend(bytes);
        }
        let table = file.len() as u64;
        for [name, kind, flags, address, offset, size] in &headers {
            file.extend((*name as u32).to_le_bytes());
            file.extend((*kind as u32).to_le_bytes());
            for word in [flags, address, offset, size, &0, &1, &0] {
                file.extend(word.to_le_bytes());
            }
        }
        let mut head = b"\x7fELF\x02\x01\x01".to_vec();
        head.resize(16, 0);
        head.extend([3, 0, 62, 0, 1, 0, 0, 0]);
        for word in [0, 64, table] {
            head.extend(word.to_le_bytes());
        }
        head.extend([
            0,
            0,
            0,
            0,
            64,
            0,
            56,
            0,
            1,
            0,
            64,
            0,
            headers.len() as u8,
            0,
            headers.len() as u8 - 1,
            0,
        ]);
        head.extend([1, 0, 0, 0, 5, 0, 0, 0]);
        for word in [TEXT, TEXT, TEXT, 0x1000, 0x1000, 0x1000_u64] {
            head.extend(word.to_le_bytes());
        }
        file[..head.len()].copy_from_slice(&head);
        std::fs::write(path, file).unwrap();
    }
}

fn unit(entries: &[u8]) -> Vec<u8> {
    // DWARF 4: length, version, offset of abbreviations, address size.
    let mut unit = ((entries.len() + 7) as u32).to_le_bytes().to_vec();
    unit.extend([4, 0, 0, 0, 0, 0, 8]);
    unit.extend(entries);
    unit
}

/// 1: a unit with low and high pc; 2: a function with ranges; 3: an inlined call with ranges and a
/// reference into the unit; 4: the same with a cyclic reference.
fn abbreviations() -> Vec<u8> {
    let mut bytes = vec![1, 0x11, 1, 0x11, 0x01, 0x12, 0x07, 0, 0];
    bytes.extend([2, 0x2e, 1, 0x55, 0x17, 0, 0]);
    bytes.extend([3, 0x1d, 1, 0x55, 0x17, 0x31, 0x13, 0, 0]);
    bytes.push(0);
    bytes
}

fn root() -> Vec<u8> {
    let mut bytes = vec![1];
    bytes.extend(TEXT.to_le_bytes());
    bytes.extend(0x1000_u64.to_le_bytes());
    bytes
}

fn pair(low: u64, high: u64) -> Vec<u8> {
    [low.to_le_bytes(), high.to_le_bytes()].concat()
}

/// A hundred thousand nested inlined calls at all addresses, each with a reference to itself; and
/// as many units with the same long list of ranges.
#[test]
fn forged_sections() {
    let scratch = Scratch::new();
    let path = scratch.path().join("forged");
    let offsets: Vec<u64> = (TEXT..TEXT + 0x1000).collect();

    let mut ranges = pair(0, 0x1000);
    ranges.extend(pair(0, 0));
    let mut deep = root();
    deep.extend([2, 0, 0, 0, 0]);
    for _ in 0..100_000 {
        let own = (deep.len() + 11) as u32;
        deep.extend([3, 0, 0, 0, 0]);
        deep.extend(own.to_le_bytes());
    }
    Forged {
        abbreviations: abbreviations(),
        info: unit(&deep),
        ranges,
    }
    .write(&path);
    look_up(&path, &offsets);

    // A list of a million ranges, shared by every entry.
    let ranges: Vec<u8> = (0..1_000_000)
        .flat_map(|_| pair(0, 1))
        .chain(pair(0, 0))
        .collect();
    let mut many = root();
    for _ in 0..50_000 {
        many.extend([2, 0, 0, 0, 0, 0]);
    }
    Forged {
        abbreviations: abbreviations(),
        info: unit(&many),
        ranges: ranges.clone(),
    }
    .write(&path);
    look_up(&path, &offsets);

    let mut list = abbreviations();
    list.splice(0..9, [1, 0x11, 1, 0x55, 0x17, 0, 0]);
    let info: Vec<u8> = (0..50_000).flat_map(|_| unit(&[1, 0, 0, 0, 0])).collect();
    Forged {
        abbreviations: list,
        info,
        ranges,
    }
    .write(&path);
    look_up(&path, &offsets);

    // The unit's abbreviation is the last of many.
    let mut long: Vec<u8> = (0..200_000_u32)
        .flat_map(|_| [0xff, 0x7f, 0x2e, 0, 0, 0])
        .collect();
    long.extend(abbreviations());
    let info: Vec<u8> = (0..50_000).flat_map(|_| unit(&root())).collect();
    Forged {
        abbreviations: long,
        info,
        ranges: Vec::new(),
    }
    .write(&path);
    look_up(&path, &offsets);
}
