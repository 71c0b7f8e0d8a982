//! [`Memory`]: what decompressed parts of files may take.

use crate::pages::Pages;
use rprof_image::MemoryBudget;
use std::sync::OnceLock;

/// Bytes for files that strangers may have made, as a recording's are: few honest ones need more.
const OF_STRANGERS: u64 = 256 << 20;

/// Bytes for the files of this machine at least; else a quarter of its memory.
const OF_OURS: u64 = 1 << 30;

/// Memory for parts of files as they are decompressed, in all images of a
/// [`Symbolizer`](crate::Symbolizer) together.
#[derive(Debug, Clone)]
pub struct Memory {
    /// For files of this machine: those of root and of whoever runs this.
    pub ours: MemoryBudget,
    /// For files that come with a recording, or that others on this machine own.
    pub strangers: MemoryBudget,
}

impl Default for Memory {
    fn default() -> Self {
        let ours = machine_memory().map_or(OF_OURS, |all| OF_OURS.max(all / 4));
        Self {
            ours: MemoryBudget::new(ours),
            strangers: MemoryBudget::new(OF_STRANGERS),
        }
    }
}

impl Memory {
    /// Creates as much for files of this machine as for those of strangers.
    #[must_use]
    pub fn of_all(bytes: u64) -> Self {
        Self {
            ours: MemoryBudget::new(bytes),
            strangers: MemoryBudget::new(bytes),
        }
    }

    /// Returns what there is for a file.
    pub(crate) fn of(&self, file: &impl Pages) -> &MemoryBudget {
        match file.is_ours() {
            true => &self.ours,
            false => &self.strangers,
        }
    }

    /// Returns how many parts of files were left out, as there was no memory left for them.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.ours.refused() + self.strangers.refused()
    }
}

/// Returns the bytes of memory of this machine, which are read once.
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
        assert!(Memory::default().ours.most() >= all / 4);
    }
}
