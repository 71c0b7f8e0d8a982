//! Functions without call frame information, compared with the symbol table of the same program
//! before `strip`.

use std::collections::BTreeMap;

use object::{Object, ObjectSymbol, SymbolKind};
use rprof_unwind::{CalledFunctions, FunctionRanges};

use crate::tools;

/// Returns the found functions by name. Only functions of the fixture's assembly count.
fn found(flags: &[&str]) -> BTreeMap<String, (u64, u64)> {
    let directory = tempfile::tempdir().unwrap();
    let flags = [&["-O2"], flags].concat();
    let program = tools::compile("gcc", "called.c", &flags, directory.path()).unwrap();
    let bytes = std::fs::read(program).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let ranges = FunctionRanges::parse(&bytes).unwrap();
    let called = CalledFunctions::parse(&bytes).unwrap();
    let described = |svma| ranges.at(&bytes, svma).is_some();
    let symbols: BTreeMap<u64, &str> = (file.symbols())
        .filter(|symbol| symbol.kind() == SymbolKind::Text && !described(symbol.address()))
        .map(|symbol| (symbol.address(), symbol.name().unwrap()))
        .collect();
    for range in called.ranges() {
        assert_eq!(called.at(range.start), Some(range.clone()));
        assert_eq!(called.at(range.end - 1), Some(range.clone()));
        assert!(!described(range.start), "{range:x?}");
    }
    let starts = called.ranges().iter().map(|range| (range.start, range.end));
    let name = |start: u64| {
        symbols
            .get(&start)
            .copied()
            .unwrap_or("no symbol")
            .to_owned()
    };
    starts
        .map(|(start, end)| (name(start), (start, end)))
        .collect()
}

#[test]
fn functions_without_cfi_start_where_calls_and_pointers_lead() {
    if !tools::present("gcc") {
        return;
    }
    let in_order = [
        "called",
        "in_table",
        "taken",
        "jumped_to",
        "part",
        "by_another",
    ];
    for flags in [
        &["-pie", "-fPIE"][..],
        &["-no-pie", "-fno-pie"],
        &["-pie", "-fPIE", "-Wl,-z,pack-relative-relocs"],
    ] {
        let found = found(flags);
        for pair in in_order.windows(2) {
            let (one, next) = (found.get(pair[0]), found.get(pair[1]));
            let (Some(one), Some(next)) = (one, next) else {
                panic!("{flags:?}: {pair:?} in {found:x?}");
            };
            assert_eq!(one.1, next.0, "{flags:?}: {pair:?} in {found:x?}");
        }
        // Nothing leads to it, nor into the middle of a function.
        for name in ["never_reached", "no symbol"] {
            assert!(!found.contains_key(name), "{flags:?}: {name} in {found:x?}");
        }
    }
}
