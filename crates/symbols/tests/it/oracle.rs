//! Comparison with the crate `addr2line`, in this process and with the same gimli: functions,
//! inlined calls, files and lines at many addresses of programs with many build options.
//!
//! Needs only a compiler, and covers more addresses than the slow command line tools in
//! `inlines.rs`. Every difference must be an accepted [`Difference`].

use crate::chains::{Aliases, Chain};
use crate::judge::{Difference, Functions, Oracle, Sections, Slice, judge};
use crate::others::{Places, addresses, ours};
use crate::tools::Scratch;
use gimli::Dwarf;
use rprof_testing::{Need, has, inapplicable};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Reads debug sections and leaks them until the tests end.
fn dwarf(path: &Path, split: bool) -> Option<Dwarf<Slice<'static>>> {
    let bytes: &'static [u8] = std::fs::read(path).ok()?.leak();
    let sections: &'static Sections<'_> = Box::leak(Box::new(Sections::read(bytes, split)?));
    Some(sections.dwarf())
}

#[derive(Debug, Default)]
struct Comparison {
    /// Addresses with the same frames from debug information.
    same: usize,
    /// Those with inlined calls.
    inlined: usize,
    /// By class: number of addresses, and the largest share of one file in percent.
    differences: BTreeMap<Difference, (usize, f64)>,
    /// The first unexplained differences of each file, and the classes above their limit.
    failures: Vec<String>,
}

/// Maximum share of each class in the addresses of a file, in percent: about 1.5 times the observed
/// share. Unlisted classes have 0. The limits detect a class that starts to accept unrelated
/// differences.
type Limits = [(Difference, f64)];

/// Small programs. Up to two fifths of them are start-up code of the C library without debug
/// information. Padding and clones are most of the rest.
const OF_SMALL_PROGRAMS: &Limits = &[
    (Difference::SymbolTableOnly, 60.0),
    (Difference::NamelessFunction, 15.0),
    (Difference::LineBetweenFunctions, 15.0),
    (Difference::NameOfSymbol, 35.0),
    // Clang 14, C++ with -O2: 15.5.
    (Difference::ColumnWithoutLine, 25.0),
];

/// Includes the C library, and rustc writes many columns without a line.
const OF_RUST: &Limits = &[
    (Difference::SymbolTableOnly, 25.0),
    (Difference::NamelessFunction, 1.0),
    (Difference::LineBetweenFunctions, 1.0),
    (Difference::NameOfSymbol, 1.0),
    (Difference::ColumnWithoutLine, 20.0),
];

/// Debian builds everything in relative folders.
const OF_THE_C_LIBRARY: &Limits = &[
    (Difference::SymbolTableOnly, 3.0),
    (Difference::LineBetweenFunctions, 2.0),
    (Difference::NameOfSymbol, 1.0),
    (Difference::RelativeFolder, 75.0),
];

impl Comparison {
    /// Compares at random addresses of `.text` of `path`. `reference` has its debug information.
    fn of(&mut self, path: &Path, reference: &Path, count: usize, limits: &Limits) {
        let oracle = Oracle::new(dwarf(reference, false).unwrap()).unwrap();
        let addresses = addresses(path, count, 77);
        let files = [path, reference].map(|path| std::fs::read(path).unwrap());
        let aliases = Aliases::of(files.iter().map(Vec::as_slice));
        let functions = Functions::of(files.iter().map(Vec::as_slice));
        let mut differences: BTreeMap<Difference, usize> = BTreeMap::new();
        let mut shown = 0;
        for ((svma, _), ours) in addresses
            .iter()
            .zip(ours(path, &Places::default(), &addresses))
        {
            let theirs = oracle.chain(*svma, |path| dwarf(&path, true));
            if aliases.alike(&ours, &theirs) {
                self.same += usize::from(!ours.is_empty());
                self.inlined += usize::from(ours.len() > 1);
                continue;
            }
            let difference = judge(&functions, &aliases, *svma, &ours, &theirs);
            *differences.entry(difference).or_default() += 1;
            if difference == Difference::Unexplained && shown < 3 {
                shown += 1;
                let show = |chain: &Chain| -> String {
                    chain
                        .iter()
                        .map(|frame| format!("\n      {frame}"))
                        .collect()
                };
                let (path, ours, theirs) = (path.display(), show(&ours), show(&theirs));
                let example = format!("{path} {svma:#x}\n    ours{ours}\n    theirs{theirs}");
                self.failures.push(example);
            }
        }
        for (difference, count) in differences {
            let percent = count as f64 * 100.0 / addresses.len() as f64;
            let (sum, largest) = self.differences.entry(difference).or_default();
            (*sum, *largest) = (*sum + count, largest.max(percent));
            let limit = limits.iter().find(|(class, _)| *class == difference);
            let limit = limit.map_or(0.0, |(_, limit)| *limit);
            if percent > limit {
                let path = path.display();
                let text = format!("{path}: {difference:?} {percent:.2} % of at most {limit} %");
                self.failures.push(text);
            }
        }
    }

    /// Fails on unexplained differences, on a class above its limit, and on too few compared
    /// addresses.
    fn check(&self, same: usize, inlined: usize) {
        eprintln!(
            "{} addresses alike, {} of them with inlined calls; {:?}",
            self.same, self.inlined, self.differences
        );
        assert!(self.failures.is_empty(), "{}", self.failures.join("\n"));
        assert!(self.same >= same, "{} of {same} addresses", self.same);
        assert!(
            self.inlined >= inlined,
            "{} of {inlined} inlined",
            self.inlined
        );
    }
}

#[test]
fn addr2line_agrees_on_compiled_programs() {
    if !has(Need::Gcc) || !has(Need::Cxx) {
        return;
    }
    let scratch = Scratch::new();
    let mut sum = Comparison::default();
    let mut build = |compiler: &str, level: &str, further: &[&str]| {
        // As in `inlines.rs`, to build the same program.
        let mut options = vec![level, "-g", "-Wl,--build-id"];
        options.extend(further);
        if compiler == "clang" {
            // The fixture has no indirect function for this compiler.
            options.push("-Dindirect=strong");
        }
        let source = if compiler.contains("++") {
            "program.cpp"
        } else {
            "program.c"
        };
        let name = format!("{compiler}{}", options.concat());
        let path = scratch.compile(compiler, source, &name, &options);
        sum.of(&path, &path, 1500, OF_SMALL_PROGRAMS);
    };
    let clang = has(Need::Tool("clang")) && has(Need::Tool("clang++"));
    for version in ["-gdwarf-2", "-gdwarf-3", "-gdwarf-4", "-gdwarf-5"] {
        for level in ["-O0", "-O2"] {
            build("gcc", level, &[version]);
            if clang {
                build("clang", level, &[version]);
            }
        }
        build("g++", "-O2", &[version]);
    }
    build("g++", "-O0", &[]);
    if clang {
        build("clang++", "-O2", &[]);
        build("clang++", "-O0", &["-gdwarf-4"]);
    }
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        build("g++", "-O2", &[version, "-gsplit-dwarf"]);
    }
    match clang {
        true => sum.check(14_000, 4_500),
        false => sum.check(9_000, 3_500),
    }
}

#[test]
fn addr2line_agrees_on_the_c_library() {
    let path = Path::new("/lib/x86_64-linux-gnu/libc.so.6");
    let Some(debug) = debug_file(path) else {
        return inapplicable("needs the debug information of the C library");
    };
    let mut sum = Comparison::default();
    sum.of(path, &debug, 8_000, OF_THE_C_LIBRARY);
    sum.check(2_000, 200);
}

fn debug_file(path: &Path) -> Option<PathBuf> {
    let found = crate::others::debug_file(path, &Places::default())?;
    found.exists().then_some(found)
}

/// Deeply inlined generics of the standard library, and the same without optimization.
#[test]
fn addr2line_agrees_on_rust_programs() {
    if !has(Need::Tool("rustc")) {
        return;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/program.rs");
    let mut sum = Comparison::default();
    for level in ["-Copt-level=0", "-Copt-level=2"] {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let flags = ["--edition=2024", level, "-g"];
        let path = rprof_testing::compile(folder, "rustc", &source, &flags);
        sum.of(&path, &path, 6_000, OF_RUST);
    }
    sum.check(6_000, 2_500);
}
