//! binutils as the oracle, which shares no code with gimli. `readelf --debug-dump=frames-interp`
//! prints the CFA and the saved registers of each row.

use crate::tools;
use rprof_unwind::table::{CfaRule, RegisterRule, Row};
use rprof_unwind::{Arch, UnwindTable};
use std::process::Command;

const NAMES: [&str; 17] = [
    "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15", "ra",
];

const NAMES_OF_I386: [&str; 9] = ["eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi", "ra"];

/// Formats a rule like readelf.
fn register(rule: RegisterRule<'_>, names: &[&str]) -> String {
    match rule {
        RegisterRule::Default | RegisterRule::Undefined => "u".into(),
        RegisterRule::Same => "s".into(),
        RegisterRule::AtCfa(offset) => format!("c{offset:+}"),
        RegisterRule::CfaPlus(offset) => format!("v{offset:+}"),
        RegisterRule::Register(register) => names[usize::from(register)].into(),
        RegisterRule::At(_) => "exp".into(),
        RegisterRule::Expression(_) => "vexp".into(),
        _ => "?".into(),
    }
}

fn cfa(rule: CfaRule<'_>, names: &[&str]) -> String {
    match rule {
        CfaRule::Register(register, offset) => {
            format!("{}{offset:+}", names[usize::from(register)])
        }
        CfaRule::Expression(_) => "exp".into(),
        _ => "?".into(),
    }
}

#[test]
fn rows_are_those_of_readelf() {
    if !tools::present("readelf") {
        return;
    }
    for path in tools::system_images() {
        let bytes = std::fs::read(&path).unwrap();
        // readelf needs minutes for large ones.
        if bytes.len() > 16 << 20 {
            continue;
        }
        let table = UnwindTable::parse(&bytes).unwrap();
        let ours: Vec<Row<'_>> = table.rows().collect();
        let names = match table.arch() {
            Arch::X86 => &NAMES_OF_I386[..],
            _ => &NAMES,
        };
        let digits = 2 * table.arch().word_size() as usize;
        let output = Command::new("readelf")
            .args(["--wide", "--debug-dump=frames-interp"])
            .arg(&path)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let mut columns: Vec<&str> = Vec::new();
        let mut in_fde = false;
        let mut range = (0, 0);
        let mut compared = 0;
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            if words.get(3) == Some(&"CIE") {
                in_fde = false;
            } else if words.get(3) == Some(&"FDE") {
                in_fde = true;
                let pc = line.split("pc=").nth(1).unwrap();
                let (start, end) = pc.split_once("..").unwrap();
                let hex = |text: &str| u64::from_str_radix(text.trim(), 16).unwrap();
                range = (hex(start), hex(end));
            } else if words.first() == Some(&"LOC") {
                columns = words[2..].to_vec();
            } else if in_fde && words.len() == columns.len() + 2 && words[0].len() == digits {
                let address = u64::from_str_radix(words[0], 16).unwrap();
                if address < range.0 || address >= range.1 {
                    continue;
                }
                let at = ours.partition_point(|ours| ours.start <= address);
                let rule = ours[at - 1].rule.as_ref().unwrap();
                let place = format!("{} {address:#x}", path.display());
                assert_eq!(cfa(rule.cfa, names), words[1], "{place}");
                for (name, &theirs) in columns.iter().zip(&words[2..]) {
                    let Some(number) = names.iter().position(|known| known == name) else {
                        continue;
                    };
                    let ours = if number == names.len() - 1 {
                        rule.return_address
                    } else {
                        let found = rule
                            .registers
                            .iter()
                            .find(|(r, _)| usize::from(*r) == number);
                        found.map_or(RegisterRule::Default, |(_, rule)| *rule)
                    };
                    assert_eq!(register(ours, names), theirs, "{place} {name}");
                }
                compared += 1;
            }
        }
        eprintln!("{}: {compared} rows", path.display());
        assert!(compared > 100 || text.is_empty(), "{}", path.display());
    }
}
