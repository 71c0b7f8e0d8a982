use super::*;
use std::process::Command;

fn full(raw: &str) -> Cow<'_, str> {
    demangle(raw, Style::Full)
}

fn short(raw: &str) -> Cow<'_, str> {
    demangle(raw, Style::NoParameters)
}

#[test]
fn languages() {
    assert_eq!(full("_ZN3foo3barEi"), "foo::bar(int)");
    assert_eq!(short("_ZN3foo3barEi"), "foo::bar");
    assert_eq!(full("_Z1fIiET_S0_"), "int f<int>(int)");
    assert_eq!(short("_Z1fIiET_S0_"), "f<int>");
    assert_eq!(
        full("_ZN4core3fmt9Formatter3new17h0f23456789abcdeaE"),
        "core::fmt::Formatter::new"
    );
    assert_eq!(full("_RNvC6_123foo3bar"), "123foo::bar");
    for untouched in [
        "main",
        "main.cold",
        "_Z",
        "_ZN",
        "ZN3fooE",
        "",
        "@",
        "@x",
        "foo.part.0",
        "_R",
        "R",
    ] {
        assert_eq!(full(untouched), untouched);
        assert_eq!(short(untouched), untouched);
    }
}

#[test]
fn clones() {
    assert_eq!(full("_ZN3foo3barEv.cold"), "foo::bar() [clone .cold]");
    assert_eq!(
        full("_ZN3foo3bazEi.part.0.isra.3"),
        "foo::baz(int) [clone .part.0] [clone .isra.3]"
    );
    assert_eq!(
        full("_ZN3foo3qqqEi.llvm.1234"),
        "foo::qqq(int) [clone .llvm.1234]"
    );
    assert_eq!(short("_ZN3foo3bazEi.part.0.isra.3"), "foo::baz");
    assert_eq!(
        short("_ZN4core3fmt9Formatter3new17h0f23456789abcdeaE.llvm.123"),
        "core::fmt::Formatter::new"
    );
}

#[test]
fn versions_and_plt() {
    assert_eq!(short("memcpy@@GLIBC_2.14"), "memcpy");
    assert_eq!(full("_Z3foov@V1"), "foo()");
    assert_eq!(short("memcpy@plt"), "memcpy@plt");
    assert_eq!(short("_Z3foov@plt"), "foo@plt");
}

#[test]
fn deep_and_long_names_return() {
    let deep_pointer = format!("_Z1f{}i", "P".repeat(10_000));
    assert_eq!(full(&deep_pointer), deep_pointer);
    let deep_template = format!("_Z1f{}i{}", "1AI".repeat(10_000), "E".repeat(10_000));
    assert_eq!(full(&deep_template), deep_template);
    let deep_rust = format!("_RINv1a1b{}u{}", "R".repeat(10_000), "E");
    let _ = full(&deep_rust);
    let long = format!("_Z28672{}v", "a".repeat(28_672));
    assert_eq!(full(&long).len(), 28_674);
    let longer = "_Z1f".to_owned() + &"i".repeat(MAX_INPUT);
    assert_eq!(full(&longer), longer);
}

/// Each pair refers to the one before it twice: 2^n types from 6n characters.
#[test]
fn expansion_is_cut() {
    let mut name = "_Z1f1AIiiE".to_owned();
    for index in 0..30_u32 {
        let back = char::from_digit(index, 36).unwrap().to_ascii_uppercase();
        name.push_str(&format!("S_IS{back}_S{back}_E"));
    }
    let shown = full(&name);
    assert!(shown.len() <= MAX_OUTPUT);
    assert!(
        shown == name || shown.ends_with(CUT_MARK),
        "{}",
        &shown[..200]
    );
}

#[test]
fn as_the_usual_tools_write_it() {
    assert_eq!(short("_ZN1AILj4EE1fEv"), "A<4u>::f");
    assert_eq!(full("_ZN1AILln3ELy9ELb1EE1fEv"), "A<-3l, 9ull, true>::f()");
    assert_eq!(short("_ZTV3Foo"), "vtable for Foo");
    assert_eq!(short("_ZThn16_N1B1fEi"), "non-virtual thunk to B::f(int)");
    assert_eq!(short("_ZTv0_n24_N1BD1Ev"), "virtual thunk to B::~B()");
    assert_eq!(short("_ZNKR1A3strEv"), "A::str");
    assert_eq!(
        short("_ZNSsC1Ev")
            .split_once("::b")
            .unwrap()
            .1
            .split_once(">::")
            .unwrap()
            .1,
        "basic_string"
    );
    assert_eq!(short("_ZNSs4findEv"), "std::string::find");
    assert_eq!(full("_ZThx_"), "_ZThx_");
}

#[test]
fn what_the_libraries_cannot_read() {
    let fill = "_ZSt9__fill_a1IPiiEN9__gnu_cxx11__enable_ifIXsrSt11__is_scalarIT0_E7__valueEvE6__typeET_S8_RKS4_";
    assert_eq!(short(fill), "std::__fill_a1<int*, int>");
    assert_eq!(short("_ZNSi7getlineEPcl"), "std::istream::getline");
    assert_eq!(
        short("_ZN3std4main4MAIN17h0f23456789abcdeaE.0"),
        "std::main::MAIN"
    );
}

/// Names that are written in one pass are those that the library writes, wherever there are any.
#[test]
fn short_way_is_the_long_way() {
    let folders = [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/gcc/x86_64-linux-gnu/12",
        "/lib64",
    ];
    let known = [
        "libstdc++",
        "libLLVM",
        "libclang-cpp",
        "cc1plus",
        "libboost",
        "libicu",
        "libgmpxx",
    ];
    let mut files = std::env::var_os("RPROF_NAMES_OF").map_or(Vec::new(), |paths| {
        std::env::split_paths(&paths).collect::<Vec<_>>()
    });
    for entry in folders
        .iter()
        .filter_map(|folder| std::fs::read_dir(folder).ok())
        .flatten()
    {
        let path = entry.unwrap().path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if known.iter().any(|known| name.starts_with(known)) && !name.ends_with(".a") {
            files.push(path);
        }
    }
    let mut names: Vec<String> = Vec::new();
    for path in files {
        let Ok(Ok(symbols)) = std::fs::read(&path).map(crate::ElfSymbols::parse) else {
            continue;
        };
        let raw = symbols
            .iter()
            .map(|symbol| String::from_utf8_lossy(symbol.raw()).into_owned());
        names.extend(raw.filter(|raw| raw.starts_with("_Z") && !raw.contains(['.', '@'])));
    }
    names.sort();
    names.dedup();
    // Debug builds of the library are slow.
    let every = names.len().div_ceil(40_000).max(1);
    let (mut all, mut written, mut differ) = (0, 0, Vec::new());
    for raw in names.iter().step_by(every) {
        all += 1;
        let Some(name) = short::name(raw) else {
            continue;
        };
        written += 1;
        if cpp::long(raw, Style::NoParameters).is_some_and(|long| long != name) {
            differ.push((raw, name));
        }
    }
    eprintln!("{written} of {all} names are written in one pass");
    assert!(written * 2 >= all, "{written} of {all}");
    // The library is wrong at times: about members of what was named behind a pointer, for one.
    for (raw, name) in differ.iter().take(500) {
        let judge = Command::new("c++filt").args(["-p", raw]).output();
        let Ok(judge) = judge else { return };
        assert_eq!(
            *name,
            String::from_utf8_lossy(&judge.stdout).trim(),
            "{raw}"
        );
    }
    eprintln!(
        "{} of them otherwise than by the library, and as c++filt has it",
        differ.len()
    );
}
