//! Lookups with a partial table agree with lookups in the full table.

use super::*;
use rprof_testing::Random;

fn random_from(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut numbers = Random::new(seed);
    move |below| numbers.below(below)
}

fn addresses(all: &[(u64, u64)], count: u64, random: &mut impl FnMut(u64) -> u64) -> Vec<u64> {
    let mut svmas: Vec<u64> = (0..count)
        .map(|_| {
            let (start, size) = all[random(all.len() as u64) as usize];
            let by = random(2 * size + 40);
            start.wrapping_add(by).wrapping_sub(random(24))
        })
        .collect();
    svmas.sort_unstable();
    svmas.dedup();
    svmas
}

/// Compares lookups with and without announcing. Returns the number of partial tables, plus the
/// number of files without a full table.
fn compare(data: &[u8], rounds: u64, random: &mut impl FnMut(u64) -> u64) -> usize {
    let Ok(whole) = ElfSymbols::parse(data) else {
        return 0;
    };
    let all: Vec<(u64, u64)> = whole
        .iter()
        .map(|found| (found.start, found.size))
        .collect();
    if all.is_empty() {
        return 0;
    }
    let mut had = 0;
    for round in 0..rounds {
        let svmas = addresses(&all, 1 + round % 40, random);
        let some = ElfSymbols::parse(data).unwrap();
        some.prepare(&svmas);
        had += usize::from(some.some.get().is_some_and(Option::is_some));
        for &svma in &svmas {
            let (ours, theirs) = (some.lookup_svma(svma), whole.lookup_svma(svma));
            assert_eq!(ours, theirs, "{svma:#x} of {svmas:x?}");
            assert_eq!(some.lookup_plt(svma, &some), whole.lookup_plt(svma, &whole));
        }
        if some.all.get().is_none() {
            had += 1;
        }
    }
    had
}

#[test]
fn a_few_addresses_of_real_files() {
    let mut random = random_from(3);
    let files = [
        "/proc/self/exe",
        "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
        "/usr/lib/x86_64-linux-gnu/libc.so.6",
        "/usr/lib/x86_64-linux-gnu/libgmp.so.10",
    ];
    let mut had = 0;
    for path in files {
        if let Ok(data) = std::fs::read(path) {
            had += compare(&data, 30, &mut random);
        }
    }
    assert!(had > 20, "{had}");
}

type Section<'a> = (u32, u64, u64, u32, u64, &'a [u8], u32);

/// Builds an ELF file with random symbols: close together, nested, without size, with aliases.
fn random_file(random: &mut impl FnMut(u64) -> u64) -> Vec<u8> {
    let names = b"\0_a\0b\0__c\0d@V1\0e@@V2\0SyS_f\0_ZN1AC1Ev\0_ZN1AC2Ev\0";
    let name_starts = [1, 4, 6, 10, 15, 21, 27, 38];
    let strings = b"\0.text\0.symtab\0.dynsym\0.strtab\0";
    let table = |random: &mut dyn FnMut(u64) -> u64| {
        let mut bytes = vec![0; 24];
        for _ in 0..700 + random(600) {
            let name: u32 = name_starts[random(8) as usize];
            bytes.extend(name.to_le_bytes());
            bytes.push((random(3) << 4 | [0, 1, 2, 2, 2, 3][random(6) as usize]) as u8);
            bytes.push(random(4) as u8 & 2);
            bytes.extend(1_u16.to_le_bytes());
            bytes.extend((0x1000 + 4 * random(2000)).to_le_bytes());
            let size = if random(3) == 0 { 0 } else { random(60) };
            let size = if random(50) == 0 { random(9000) } else { size };
            bytes.extend(size.to_le_bytes());
        }
        bytes
    };
    let (symtab, dynsym) = (table(random), table(random));
    let sections: [Section<'_>; 6] = [
        (0, 0, 0, 0, 0, b"", 0),
        (8, 6, 0x1000, 0, 0, &[0; 0x1800], 1),
        (2, 0, 0, 4, 24, &symtab, 7),
        (11, 2, 0, 4, 24, &dynsym, 15),
        (3, 0, 0, 0, 0, names, 23),
        (3, 0, 0, 0, 0, strings, 23),
    ];
    let mut file = vec![0; 64];
    let mut headers = Vec::new();
    for (kind, flags, address, link, entry, bytes, name) in sections {
        let offset = file.len() as u64;
        file.extend(bytes);
        file.resize(file.len().next_multiple_of(8), 0);
        headers.extend(name.to_le_bytes());
        headers.extend(kind.to_le_bytes());
        for word in [flags, address, offset, bytes.len() as u64] {
            headers.extend(word.to_le_bytes());
        }
        headers.extend(link.to_le_bytes());
        headers.extend(1_u32.to_le_bytes());
        headers.extend(8_u64.to_le_bytes());
        headers.extend(entry.to_le_bytes());
    }
    let at = file.len() as u64;
    file.extend(headers);
    let mut header = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0\x01\0\0\0".to_vec();
    header.extend([0; 16]);
    header.extend(at.to_le_bytes());
    header.extend([0, 0, 0, 0, 64, 0, 56, 0, 0, 0, 64, 0, 6, 0, 5, 0]);
    file[..64].copy_from_slice(&header);
    file
}

#[test]
fn a_few_addresses_of_random_files() {
    let mut random = random_from(11);
    let mut had = 0;
    for _ in 0..60 {
        let file = random_file(&mut random);
        had += compare(&file, 12, &mut random);
    }
    assert!(had > 600, "{had}");
}

#[test]
fn own_vdso_names_clock_gettime() {
    let Some(image) = rprof_image::vdso_image() else {
        return rprof_testing::inapplicable("needs a kernel with a vdso");
    };
    let symbols = ElfSymbols::parse(image).unwrap();
    assert!(symbols.build_id().is_some());
    let found = symbols
        .iter()
        .find(|symbol| symbol.raw().ends_with(b"clock_gettime"))
        .unwrap();
    assert_eq!(
        symbols.lookup_svma(found.start() + 1).unwrap().start(),
        found.start()
    );
}
