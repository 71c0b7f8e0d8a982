//! Names are demangled for every language and kind of linking, and harmless for all byte values.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::support::{
    Here, Language, c, c_with, check, cxx, cxx_with, folded, generated, measured, needs, rust,
    well_formed,
};

/// The report has these functions with self samples.
fn assert_hot(program: &Path, names: &[&str]) {
    // While a virtual machine stalls, a function may run without a sample.
    measured(|| {
        let here = Here::new();
        here.record("-F 999 -g -e cpu-clock", program, "0.1");
        let report = here.report("");
        for name in names {
            let row = report.only().rows.iter().find(|row| row.symbol == *name);
            let found = row.filter(|row| row.self_samples > 0);
            let found = found.map(|row| row.object.as_str());
            check(found.is_some(), || {
                let names: Vec<_> = report.only().rows.iter().map(|r| &r.symbol).collect();
                format!("{name} in {}: {names:#?}", program.display())
            })?;
            assert_eq!(found, program.to_str(), "{name}");
        }
        Ok(())
    });
}

#[test]
fn c_names_are_the_same_however_the_program_is_linked() {
    needs!(PerfEvents);
    let names = ["burn_seventy", "burn_twenty", "burn_ten"];
    assert_hot(&c("shares.c"), &names);
    for flags in [["-pie"], ["-no-pie"], ["-static"], ["-static-pie"]] {
        assert_hot(&c_with("shares.c", &flags), &names);
    }
}

#[test]
fn cxx_names_are_demangled() {
    needs!(PerfEvents, Cxx);
    assert_hot(
        &cxx("names.cpp"),
        &[
            "shapes::Polygon<char const*, 3>::spin",
            "shapes::Polygon<unsigned long, 4>::operator<<",
            "shapes::detail::nested",
            "(anonymous namespace)::hidden",
            "main::{lambda(double)#1}::operator()",
        ],
    );
}

#[test]
fn cxx_coroutines_and_literal_operators_are_demangled() {
    needs!(PerfEvents, Cxx);
    assert_hot(
        &cxx_with("coroutines.cpp", &["-std=c++20"]),
        &[
            "plain",
            "ns::Server::serve",
            "ns::operator\"\" _km",
            "operator\"\" _bn",
        ],
    );
}

/// rustc's default was legacy for a long time.
#[test]
fn rust_names_are_demangled() {
    needs!(PerfEvents);
    let here = Here::new();
    for (flags, names) in [
        (
            &["-Csymbol-mangling-version=v0"][..],
            &[
                "<names::shapes::Polygon<alloc::string::String, 3> as names::shapes::Spin>::spin",
                "names::shapes::generic::<alloc::vec::Vec<u8>>",
                "names::main::{closure#1}",
            ][..],
        ),
        (&[], &["names::shapes::generic"]),
    ] {
        let program = rust("names.rs", flags);
        here.record("-F 999 -g -e cpu-clock:u", &program, "0.3");
        let report = here.report("");
        let rows = &report.only().rows;
        let own: Vec<_> = rows
            .iter()
            .filter(|r| r.own > 0)
            .map(|r| &r.symbol)
            .collect();
        for name in names {
            assert!(
                own.iter().any(|n| n.starts_with(name)),
                "no {name} with {flags:?}: {own:#?}"
            );
        }
        for row in rows {
            let mangled = ["_R", "_ZN"].iter().any(|p| row.symbol.starts_with(p));
            assert!(!mangled && !row.symbol.contains("::h1"), "{}", row.symbol);
        }
        for hot in ["spin", "generic", "closure"] {
            let share: f64 = own
                .iter()
                .filter(|n| n.contains(hot))
                .map(|n| report.only().self_share(n))
                .sum();
            assert!(share > 0.1, "{hot}: {share} with {flags:?} of {own:#?}");
        }
    }
}

const LABEL: &str = r#"
static volatile unsigned long sink;
__attribute__((noinline)) void outer(void) {
    unsigned long n = 3000000, x = 1;
    __asm__ volatile("hot_loop: imul $3, %1, %1; dec %0; jnz hot_loop" : "+r"(n), "+r"(x));
    sink += x;
}
int main(void) {
    for (int i = 0; i < 60; i++) outer();
}
"#;

/// An untyped symbol without size, inside a function.
#[test]
fn a_label_of_inline_assembly_is_no_function() {
    needs!(PerfEvents, X86_64);
    let program = generated("label", LABEL, Language::C, &["-O1"]);
    assert_hot(&program, &["outer"]);
}

/// Bytes with an effect on terminals or parsers.
const HOSTILE: [&[u8]; 4] = [
    b"\x1b[31m;<b>&",
    b"two\nlines\r\x07",
    b"\xff\xfe\x9b31m",
    "\u{202e}abc\u{2028}".as_bytes(),
];

fn assert_harmless(here: &Here, function: &str) {
    for command in [
        "report",
        "report --sort comm",
        "report --format json --sort comm,symbol,dso",
        "report --format csv --sort comm,symbol,dso",
        "collapse",
        "script",
        "header",
        "header --format json",
        "flamegraph -o -",
    ] {
        let run = here.rprof(command).ok();
        run.is_clean();
        for mark in ['\u{202e}', '\u{2028}'] {
            assert!(!run.out().contains(mark), "{mark:?} in\n{run}");
        }
    }
    let stacks = folded(&here.rprof("collapse").ok());
    assert!(
        stacks.keys().any(|s| s.split(';').any(|f| f == function)),
        "{stacks:#?}"
    );
    for stack in stacks.keys() {
        let root = stack.split(';').nth(1).unwrap_or_default();
        assert!(!root.contains('<') && !root.contains("lines"), "{stack:?}");
    }
    let svg = here.rprof("flamegraph -o -").ok();
    let titles = well_formed(&svg.out());
    assert!(
        titles.iter().any(|t| t.starts_with(function)),
        "{titles:#?}"
    );
}

#[test]
fn thread_names_do_no_harm() {
    needs!(PerfEvents);
    for name in HOSTILE {
        let here = Here::new();
        let name = std::ffi::OsStr::from_bytes(name);
        here.rprof("record -q -F 999 -g --")
            .arg(c("comm.c"))
            .arg(name)
            .arg("0.1")
            .ok();
        assert_harmless(&here, "work_named");
    }
}

#[test]
fn program_names_do_no_harm() {
    needs!(PerfEvents);
    for name in HOSTILE {
        let here = Here::new();
        let path = here.path(std::ffi::OsStr::from_bytes(name));
        // Another test's child process may hold a new file open for writing, so that a copy could
        // not be executed.
        std::fs::hard_link(c("shares.c"), &path).expect("a hard link");
        let run = here.rprof("record -F 999 -g --").arg(&path).arg("0.1").ok();
        run.is_clean();
        assert_harmless(&here, "burn_seventy");
    }
}

#[test]
fn names_in_messages_do_no_harm() {
    let here = Here::new();
    for name in HOSTILE {
        let name = std::ffi::OsStr::from_bytes(name);
        for forced in ["0", "1"] {
            let here = |args| here.rprof(args).env("CLICOLOR_FORCE", forced);
            here("report -i").arg(name).exits(1).is_clean();
            here("flamegraph -i").arg(name).exits(1).is_clean();
            here("record --").arg(name).run().is_clean();
        }
        here.rprof("record -e")
            .arg(name)
            .arg("true")
            .exits(2)
            .is_clean();
    }
}
