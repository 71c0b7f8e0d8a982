//! Compares shares with perf annotate.

use std::collections::BTreeMap;

use super::{Annotated, annotated};
use crate::support::{Here, c_with, needs};

#[test]
fn shares_of_instructions_are_those_of_perf_annotate() {
    needs!(PerfEvents, Perf, X86_64, Tool("objdump"));
    let here = Here::new();
    let program = c_with("shares.c", &["-g"]);
    let found = annotated(&here, &program, "--no-inline");
    let mut checked = 0;
    for function in &found.0 {
        let name = function["symbol"].as_str().expect("a symbol");
        let whole = function["self"].as_u64().expect("self");
        if function["self_samples"].as_u64() < Some(20) {
            continue;
        }
        let perf = here
            .perf("annotate --stdio -q --percent-type local-period --stdio-color never -s")
            .arg(name)
            .run();
        //     50.12 :   1234: mov %rax,%rbx
        let mut theirs: BTreeMap<u64, f64> = BTreeMap::new();
        for line in perf.out().lines() {
            let Some((share, rest)) = line.split_once(" :") else {
                continue;
            };
            let address = rest.trim().split(':').next().unwrap_or_default();
            let (share, address) = (
                share.trim().parse::<f64>(),
                u64::from_str_radix(address, 16),
            );
            if let (Ok(share), Ok(address)) = (share, address) {
                *theirs.entry(address).or_default() += share;
            }
        }
        assert!(!theirs.is_empty(), "{perf}");
        let parts = function["parts"].as_array().expect("parts");
        for instruction in parts
            .iter()
            .flat_map(|part| part["instructions"].as_array().expect("instructions"))
        {
            let address = instruction["address"].as_u64().expect("an address");
            let own = instruction["self"].as_u64().expect("self");
            let share = own as f64 * 100.0 / whole as f64;
            let theirs = theirs.get(&address).copied().unwrap_or(0.0);
            assert!(
                (share - theirs).abs() < 0.011,
                "{name} at {address:x}: {share} and {theirs}\n{perf}"
            );
        }
        checked += 1;
    }
    assert!(checked > 0, "no function with enough samples");
}

/// Total is never less than self.
#[test]
fn instructions_and_lines_add_up() {
    needs!(PerfEvents);
    let here = Here::new();
    let program = c_with("shares.c", &["-g"]);
    for options in ["", "--inlined definition", "--weight samples"] {
        let found = annotated(&here, &program, options);
        for function in &found.0 {
            let sum = |rows: &mut dyn Iterator<Item = &serde_json::Value>| {
                rows.map(|row| row["self"].as_u64().expect("self"))
                    .sum::<u64>()
            };
            let own = function["self"].as_u64().expect("self");
            let parts = function["parts"].as_array().expect("parts");
            let mut instructions = parts
                .iter()
                .flat_map(|part| part["instructions"].as_array().expect("instructions"));
            assert_eq!(sum(&mut instructions), own);
            let lines = function["lines"].as_array().expect("lines");
            if function["symbol"]
                .as_str()
                .is_some_and(|name| name.starts_with("burn_"))
            {
                assert_eq!(sum(&mut lines.iter()), own, "{}", function["symbol"]);
            }
            for row in lines {
                assert!(row["self"].as_u64() <= row["total"].as_u64());
                assert!(row["total"].as_u64() <= function["total"].as_u64());
            }
        }
    }
    let Annotated(all) = annotated(&here, &program, "main");
    let main = &all[0];
    assert!(main["total"].as_u64() > main["self"].as_u64().map(|own| own * 5));
}
