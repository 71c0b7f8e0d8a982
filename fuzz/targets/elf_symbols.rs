//! Parses bytes as an ELF file, and looks up all symbols.
//!
//! Input: the bytes of the file.

use rprof_symbols::{ElfSymbols, Style};

/// Maximum length of a symbol that the crate guarantees.
const LONGEST: u64 = 512 << 20;

/// Maximum number of names to demangle, for speed.
const NAMES: usize = 64;

pub(crate) fn run(data: &[u8]) {
    let symbols = match ElfSymbols::parse(data) {
        Ok(symbols) => symbols,
        Err(e) => {
            assert!(!e.to_string().is_empty());
            return;
        }
    };
    let _ = (symbols.build_id(), symbols.has_symtab());
    let mut last = None;
    for (number, symbol) in symbols.iter().enumerate() {
        assert!(last.is_none_or(|last| last < symbol.start()));
        last = Some(symbol.start());
        assert!(symbol.size() <= LONGEST);
        let found = symbols.lookup_svma(symbol.start());
        if symbol.size() > 0 {
            assert_eq!(found, Some(symbol));
        }
        let after = symbol.start().saturating_add(symbol.size());
        if let Some(next) = symbols.lookup_svma(after) {
            assert!(next.start() <= after);
        }
        if number < NAMES {
            let _ = (symbol.name(Style::NoParameters), symbol.is_plt());
        }
    }
    let near = [
        0,
        1,
        data.len() as u64,
        u64::MAX / 2,
        u64::MAX - 1,
        u64::MAX,
    ];
    let pages = (0..data.len() as u64).step_by(64);
    for offset in near.into_iter().chain(pages) {
        let svma = symbols.file_offset_to_svma(offset);
        let found = symbols.lookup_offset(offset);
        assert_eq!(found, svma.and_then(|svma| symbols.lookup_svma(svma)));
        if let (Some(found), Some(svma)) = (found, svma) {
            assert!(found.start() <= svma && svma - found.start() < found.size());
        }
        let _ = (symbols.lookup_svma(offset), symbols.contains_svma(offset));
    }
}
