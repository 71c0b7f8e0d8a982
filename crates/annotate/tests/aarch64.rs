//! Compares the AArch64 disassembler with llvm-objdump, word by word.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use rprof_annotate::disassembly::{Decoded, Syntax, disassembler};
use rprof_testing::needs;

const EM_AARCH64: u16 = 183;

/// C library of Debian's cross compilers.
const LIBC: &str = "/usr/aarch64-linux-gnu/lib/libc.so.6";

/// More libraries to compare, separated by colons, for manual runs.
const MORE: &str = "RPROF_AARCH64_LIBRARIES";

/// Normalizes mnemonic and operands: lower case, no spaces, decimal numbers.
fn canonical(text: &str) -> String {
    let text = text.split(" <").next().unwrap_or_default();
    let text = text.split("//").next().unwrap_or_default().trim();
    let (mnemonic, operands) = text.split_once([' ', '\t']).unwrap_or((text, ""));
    let mut out = String::new();
    let mut number = None::<String>;
    for c in operands.chars().chain(['\n']) {
        match &mut number {
            Some(digits) if c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.') => {
                digits.push(c);
            }
            _ => {
                if let Some(digits) = number.take() {
                    out.push_str(&value(&digits));
                }
                let begins = !out.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
                match c {
                    '#' => number = Some(String::new()),
                    '0'..='9' if begins => number = Some(c.into()),
                    _ if c.is_whitespace() => {}
                    _ => out.push(c.to_ascii_lowercase()),
                }
            }
        }
    }
    format!("{mnemonic} {out}")
}

fn value(digits: &str) -> String {
    let (is_negative, positive) = match digits.strip_prefix('-') {
        Some(positive) => (true, positive),
        None => (false, digits),
    };
    let number = match positive.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => positive.parse().ok(),
    };
    match (number, positive.parse::<f64>()) {
        (Some(number), _) if is_negative => number.wrapping_neg().cast_signed().to_string(),
        (Some(number), _) => number.cast_signed().to_string(),
        (None, Ok(real)) if is_negative => format!("{}", -real),
        (None, Ok(real)) => format!("{real}"),
        (None, Err(_)) => digits.to_ascii_lowercase(),
    }
}

/// Normalizes our text, with addresses as numbers.
fn ours(found: &Decoded, word: u32) -> String {
    let last = found.text.rsplit_once([' ', ',']);
    // Branches, adr and adrp, and PC-relative loads.
    let is_load = word & 0x3b00_0000 == 0x1800_0000;
    let is_address = found.target.is_some() || found.text.starts_with("adr") || is_load;
    match last.filter(|_| is_address) {
        Some((before, address)) => canonical(&format!("{before} 0x{address}")),
        None => canonical(&found.text),
    }
}

/// Returns true if two normalized texts are spellings of the same instruction.
fn are_spellings(ours: &str, theirs: &str, word: u32) -> bool {
    let (mnemonic, operands) = ours.split_once(' ').unwrap_or_default();
    let (their_mnemonic, their_operands) = theirs.split_once(' ').unwrap_or_default();
    match (mnemonic, their_mnemonic) {
        (".inst", "<unknown>") => true,
        // 32-bit numbers, signed or unsigned.
        ("mov", "mov") => {
            let number = |text: &str| {
                let (register, number) = text.split_once(',')?;
                Some((register.to_owned(), number.parse::<i64>().ok()? as u32))
            };
            operands.starts_with('w') && number(operands) == number(their_operands)
        }
        // A hint by name or by number.
        ("xpaclri", "hint") => word == 0xd503_20ff,
        // System operations by fields or by name: caches, address translation.
        ("sys", "dc" | "ic" | "at" | "tlbi") => true,
        // System registers by fields or by name.
        ("mrs" | "msr", "mrs" | "msr") => mnemonic == their_mnemonic && operands.contains("s3_"),
        // Byte indices are not scaled, with or without an explicit `#0`.
        _ => mnemonic == their_mnemonic && operands.replace("xtw0]", "xtw]") == their_operands,
    }
}

fn assert_agree(library: &str) {
    let mut objdump = Command::new("llvm-objdump")
        .args(["-d", "--mattr=+v8.5a,+lse,+mte,+crypto", library])
        .stdout(Stdio::piped())
        .spawn()
        .expect("llvm-objdump");
    let mut disassembler = disassembler(EM_AARCH64, Syntax::Att).expect("a disassembler");
    let mut different = BTreeMap::<String, (usize, String)>::new();
    let (mut all, mut unknown) = (0_usize, 0_usize);
    for line in BufReader::new(objdump.stdout.take().expect("its output")).lines() {
        let line = line.expect("text");
        // `   27240: f0 7b bf a9  	stp	x16, x30, [sp, #-16]!`
        let Some((address, (bytes, text))) = line
            .split_once(": ")
            .and_then(|(address, rest)| Some((address, rest.split_once('\t')?)))
        else {
            continue;
        };
        let address = u64::from_str_radix(address.trim(), 16).expect("an address");
        let bytes: Vec<u8> = bytes
            .split_whitespace()
            .map(|byte| u8::from_str_radix(byte, 16).expect("a byte"))
            .collect();
        let word = u32::from_le_bytes(bytes.as_slice().try_into().expect("a word"));
        let found = disassembler.decode(&bytes, address);
        all += 1;
        unknown += usize::from(found.text.starts_with(".inst"));
        let (ours, mut theirs) = (ours(&found, word), canonical(text));
        if let Some((register, distance)) = theirs
            .strip_prefix("adr ")
            .and_then(|it| it.split_once(','))
        {
            let distance: i64 = distance.parse().expect("a distance");
            theirs = format!("adr {register},{}", address.wrapping_add_signed(distance));
        }
        if ours != theirs && !are_spellings(&ours, &theirs, word) {
            let mnemonic = theirs.split(' ').next().unwrap_or_default().to_owned();
            let example = format!("{address:x} {word:08x}: {} | {text}", found.text);
            different.entry(mnemonic).or_insert((0, example)).0 += 1;
        }
    }
    assert!(objdump.wait().expect("llvm-objdump ends").success());
    assert!(all > 1000, "{all}");
    assert!(different.is_empty(), "{library}: {different:#?}");
    // SVE words, in a few functions of the C library.
    assert!(unknown * 1000 < all, "{unknown} of {all}");
}

#[test]
fn words_of_libraries_are_as_llvm_objdump_has_them() {
    needs!(Tool("llvm-objdump"), File(LIBC));
    assert_agree(LIBC);
    for library in std::env::var(MORE).iter().flat_map(|more| more.split(':')) {
        assert_agree(library);
    }
}
