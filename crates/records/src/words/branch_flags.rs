//! Flags of a branch record.

use std::fmt;

/// Bits after the addresses of a branch: `struct perf_branch_entry`, third word.
///
/// `Display` writes `/P/X/A/cycles/type` like `perf script -F brstack`: predicted (`P`),
/// mispredicted (`M`) or unknown (`-`), inside a transaction (`X`), abort (`A`), cycles since the
/// previous branch, and type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BranchFlags(pub u64);

/// Type of a branch: `PERF_BR_*`, with `PERF_BR_EXTEND_ABI` types from
/// [`EXTENDED`](Self::EXTENDED).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BranchKind(pub u8);

impl BranchFlags {
    fn bit(self, bit: u32) -> bool {
        self.0 >> bit & 1 != 0
    }

    fn field(self, from: u32, length: u32) -> u64 {
        self.0 >> from & ((1 << length) - 1)
    }

    /// Returns true if the branch was predicted, false if mispredicted; `None` if unknown. With
    /// both bits set it counts as predicted, as in perf.
    pub fn predicted(self) -> Option<bool> {
        match (self.bit(0), self.bit(1)) {
            (_, true) => Some(true),
            (true, false) => Some(false),
            (false, false) => None,
        }
    }

    /// Returns true if the branch was inside a transaction.
    pub fn in_transaction(self) -> bool {
        self.bit(2)
    }

    /// Returns true if the branch is the abort of a transaction.
    pub fn aborts_transaction(self) -> bool {
        self.bit(3)
    }

    /// Returns the cycles since the previous branch; 0 if the processor does not count them.
    pub fn cycles(self) -> u16 {
        self.field(4, 16) as u16
    }

    /// Returns the type of the branch.
    pub fn kind(self) -> BranchKind {
        match self.field(20, 4) as u8 {
            // PERF_BR_EXTEND_ABI: the type is in `new_type`.
            15 => BranchKind(BranchKind::EXTENDED + self.field(26, 4) as u8),
            kind => BranchKind(kind),
        }
    }

    /// Returns the speculation outcome (`PERF_BR_SPEC_*`): 0 unknown, 1 speculated and wrong, 2 not
    /// speculated and right, 3 speculated and right.
    pub fn speculation(self) -> u8 {
        self.field(24, 2) as u8
    }

    /// Returns the privilege level of the target (`PERF_BR_PRIV_*`): 0 unknown, 1 user, 2 kernel,
    /// 3 hypervisor.
    pub fn privilege(self) -> u8 {
        self.field(30, 3) as u8
    }
}

const KINDS: [&str; 15] = [
    "",
    "COND",
    "UNCOND",
    "IND",
    "CALL",
    "IND_CALL",
    "RET",
    "SYSCALL",
    "SYSRET",
    "COND_CALL",
    "COND_RET",
    "ERET",
    "IRQ",
    "SERROR",
    "NO_TX",
];

const EXTENDED_KINDS: [&str; 8] = [
    "FAULT_ALGN",
    "FAULT_DATA",
    "FAULT_INST",
    "ARCH_1",
    "ARCH_2",
    "ARCH_3",
    "ARCH_4",
    "ARCH_5",
];

impl BranchKind {
    /// Number of the first `PERF_BR_EXTEND_ABI` type here (`PERF_BR_NEW_FAULT_ALGN`).
    pub const EXTENDED: u8 = 16;

    /// Returns perf's name; empty for unknown types.
    pub fn name(self) -> &'static str {
        let name = match self.0.checked_sub(BranchKind::EXTENDED) {
            Some(extended) => EXTENDED_KINDS.get(usize::from(extended)),
            None => KINDS.get(usize::from(self.0)),
        };
        name.unwrap_or(&"")
    }
}

impl fmt::Display for BranchFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let predicted = match self.predicted() {
            Some(true) => 'P',
            Some(false) => 'M',
            None => '-',
        };
        let letter = |is_set, letter| if is_set { letter } else { '-' };
        write!(
            f,
            "/{predicted}/{}/{}/{}/{}",
            letter(self.in_transaction(), 'X'),
            letter(self.aborts_transaction(), 'A'),
            self.cycles(),
            self.kind().name()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_by_bits() {
        for (word, text) in [
            (0, "/-/-/-/0/"),
            (0b1101, "/M/X/A/0/"),
            (2 | 25 << 4 | 4 << 20, "/P/-/-/25/CALL"),
            (15 << 20 | 1 << 26, "/-/-/-/0/FAULT_DATA"),
            (u64::MAX, "/P/X/A/65535/"),
        ] {
            assert_eq!(BranchFlags(word).to_string(), text, "{word:#x}");
        }
        let flags = BranchFlags(2 << 24 | 1 << 30);
        assert_eq!((flags.speculation(), flags.privilege()), (2, 1));
    }
}
