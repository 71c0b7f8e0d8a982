//! Damaged and malicious files must not cause a panic.

use crate::tools::{Scratch, compiled_files};
use rprof_symbols::demangle::{Style, demangle};
use rprof_symbols::{ElfSymbols, KernelSymbols};
use rprof_testing::Random;

fn use_everything(bytes: &[u8], random: &mut Random) {
    let Ok(symbols) = ElfSymbols::parse(bytes) else {
        return;
    };
    for symbol in symbols.iter().take(50) {
        let _ = symbol.name(Style::Full);
    }
    for _ in 0..50 {
        let _ = symbols.lookup_offset(random.below(bytes.len() as u64));
        let _ = symbols.lookup_svma(random.below(u64::MAX));
    }
    let _ = (
        symbols.lookup_svma(u64::MAX),
        symbols.lookup_offset(u64::MAX),
    );
}

#[test]
fn damaged_files() {
    let scratch = Scratch::new();
    let mut random = Random::new(5);
    for path in compiled_files(&scratch)
        .iter()
        .filter(|path| !path.ends_with("static"))
    {
        let original = std::fs::read(path).unwrap();
        for _ in 0..40 {
            use_everything(
                &original[..random.below(original.len() as u64) as usize],
                &mut random,
            );
        }
        let section_headers = u64::from_le_bytes(original[40..48].try_into().unwrap()) as usize;
        for round in 0..300 {
            let mut bytes = original.clone();
            for _ in 0..1 + random.below(8) {
                // Mostly in the headers, which contain sizes and offsets.
                let at = match round % 3 {
                    0 => random.below(0x400) as usize,
                    1 => {
                        section_headers
                            + random.below((original.len() - section_headers) as u64) as usize
                    }
                    _ => random.below(original.len() as u64) as usize,
                };
                bytes[at] =
                    [0, 1, 0x7f, 0x80, 0xff, random.below(256) as u8][random.below(6) as usize];
            }
            use_everything(&bytes, &mut random);
        }
    }
}

#[test]
fn random_names() {
    let mut random = Random::new(11);
    let alphabet = b"_ZNKSTIEXLJDRPOCdtvijs0123456789.hcpaSrwnQ$@R";
    for _ in 0..20_000 {
        let mut name =
            ["_Z", "_ZN", "_R", "_RNv", "_ZTv", "_GLOBAL__I_"][random.below(6) as usize].to_owned();
        for _ in 0..random.below(60) {
            name.push(char::from(
                alphabet[random.below(alphabet.len() as u64) as usize],
            ));
        }
        for style in [Style::Full, Style::NoParameters] {
            let _ = demangle(&name, style);
        }
    }
}

#[test]
fn random_kernel_lists() {
    let mut random = Random::new(13);
    for _ in 0..2000 {
        let bytes: Vec<u8> = (0..random.below(300))
            .map(|_| b"0123f \t\nTtwD[]x$\xff"[random.below(17) as usize])
            .collect();
        if let Ok(symbols) = KernelSymbols::parse(&bytes[..]) {
            for symbol in symbols.iter() {
                let _ = symbols.lookup(symbol.start.wrapping_add(symbol.size));
            }
        }
    }
}
