//! Source of the data of a memory access.

use std::fmt;

use bitflags::bitflags;

/// Data source of a load or store: `union perf_mem_data_src` (perf_event_open(2),
/// `PERF_SAMPLE_DATA_SRC`).
///
/// `Display` writes `|OP LOAD|LVL L1 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK  N/A`, like `perf
/// script -F data_src` after the word itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DataSource(pub u64);

bitflags! {
    /// Memory operation, `PERF_MEM_OP_*`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct MemoryOperation: u8 {
        /// Unknown.
        const NOT_AVAILABLE = 1;
        /// Load.
        const LOAD = 1 << 1;
        /// Store.
        const STORE = 1 << 2;
        /// Prefetch.
        const PREFETCH = 1 << 3;
        /// Instruction fetch.
        const EXECUTE = 1 << 4;
    }
}

bitflags! {
    /// Level of the memory hierarchy, with hit or miss: `PERF_MEM_LVL_*`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct MemoryLevel: u16 {
        /// Unknown.
        const NOT_AVAILABLE = 1;
        /// Hit.
        const HIT = 1 << 1;
        /// Miss.
        const MISS = 1 << 2;
        /// First-level cache.
        const L1 = 1 << 3;
        /// Line fill buffer.
        const LINE_FILL_BUFFER = 1 << 4;
        /// Second-level cache.
        const L2 = 1 << 5;
        /// Third-level cache.
        const L3 = 1 << 6;
        /// Memory of this node.
        const LOCAL_MEMORY = 1 << 7;
        /// Memory one hop away.
        const REMOTE_MEMORY_1 = 1 << 8;
        /// Memory two hops away.
        const REMOTE_MEMORY_2 = 1 << 9;
        /// Cache one hop away.
        const REMOTE_CACHE_1 = 1 << 10;
        /// Cache two hops away.
        const REMOTE_CACHE_2 = 1 << 11;
        /// Device memory.
        const IO = 1 << 12;
        /// Uncached memory.
        const UNCACHED = 1 << 13;
    }
}

bitflags! {
    /// Snoop results, `PERF_MEM_SNOOP_*`; from bit 5 `PERF_MEM_SNOOPX_*`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Snoop: u8 {
        /// Unknown.
        const NOT_AVAILABLE = 1;
        /// No snoop.
        const NONE = 1 << 1;
        /// Hit in another cache.
        const HIT = 1 << 2;
        /// Miss in all other caches.
        const MISS = 1 << 3;
        /// Hit on a modified line.
        const HIT_MODIFIED = 1 << 4;
        /// Forwarded by another cache.
        const FORWARD = 1 << 5;
        /// Forwarded by a cache of the same level.
        const PEER = 1 << 6;
    }
}

bitflags! {
    /// Address translation, `PERF_MEM_TLB_*`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct TlbAccess: u8 {
        /// Unknown.
        const NOT_AVAILABLE = 1;
        /// Hit.
        const HIT = 1 << 1;
        /// Miss.
        const MISS = 1 << 2;
        /// First level.
        const L1 = 1 << 3;
        /// Second level.
        const L2 = 1 << 4;
        /// Page table walk by the processor.
        const WALKER = 1 << 5;
        /// Page fault, handled by the kernel.
        const FAULT = 1 << 6;
    }
}

bitflags! {
    /// Reason for a blocked access, `PERF_MEM_BLK_*`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Blocked: u8 {
        /// Unknown.
        const NOT_AVAILABLE = 1;
        /// Data could not be forwarded.
        const DATA = 1 << 1;
        /// Addresses conflicted.
        const ADDRESS = 1 << 2;
    }
}

impl DataSource {
    fn field(self, from: u32, length: u32) -> u64 {
        self.0 >> from & ((1 << length) - 1)
    }

    /// Returns the operation (`mem_op`).
    pub fn operation(self) -> MemoryOperation {
        MemoryOperation::from_bits_retain(self.field(0, 5) as u8)
    }

    /// Returns level, and hit or miss (`mem_lvl`). Newer kernels also supply
    /// [`level_number`](Self::level_number).
    pub fn level(self) -> MemoryLevel {
        MemoryLevel::from_bits_retain(self.field(5, 14) as u16)
    }

    /// Returns the level as a number (`mem_lvl_num`): 1 to 4 for caches, then `PERF_MEM_LVLNUM_*`;
    /// `None` for 0 (unknown).
    pub fn level_number(self) -> Option<u8> {
        Some(self.field(33, 4) as u8).filter(|number| *number != 0)
    }

    /// Returns true if the data came from another node (`mem_remote`).
    pub fn is_remote(self) -> bool {
        self.field(37, 1) != 0
    }

    /// Returns the distance of the source (`mem_hops`): 1 another core of the node, 2 another node
    /// of the socket, 3 another socket, 4 another board; `None` for 0 (unknown).
    pub fn hops(self) -> Option<u8> {
        Some(self.field(43, 3) as u8).filter(|hops| *hops != 0)
    }

    /// Returns the snoop results (`mem_snoop`, `mem_snoopx`).
    pub fn snoop(self) -> Snoop {
        Snoop::from_bits_retain((self.field(19, 5) | self.field(38, 2) << 5) as u8)
    }

    /// Returns true if the instruction had a lock prefix (`mem_lock`); `None` if unknown.
    pub fn is_locked(self) -> Option<bool> {
        let bits = self.field(24, 2);
        (bits & 1 == 0).then_some(bits & 2 != 0)
    }

    /// Returns the address translation (`mem_dtlb`).
    pub fn tlb(self) -> TlbAccess {
        TlbAccess::from_bits_retain(self.field(26, 7) as u8)
    }

    /// Returns the reasons for a blocked access (`mem_blk`).
    pub fn blocked(self) -> Blocked {
        Blocked::from_bits_retain(self.field(40, 3) as u8)
    }
}

const OPERATIONS: [&str; 5] = ["N/A", "LOAD", "STORE", "PFETCH", "EXEC"];

/// Names by bit. Hit and miss follow the level.
const LEVELS: [&str; 14] = [
    "N/A",
    "",
    "",
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

const HOPS: [&str; 4] = [
    "core, same node",
    "node, same socket",
    "socket, same board",
    "board",
];

const SNOOPS: [&str; 7] = ["N/A", "None", "Hit", "Miss", "HitM", "Fwd", "Peer"];
const TLBS: [&str; 7] = ["N/A", "", "", "L1", "L2", "Walker", "Fault"];

/// Bits for hit and miss, for levels and TLBs.
const HIT: u64 = 2;
const MISS: u64 = 4;

fn names(bits: u64, names: &[&'static str]) -> Vec<&'static str> {
    let named = names
        .iter()
        .enumerate()
        .filter(|(_, name)| !name.is_empty());
    named
        .filter_map(|(bit, name)| (bits >> bit & 1 != 0).then_some(*name))
        .collect()
}

fn hit_and_miss(bits: u64) -> String {
    let word = |bit, word| if bits & bit != 0 { word } else { "" };
    [word(HIT, " hit"), word(MISS, " miss")].concat()
}

fn level_name(number: u8) -> String {
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

fn or_not_available(names: &[&str]) -> String {
    match names.is_empty() {
        true => "N/A".to_owned(),
        false => names.join(" or "),
    }
}

impl DataSource {
    /// Returns the levels, such as `Remote RAM or L3`.
    fn places(self) -> String {
        let mut places = String::new();
        if self.is_remote() {
            places.push_str("Remote ");
        }
        let hop = self.hops().and_then(|hops| HOPS.get(usize::from(hops) - 1));
        let mut parts: Vec<String> = match hop {
            Some(hop) => {
                places.push_str(hop);
                places.push(' ');
                Vec::new()
            }
            None => (names(self.level().bits().into(), &LEVELS).into_iter())
                .map(str::to_owned)
                .collect(),
        };
        parts.extend(self.level_number().map(level_name));
        places.push_str(&parts.join(" or "));
        match places.is_empty() {
            true => "N/A".to_owned(),
            false => places,
        }
    }
}

impl fmt::Display for DataSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // perf writes only the first of several operations.
        let operation = names(self.operation().bits().into(), &OPERATIONS);
        let lock = match self.is_locked() {
            None => "N/A",
            Some(true) => "Yes",
            Some(false) => "No",
        };
        let blocked = self.blocked();
        let blocked = match blocked {
            b if b.is_empty() || b.contains(Blocked::NOT_AVAILABLE) => " N/A".to_owned(),
            b => {
                let word = |bit, word| if b.contains(bit) { word } else { "" };
                [
                    word(Blocked::DATA, " Data"),
                    word(Blocked::ADDRESS, " Addr"),
                ]
                .concat()
            }
        };
        let tlb = u64::from(self.tlb().bits());
        write!(
            f,
            "|OP {}|LVL {}{}|SNP {}|TLB {}{}|LCK {lock}|BLK {blocked}",
            operation.first().unwrap_or(&"No"),
            self.places(),
            hit_and_miss(self.level().bits().into()),
            or_not_available(&names(self.snoop().bits().into(), &SNOOPS)),
            or_not_available(&names(tlb, &TLBS)),
            hit_and_miss(tlb),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_perf_6_1() {
        for (word, text) in [
            (
                0x1e_0508_0021,
                "|OP N/A|LVL N/A or N/A|SNP N/A|TLB N/A|LCK N/A|BLK  N/A",
            ),
            (
                0x118_6810_0242,
                "|OP LOAD|LVL LFB/MAB or LFB/MAB hit|SNP None|TLB L1 or L2 hit|LCK No|BLK  N/A",
            ),
            (
                0x102_6810_0142,
                "|OP LOAD|LVL L1 or L1 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK  N/A",
            ),
        ] {
            assert_eq!(DataSource(word).to_string(), text, "{word:#x}");
        }
        assert!(DataSource(u64::MAX).to_string().starts_with("|OP N/A|"));
    }

    #[test]
    fn fields_are_where_the_header_has_them() {
        let word = DataSource(0x1ff_ffff_ffff & !(1 << 24));
        assert_eq!(word.operation(), MemoryOperation::all());
        assert_eq!(word.level(), MemoryLevel::all());
        assert_eq!(word.snoop(), Snoop::all());
        assert_eq!(
            (word.tlb(), word.is_locked()),
            (TlbAccess::all(), Some(true))
        );
        assert_eq!((word.level_number(), word.is_remote()), (Some(15), true));
        assert_eq!(
            (word.hops(), word.blocked()),
            (None, Blocked::NOT_AVAILABLE)
        );
        assert_eq!(DataSource(2 << 43).hops(), Some(2));
        assert_eq!(DataSource(1 << 24).is_locked(), None);
    }
}
