//! Sources of data (`union perf_mem_data_src`), in the words of perf.

use std::io::{self, Write};

const OPERATIONS: [&str; 5] = ["N/A", "LOAD", "STORE", "PFETCH", "EXEC"];

/// `PERF_MEM_LVL_*`, without the bits for hit and miss.
const LEVELS: [&str; 14] = [
    "N/A",
    "HIT",
    "MISS",
    "L1",
    "LFB/MAB",
    "L2",
    "L3",
    "Local RAM",
    "Remote RAM (1 hop)",
    "Remote RAM (2 hops)",
    "Remote Cache (1 hop)",
    "Remote Cache (2 hops)",
    "I/O",
    "Uncached",
];

const HOPS: [&str; 5] = [
    "N/A",
    "core, same node",
    "node, same socket",
    "socket, same board",
    "board",
];

const SNOOPS: [&str; 5] = ["N/A", "None", "Hit", "Miss", "HitM"];
const MORE_SNOOPS: [&str; 2] = ["Fwd", "Peer"];
const TLBS: [&str; 7] = ["N/A", "HIT", "MISS", "L1", "L2", "Walker", "Fault"];

/// Bits that say hit and miss, of levels as of TLBs.
const HIT: u64 = 2;
const MISS: u64 = 4;

fn names(bits: u64, names: &[&'static str]) -> Vec<&'static str> {
    (names.iter().enumerate())
        .filter_map(|(i, name)| (bits >> i & 1 != 0).then_some(*name))
        .collect()
}

fn hit_and_miss(bits: u64) -> String {
    let word = |bit, word| if bits & bit != 0 { word } else { "" };
    [word(HIT, " hit"), word(MISS, " miss")].concat()
}

fn level_number(number: u64) -> String {
    match number {
        8 => "Uncached".into(),
        9 => "CXL".into(),
        10 => "I/O".into(),
        11 => "Any cache".into(),
        12 => "LFB/MAB".into(),
        13 => "RAM".into(),
        14 => "PMEM".into(),
        15 => "N/A".into(),
        n => format!("L{n}"),
    }
}

/// Decodes the parts of the word.
pub(crate) fn decode(source: u64) -> String {
    let field = |from: u32, len: u32| source >> from & ((1 << len) - 1);
    let (operation, level, snoop, lock, tlb) = (
        field(0, 5),
        field(5, 14),
        field(19, 5),
        field(24, 2),
        field(26, 7),
    );
    let (number, remote, more_snoop, block, hops) = (
        field(33, 4),
        field(37, 1),
        field(38, 2),
        field(40, 3),
        field(43, 3),
    );
    let operation = names(operation, &OPERATIONS);
    let operation = operation.first().unwrap_or(&"No");

    let mut places = String::new();
    if remote != 0 {
        places.push_str("Remote ");
    }
    let mut parts: Vec<String> = match HOPS.get(hops as usize) {
        Some(hop) if hops != 0 => {
            places.push_str(hop);
            places.push(' ');
            Vec::new()
        }
        _ => (names(level & !(HIT | MISS), &LEVELS).into_iter())
            .map(str::to_owned)
            .collect(),
    };
    if number != 0 {
        parts.push(level_number(number));
    }
    places.push_str(&parts.join(" or "));
    if places.is_empty() {
        places.push_str("N/A");
    }

    let mut snoops = names(snoop, &SNOOPS);
    snoops.extend(names(more_snoop, &MORE_SNOOPS));
    let or_not = |list: Vec<&str>| match list.is_empty() {
        true => "N/A".to_owned(),
        false => list.join(" or "),
    };
    let lock = match lock {
        l if l & 1 != 0 => "N/A",
        l if l & 2 != 0 => "Yes",
        _ => "No",
    };
    let block = match block {
        b if b == 0 || b & 1 != 0 => " N/A".to_owned(),
        b => {
            let word = |bit, word| if b & bit != 0 { word } else { "" };
            [word(2, " Data"), word(4, " Addr")].concat()
        }
    };
    format!(
        "|OP {operation}|LVL {places}{}|SNP {}|TLB {}{}|LCK {lock}|BLK {block}",
        hit_and_miss(level),
        or_not(snoops),
        or_not(names(tlb & !(HIT | MISS), &TLBS)),
        hit_and_miss(tlb),
    )
}

/// Writes the column, as wide as the widest so far.
#[derive(Debug, Default)]
pub(crate) struct DataSource {
    width: usize,
}

impl DataSource {
    pub(crate) fn write(&mut self, source: u64, out: &mut dyn Write) -> io::Result<()> {
        let text = format!("{source:16x} {}", decode(source));
        self.width = self.width.max(text.len());
        write!(out, "{text:width$}", width = self.width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_perf_6_1_decodes() {
        assert_eq!(
            decode(0x1e_0508_0021),
            "|OP N/A|LVL N/A or N/A|SNP N/A|TLB N/A|LCK N/A|BLK  N/A"
        );
        assert_eq!(
            decode(0x118_6810_0242),
            "|OP LOAD|LVL LFB/MAB or LFB/MAB hit|SNP None|TLB L1 or L2 hit|LCK No|BLK  N/A"
        );
        assert_eq!(
            decode(0x102_6810_0142),
            "|OP LOAD|LVL L1 or L1 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK  N/A"
        );
        // All bits at once: nothing is beyond a table.
        assert!(decode(u64::MAX).starts_with("|OP N/A|"));
    }
}
