use super::*;

const LIST: &str = "\
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000010 t first
ffffffff81000010 T first_alias
ffffffff81000020 W weak
ffffffff81000030 T _etext
ffffffff81000040 d data
ffffffff81000048 r constant
ffffffff81000050 t behind_data
0000000000001000 A per_cpu_thing
ffffffffc0001000 t module_init\t[some_module]
ffffffffc0001100 t module_work\t[some_module]
ffffffffc0009000 t bpf_prog_6deef7357e7b4530_sd_devices\t[bpf]
not a line
ffffffffc0009100 t
";

fn name(symbols: &KernelSymbols, avma: u64) -> Option<(&str, Option<&str>)> {
    symbols
        .lookup(avma)
        .map(|symbol| (symbol.name, symbol.module))
}

#[test]
fn lookups() {
    let symbols = KernelSymbols::parse(LIST.as_bytes()).unwrap();
    let at = |low: u64| name(&symbols, 0xffff_ffff_8100_0000 + low);
    assert_eq!(at(0), Some(("_text", None)));
    assert_eq!(at(0x1f), Some(("first_alias", None)));
    assert_eq!(at(0x2f), Some(("weak", None)));
    assert_eq!(at(0x41), None, "data");
    assert_eq!(at(0x51), Some(("behind_data", None)));
    assert_eq!(
        at(0x1fff),
        Some(("behind_data", None)),
        "last before a module: to the end of the next page"
    );
    assert_eq!(at(0x2000), None);
    assert_eq!(name(&symbols, 0x1000), None);
    assert_eq!(
        name(&symbols, 0xffff_ffff_c000_10ff),
        Some(("module_init", Some("some_module")))
    );
    assert_eq!(
        name(&symbols, 0xffff_ffff_c000_2fff),
        Some(("module_work", Some("some_module")))
    );
    assert_eq!(name(&symbols, 0xffff_ffff_c000_3000), None);
    assert_eq!(
        name(&symbols, 0xffff_ffff_c000_9001).unwrap().1,
        Some("bpf")
    );
    assert_eq!(name(&symbols, u64::MAX), None);
    assert_eq!(
        symbols.text_range(),
        Some(0xffff_ffff_8100_0000..0xffff_ffff_8100_0030)
    );
    assert_eq!(symbols.address_of("_stext"), Some(0xffff_ffff_8100_0000));
    assert_eq!(symbols.address_of("weak"), Some(0xffff_ffff_8100_0020));
    assert_eq!(symbols.address_of("module_init"), None);
}

#[test]
fn hidden_and_empty() {
    let hidden = "0000000000000000 T _stext\n0000000000000000 t first\n";
    assert!(matches!(
        KernelSymbols::parse(hidden.as_bytes()),
        Err(KernelError::Hidden)
    ));
    assert!(matches!(
        KernelSymbols::parse("".as_bytes()),
        Err(KernelError::Empty)
    ));
    assert!(matches!(
        KernelSymbols::parse("x y z\n\u{fffd}\n".as_bytes()),
        Err(KernelError::Empty)
    ));
    assert_eq!(
        Reason::from(&KernelError::Hidden),
        Reason::KernelSymbolsHidden
    );
}

#[test]
fn hostile_lines() {
    let mut list = "ffffffffffffffff T last\n".to_owned();
    list.push_str(&format!("1000 T {}\n", "x".repeat(1 << 20)));
    list.push_str("1010 T after\n");
    let symbols = KernelSymbols::parse(list.as_bytes()).unwrap();
    assert_eq!(name(&symbols, 0x1010).unwrap().0, "after");
    let _ = symbols.lookup(u64::MAX);
}

#[test]
fn running_kernel() {
    let Ok(symbols) = KernelSymbols::load_running() else {
        return rprof_testing::skip("needs /proc/kallsyms with addresses (kernel.kptr_restrict)");
    };
    let text = symbols.text_range().unwrap();
    let inside = symbols
        .iter()
        .filter(|symbol| text.contains(&symbol.start))
        .count();
    assert!(inside > 1000, "{inside}");
    for symbol in symbols.iter().step_by(97) {
        assert_eq!(symbols.lookup(symbol.start + symbol.size - 1), Some(symbol));
    }
}
