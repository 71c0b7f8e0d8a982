//! Memory transactions, and the causes of their aborts.

use std::fmt;

/// Type of a memory transaction, and the causes of its end: `PERF_TXN_*` (perf_event_open(2),
/// `PERF_SAMPLE_TRANSACTION`).
///
/// `Display` uses the words of `perf report --sort transaction`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Transaction(pub u64);

impl Transaction {
    /// Lock elision (`PERF_TXN_ELISION`).
    pub const ELISION: Transaction = Transaction(1);
    /// Generic transaction (`PERF_TXN_TRANSACTION`).
    pub const TRANSACTION: Transaction = Transaction(1 << 1);
    /// Abort caused by the sampled instruction (`PERF_TXN_SYNC`).
    pub const SYNC: Transaction = Transaction(1 << 2);
    /// Abort unrelated to the sampled instruction (`PERF_TXN_ASYNC`).
    pub const ASYNC: Transaction = Transaction(1 << 3);
    /// A retry may succeed (`PERF_TXN_RETRY`).
    pub const RETRY: Transaction = Transaction(1 << 4);
    /// Conflict with another thread (`PERF_TXN_CONFLICT`).
    pub const CONFLICT: Transaction = Transaction(1 << 5);
    /// Write capacity exceeded (`PERF_TXN_CAPACITY_WRITE`).
    pub const CAPACITY_WRITE: Transaction = Transaction(1 << 6);
    /// Read capacity exceeded (`PERF_TXN_CAPACITY_READ`).
    pub const CAPACITY_READ: Transaction = Transaction(1 << 7);

    /// Returns true if all bits of `other` are set.
    pub fn has(self, other: Transaction) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the program's abort code (`PERF_TXN_ABORT_MASK`, bits 32 to 63).
    pub fn abort_code(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

const NAMES: [(Transaction, &str); 8] = [
    (Transaction::ELISION, "EL"),
    (Transaction::TRANSACTION, "TX"),
    (Transaction::SYNC, "SYNC"),
    (Transaction::ASYNC, "ASYNC"),
    (Transaction::RETRY, "RETRY"),
    (Transaction::CONFLICT, "CON"),
    (Transaction::CAPACITY_WRITE, "CAP-WRITE"),
    (Transaction::CAPACITY_READ, "CAP-READ"),
];

impl fmt::Display for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = NAMES.iter().filter(|(bit, _)| self.has(*bit));
        let mut words: Vec<String> = named.map(|(_, name)| (*name).to_owned()).collect();
        // The processor does not tell.
        if self.0 != 0 && !self.has(Transaction::SYNC) && !self.has(Transaction::ASYNC) {
            words.push("NEITHER".to_owned());
        }
        if self.abort_code() != 0 {
            words.push(format!(":{:x}", self.abort_code()));
        }
        f.pad(&words.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_perf_report() {
        for (word, text) in [
            (0, ""),
            (0x1, "EL NEITHER"),
            (0x6, "TX SYNC"),
            (0xff, "EL TX SYNC ASYNC RETRY CON CAP-WRITE CAP-READ"),
            (0x1f_0000_0032, "TX RETRY CON NEITHER :1f"),
        ] {
            assert_eq!(Transaction(word).to_string(), text, "{word:#x}");
        }
    }
}
