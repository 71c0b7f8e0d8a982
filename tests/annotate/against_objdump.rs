//! Compares instructions with objdump: addresses, bytes, and text.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Annotated, annotated, programs};
use crate::support::{Here, needs};

/// Returns bytes and text of objdump's instructions by address.
fn disassembled(here: &Here, program: &Path, options: &str) -> BTreeMap<u64, (String, String)> {
    let script = format!("objdump -d -w {options} {}", program.display());
    let run = here.sh(&script).ok();
    let mut found = BTreeMap::new();
    for line in run.out().lines() {
        // `    1139:\t55                   \tpush   %rbp`.
        let mut fields = line.split('\t');
        let address = fields
            .next()
            .and_then(|field| field.trim().strip_suffix(':'));
        let Some(address) = address.and_then(|digits| u64::from_str_radix(digits, 16).ok()) else {
            continue;
        };
        let bytes: String = fields
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        let text = fields.next().unwrap_or_default();
        // objdump prints the target after the text.
        let text = text.split(['<', '#']).next().unwrap_or_default();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        found.insert(address, (bytes, text));
    }
    found
}

/// Returns the mnemonic alone: each tool writes Intel operands in its own way.
fn mnemonic(text: &str) -> String {
    let mut words = text.split_whitespace();
    let word = words.find(|word| !["data16", "cs", "notrack", "bnd"].contains(word));
    word.unwrap_or_default().to_owned()
}

/// Removes a zero displacement, a scale of 1, and a multiplication's third operand if it equals the
/// second.
fn as_ours(text: &str) -> String {
    let text = text.replace("0x0(", "(").replace(",1)", ")");
    let text = text.trim();
    let operands = text
        .strip_prefix("imul $")
        .and_then(|_| text.rsplit_once(','));
    match operands {
        Some((before, last)) if before.rsplit_once(',').is_some_and(|(_, it)| it == last) => {
            before.to_owned()
        }
        _ => text.to_owned(),
    }
}

type Spelling = fn(&str) -> String;

fn compare(
    what: &str,
    found: &Annotated,
    by_objdump: &BTreeMap<u64, (String, String)>,
    (ours, theirs): (Spelling, Spelling),
) {
    let (mut all, mut different) = (0, Vec::new());
    for instruction in found.instructions() {
        let address = instruction["address"].as_u64().expect("an address");
        let bytes = instruction["bytes"].as_str().expect("bytes");
        let text = instruction["text"].as_str().expect("text");
        let Some((their_bytes, their_text)) = by_objdump.get(&address) else {
            panic!("{what}: objdump has no instruction at {address:x} ({text})");
        };
        assert_eq!(
            bytes, their_bytes,
            "{what}: at {address:x}: {text}, {their_text}"
        );
        all += 1;
        if ours(text) != theirs(their_text) {
            different.push(format!("{address:x}: {text} | {their_text}"));
        }
    }
    assert!(all > 20, "{what}: {all} instructions");
    // Tools differ in a few spellings: prefixes, conditions, sizes implied by registers.
    assert!(
        different.len() * 10 <= all,
        "{what}: {} of {all}: {:#?}",
        different.len(),
        &different[..different.len().min(20)]
    );
}

#[test]
fn instructions_are_those_of_objdump() {
    needs!(PerfEvents, X86_64, Tool("objdump"));
    for (what, program) in programs() {
        check(what, &Here::new(), &program);
    }
}

/// Compares the instructions of a recorded program in both notations.
pub(super) fn check(what: &str, here: &Here, program: &Path) {
    let found = annotated(here, program, "");
    let by_objdump = disassembled(here, program, "");
    compare(what, &found, &by_objdump, (str::to_owned, as_ours));
    let intel = super::annotated_again(here, program, "-M intel");
    let by_objdump = disassembled(here, program, "-M intel");
    let what = format!("{what}, intel");
    compare(&what, &intel, &by_objdump, (mnemonic, mnemonic));
}

#[test]
fn code_of_the_vdso_is_decoded() {
    needs!(PerfEvents, X86_64);
    let here = Here::new();
    let program = crate::support::c("shares.c");
    here.record("-F 999 -e cpu-clock:u", &program, "0.5");
    let run = here.rprof("annotate --show asm --all --dso [vdso]").run();
    if run.code() == Some(0) {
        run.prints("address").prints("ret");
    }
}
