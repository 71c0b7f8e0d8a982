//! [`MemoryLimits`]: limits of memory for decompressed parts of files.

use crate::pages::Pages;
use rprof_image::MemoryBudget;
use std::sync::OnceLock;

/// Limit for untrusted files, in bytes. Few real files need more.
const OF_STRANGERS: u64 = 256 << 20;

/// Minimum limit for trusted files, in bytes.
const OF_OURS: u64 = 1 << 30;

/// Limits of memory for decompression, shared by all images of a [`Symbolizer`](crate::Symbolizer).
#[derive(Debug, Clone)]
pub struct MemoryLimits {
    /// Limit for files owned by root or this user.
    pub ours: MemoryBudget,
    /// Limit for files of a recording or of other users.
    pub strangers: MemoryBudget,
}

impl Default for MemoryLimits {
    fn default() -> Self {
        let ours = machine_memory().map_or(OF_OURS, |all| OF_OURS.max(all / 4));
        Self {
            ours: MemoryBudget::new(ours),
            strangers: MemoryBudget::new(OF_STRANGERS),
        }
    }
}

impl MemoryLimits {
    /// Creates two limits of this many bytes each.
    #[must_use]
    pub fn of_all(bytes: u64) -> Self {
        Self {
            ours: MemoryBudget::new(bytes),
            strangers: MemoryBudget::new(bytes),
        }
    }

    pub(crate) fn of(&self, file: &impl Pages) -> &MemoryBudget {
        match file.is_ours() {
            true => &self.ours,
            false => &self.strangers,
        }
    }

    /// Returns the number of parts skipped at a limit.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.ours.refused() + self.strangers.refused()
    }
}

fn machine_memory() -> Option<u64> {
    static MEMORY: OnceLock<Option<u64>> = OnceLock::new();
    *MEMORY.get_or_init(read_machine_memory)
}

fn read_machine_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let total = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = total.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_the_memory_is_ours() {
        let all = machine_memory().unwrap();
        assert!(all > 64 << 20, "{all}");
        assert!(MemoryLimits::default().ours.most() >= all / 4);
    }
}
