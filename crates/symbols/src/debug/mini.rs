//! `.gnu_debugdata`: compressed symbol table within a stripped image ("mini debuginfo", used by
//! Fedora; GDB manual, "MiniDebugInfo").

use super::links::debugdata;
use crate::elf::ElfSymbols;
use lzma_rust2::XzReader;
use rprof_image::{MemoryBudget, MemoryLease};
use std::io::Read;

/// Maximum length of the decompressed table. Real ones have a few MiB.
const MAX_LEN: u64 = 128 << 20;

/// Memory limit for the decompressor's window, in KiB. `xz -9` needs 64 MiB.
const MAX_WINDOW_KIB: u32 = 128 << 10;

/// Bytes per decompression step. Each step first reserves its memory.
const STEP: u64 = 4 << 20;

#[derive(Debug)]
pub(crate) struct MiniSymbols {
    pub(crate) symbols: ElfSymbols<Vec<u8>>,
    _leases: Vec<MemoryLease>,
}

/// Returns `None` if the image has no such table, or it is damaged or too large.
pub(crate) fn symbols(image: &[u8], memory: &MemoryBudget) -> Option<MiniSymbols> {
    let packed = debugdata(image)?;
    let (mut unpacked, mut leases) = (Vec::new(), Vec::new());
    let mut reader = XzReader::new_mem_limit(packed, true, MAX_WINDOW_KIB);
    loop {
        leases.push(memory.take(STEP)?);
        if (&mut reader).take(STEP).read_to_end(&mut unpacked).ok()? == 0 {
            break;
        }
        if unpacked.len() as u64 > MAX_LEN {
            return None;
        }
    }
    let symbols = ElfSymbols::parse(unpacked).ok()?;
    symbols.has_symtab().then_some(MiniSymbols {
        symbols,
        _leases: leases,
    })
}
