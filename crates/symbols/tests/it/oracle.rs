//! The crate `addr2line` beside this one, in this process and with the same gimli: functions,
//! inlined calls, files and lines at many addresses of programs built in every way.
//!
//! It needs no tool but a compiler, and asks where the command line tools of `inlines.rs` are too slow
//! to. Where the two differ, the [`Difference`] must be one of those that are judged here.

use crate::others::{Aliases, Chain, Frame, Places, addresses, ours, plain};
use crate::tools::Scratch;
use addr2line::{Context, LookupContinuation, LookupResult};
use gimli::{Dwarf, EndianSlice, RunTimeEndian, SectionId};
use object::{Object, ObjectSection, ObjectSymbol};
use rprof_testing::{Need, has, inapplicable};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

type Slice = EndianSlice<'static, RunTimeEndian>;

/// The debug sections of a file, decompressed. They stay in memory until the tests end.
fn dwarf(path: &Path, split: bool) -> Option<Dwarf<Slice>> {
    let bytes: &'static [u8] = std::fs::read(path).ok()?.leak();
    let file = object::File::parse(bytes).ok()?;
    let endian = match file.is_little_endian() {
        true => RunTimeEndian::Little,
        false => RunTimeEndian::Big,
    };
    let load = |id: SectionId| -> Result<Slice, gimli::Error> {
        let name = if split {
            id.dwo_name()
        } else {
            Some(id.name())
        };
        let section = name.and_then(|name| file.section_by_name(name));
        let data = section.and_then(|section| section.uncompressed_data().ok());
        let data: &'static [u8] = data.map_or(&[], |data| data.into_owned().leak());
        Ok(EndianSlice::new(data, endian))
    };
    Dwarf::load(load).ok()
}

/// What `addr2line` answers.
struct Oracle(Context<Slice>);

impl Oracle {
    fn open(path: &Path) -> Option<Self> {
        Some(Self(Context::from_dwarf(dwarf(path, false)?).ok()?))
    }

    /// The frames at an address, innermost first.
    fn chain(&self, svma: u64) -> Chain {
        let mut lookup = self.0.find_frames(svma);
        let frames = loop {
            match lookup {
                LookupResult::Output(frames) => break frames,
                LookupResult::Load { load, continuation } => {
                    let text = |part: Option<Slice>| {
                        part.map(|part| part.to_string_lossy().into_owned())
                            .unwrap_or_default()
                    };
                    let path = Path::new(&text(load.comp_dir)).join(text(load.path));
                    let split = dwarf(&path, true).map(|mut split| {
                        split.make_dwo(&load.parent);
                        Arc::new(split)
                    });
                    lookup = continuation.resume(split);
                }
            }
        };
        let mut chain = Vec::new();
        let Ok(mut frames) = frames else {
            return chain;
        };
        while let Ok(Some(frame)) = frames.next() {
            let name = frame.function.as_ref().and_then(|f| f.raw_name().ok());
            let at = frame.location.as_ref();
            chain.push(Frame {
                name: name.map(Cow::into_owned).unwrap_or_default(),
                file: at.and_then(|at| at.file).map(plain).unwrap_or_default(),
                line: at.and_then(|at| at.line).unwrap_or(0),
                column: at.and_then(|at| at.column).unwrap_or(0),
            });
        }
        chain
    }
}

/// A way in which the two may differ without either being wrong, or with `addr2line` being wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Difference {
    /// No debug information covers the address: this crate has the symbol table besides.
    SymbolTableOnly,
    /// Debug information has a line there and no function: `addr2line` has a frame without name, and
    /// this crate the name of the symbol.
    NamelessFunction,
    /// No function is there, by either side, but padding that has the line of the function before it:
    /// `addr2line` has that line in a frame without name, and this crate no frame.
    LineBetweenFunctions,
    /// Only the outermost name differs, and this crate has that of the symbol that covers the address,
    /// as `reconcile.rs` says: debug information calls clones as it calls the original, and
    /// without a linkage name.
    NameOfSymbol,
    /// The line is 0, which means that none belongs to the code: `addr2line` leaves the column out
    /// as well, this crate tells it as the file has it, as llvm-symbolizer does.
    ColumnWithoutLine,
    /// The compilation has a relative folder, as those of Debian's C library do, and DWARF 5 repeats
    /// it as folder 0: `addr2line` takes it once, this crate joins the two, as llvm-symbolizer,
    /// eu-addr2line and binutils do.
    RelativeFolder,
    /// Nobody has judged it.
    Unexplained,
}

/// Functions of the symbol tables, read without this crate: start, end, name.
struct Functions(Vec<(u64, u64, String)>);

impl Functions {
    fn read(paths: &[&Path]) -> Self {
        let mut all = Vec::new();
        for path in paths {
            let bytes = std::fs::read(path).unwrap();
            let file = object::File::parse(&bytes[..]).unwrap();
            for symbol in file.symbols().chain(file.dynamic_symbols()) {
                let end = symbol.address() + symbol.size();
                let name = symbol.name().unwrap_or_default().to_owned();
                all.push((symbol.address(), end, name));
            }
        }
        Self(all)
    }

    /// Names of the functions that cover an address.
    fn at(&self, svma: u64) -> impl Iterator<Item = &str> {
        let covering = (self.0.iter()).filter(move |(start, end, _)| (start..end).contains(&&svma));
        covering.map(|(_, _, name)| &name[..])
    }
}

fn judge(
    functions: &Functions,
    aliases: &Aliases,
    svma: u64,
    ours: &Chain,
    theirs: &Chain,
) -> Difference {
    let is_nameless = theirs.iter().all(|frame| frame.name.is_empty());
    match (&ours[..], &theirs[..]) {
        ([one], []) if one.line == 0 => return Difference::SymbolTableOnly,
        ([one], [other]) if is_nameless && one.line == other.line && one.file == other.file => {
            return Difference::NamelessFunction;
        }
        ([], [_]) if is_nameless && functions.at(svma).next().is_none() => {
            return Difference::LineBetweenFunctions;
        }
        _ => {}
    }
    // Takes over from theirs what is judged, one difference after the other.
    let mut ours = ours.clone();
    for (one, other) in ours.iter_mut().zip(theirs) {
        if one.line == 0 {
            one.column = other.column;
        }
    }
    if aliases.alike(&ours, theirs) {
        return Difference::ColumnWithoutLine;
    }
    for (one, other) in ours.iter_mut().zip(theirs) {
        let is_relative = !one.file.starts_with('/') && !other.file.is_empty();
        let inside = one.file.strip_suffix(&other.file);
        if is_relative && inside.is_some_and(|folder| folder.ends_with('/')) {
            one.file.clone_from(&other.file);
        }
    }
    if aliases.alike(&ours, theirs) {
        return Difference::RelativeFolder;
    }
    if let (Some(one), Some(other)) = (ours.last_mut(), theirs.last())
        && functions.at(svma).any(|name| name == one.name)
    {
        one.name.clone_from(&other.name);
    }
    if aliases.alike(&ours, theirs) {
        return Difference::NameOfSymbol;
    }
    Difference::Unexplained
}

/// Counts of what was compared.
#[derive(Debug, Default)]
struct Comparison {
    /// Addresses at which both have the same frames from debug information.
    same: usize,
    /// Those of them with inlined calls.
    inlined: usize,
    differences: BTreeMap<Difference, usize>,
    /// The first few of each file that are not explained.
    unexplained: Vec<String>,
}

impl Comparison {
    /// Compares at random addresses of `.text` of `path`. `reference` has its debug information.
    fn of(&mut self, path: &Path, reference: &Path, count: usize) {
        let oracle = Oracle::open(reference).unwrap();
        let addresses = addresses(path, count, 77);
        let aliases = Aliases::read(&[path.to_path_buf(), reference.to_path_buf()]);
        let functions = Functions::read(&[path, reference]);
        let mut shown = 0;
        for ((svma, _), ours) in addresses
            .iter()
            .zip(ours(path, &Places::default(), &addresses))
        {
            let theirs = oracle.chain(*svma);
            if aliases.alike(&ours, &theirs) {
                self.same += usize::from(!ours.is_empty());
                self.inlined += usize::from(ours.len() > 1);
                continue;
            }
            let difference = judge(&functions, &aliases, *svma, &ours, &theirs);
            *self.differences.entry(difference).or_default() += 1;
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
                self.unexplained.push(example);
            }
        }
    }

    /// Fails where a difference was not explained, or too little was compared.
    fn check(&self, same: usize, inlined: usize) {
        eprintln!(
            "{} addresses alike, {} of them with inlined calls; {:?}",
            self.same, self.inlined, self.differences
        );
        assert!(
            self.unexplained.is_empty(),
            "{}",
            self.unexplained.join("\n")
        );
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
    let mut build = |compiler: &str, options: &[&str]| {
        let mut options = options.to_vec();
        if compiler == "clang" {
            // The fixture has no indirect function for it.
            options.push("-Dindirect=strong");
        }
        let source = if compiler.contains("++") {
            "program.cpp"
        } else {
            "program.c"
        };
        let name = format!("{compiler}{}", options.concat());
        let path = scratch.compile(compiler, source, &name, &options);
        sum.of(&path, &path, 1500);
    };
    let clang = has(Need::Tool("clang")) && has(Need::Tool("clang++"));
    for version in ["-gdwarf-2", "-gdwarf-3", "-gdwarf-4", "-gdwarf-5"] {
        for level in ["-O0", "-O2"] {
            build("gcc", &["-g", version, level]);
            if clang {
                build("clang", &["-g", version, level]);
            }
        }
        build("g++", &["-g", version, "-O2"]);
    }
    build("g++", &["-g", "-O0"]);
    if clang {
        build("clang++", &["-g", "-O2"]);
        build("clang++", &["-g", "-gdwarf-4", "-O0"]);
    }
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        build("g++", &["-g", version, "-gsplit-dwarf", "-O2"]);
    }
    sum.check(14_000, 4_500);
}

/// This very program: Rust, large, with generics inlined many deep from the standard library.
#[test]
fn addr2line_agrees_on_this_program() {
    let path = std::env::current_exe().unwrap();
    let mut sum = Comparison::default();
    sum.of(&path, &path, 8_000);
    sum.check(4_000, 1_000);
}

#[test]
fn addr2line_agrees_on_the_c_library() {
    let path = Path::new("/lib/x86_64-linux-gnu/libc.so.6");
    let Some(debug) = debug_file(path) else {
        return inapplicable("needs the debug information of the C library");
    };
    let mut sum = Comparison::default();
    sum.of(path, &debug, 8_000);
    sum.check(2_000, 200);
}

/// The installed debug file of an image.
fn debug_file(path: &Path) -> Option<PathBuf> {
    let found = crate::others::debug_file(path, &Places::default())?;
    found.exists().then_some(found)
}

/// An optimized program in Rust.
#[test]
fn addr2line_agrees_on_an_optimized_rust_program() {
    if !has(Need::Tool("rustc")) {
        return;
    }
    let scratch = Scratch::new();
    let path = scratch.path().join("rust");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/program.rs");
    let mut rustc = Command::new("rustc");
    rustc.args(["--edition=2024", "-O", "-g"]).arg(source);
    crate::tools::run(rustc.arg("-o").arg(&path), "");
    let mut sum = Comparison::default();
    sum.of(&path, &path, 6_000);
    sum.check(3_000, 2_000);
}
