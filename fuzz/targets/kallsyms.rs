//! Parses text as `/proc/kallsyms`, and looks up addresses.
//!
//! Input: the text.

use rprof_symbols::KernelSymbols;

pub(crate) fn run(data: &[u8]) {
    let symbols = match KernelSymbols::parse(data) {
        Ok(symbols) => symbols,
        Err(e) => {
            assert!(!e.to_string().is_empty());
            return;
        }
    };
    if let Some(text) = symbols.text_range() {
        assert!(text.start < text.end);
    }
    let mut last = None;
    for symbol in symbols.iter() {
        assert!(last.is_none_or(|last| last < symbol.start));
        last = Some(symbol.start);
        if symbol.size > 0 {
            let found = symbols.lookup(symbol.start).expect("it begins there");
            assert_eq!(found, symbol);
        }
        if let Some(address) = symbols.address_of(symbol.name) {
            let _ = symbols.lookup(address);
        }
        let end = symbol.start.saturating_add(symbol.size);
        for near in [symbol.start.saturating_sub(1), end.saturating_sub(1), end] {
            if let Some(found) = symbols.lookup(near) {
                assert!(found.start <= near);
            }
        }
    }
    for address in [0, 1, u64::MAX / 2, u64::MAX] {
        let _ = symbols.lookup(address);
    }
}
