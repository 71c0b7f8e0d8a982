//! `.gnu_debugdata`: the symbol table of a stripped image, compressed inside of it ("mini
//! debuginfo", as Fedora has it; GDB manual, "MiniDebugInfo").

use super::links::debugdata;
use crate::elf::ElfSymbols;
use lzma_rust2::XzReader;
use std::io::Read;

/// Longest table that is unpacked. Real ones have some MiB.
const MAX_LEN: u64 = 256 << 20;

/// Memory for the decompressor's window, in KiB. `xz -9` needs 64 MiB.
const MAX_WINDOW_KIB: u32 = 128 << 10;

/// Unpacks the symbol table. Returns `None` if the image has none, or it is damaged or too large.
pub(crate) fn symbols(image: &[u8]) -> Option<ElfSymbols<Vec<u8>>> {
    let packed = debugdata(image)?;
    let mut unpacked = Vec::new();
    // One byte more tells a table that is too long from one that just fits.
    let reader = XzReader::new_mem_limit(packed, true, MAX_WINDOW_KIB);
    reader.take(MAX_LEN + 1).read_to_end(&mut unpacked).ok()?;
    if unpacked.len() as u64 > MAX_LEN {
        return None;
    }
    ElfSymbols::parse(unpacked)
        .ok()
        .filter(ElfSymbols::has_symtab)
}
