//! Results of `addr2line`, and the accepted differences from this crate.

use super::chains::{Aliases, Chain, Frame, plain};
use addr2line::{Context, LookupContinuation, LookupResult};
use gimli::{Dwarf, DwarfSections, EndianSlice, RunTimeEndian, SectionId};
use object::{Object, ObjectSection, ObjectSymbol};
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) type Slice<'a> = EndianSlice<'a, RunTimeEndian>;

/// The debug sections of a file, decompressed.
pub(crate) struct Sections<'a> {
    sections: DwarfSections<Cow<'a, [u8]>>,
    endian: RunTimeEndian,
}

impl<'a> Sections<'a> {
    /// Reads the sections of a file, or with `split`, of a `.dwo` file. `None` if it is no ELF
    /// file.
    pub(crate) fn read(bytes: &'a [u8], split: bool) -> Option<Self> {
        let file = object::File::parse(bytes).ok()?;
        let load = |id: SectionId| -> Result<Cow<'a, [u8]>, gimli::Error> {
            let name = if split {
                id.dwo_name()
            } else {
                Some(id.name())
            };
            let section = name.and_then(|name| file.section_by_name(name));
            let data = section.and_then(|section| section.uncompressed_data().ok());
            Ok(data.unwrap_or_default())
        };
        Some(Self {
            sections: DwarfSections::load(load).ok()?,
            endian: match file.is_little_endian() {
                true => RunTimeEndian::Little,
                false => RunTimeEndian::Big,
            },
        })
    }

    pub(crate) fn dwarf(&self) -> Dwarf<Slice<'_>> {
        (self.sections).borrow(|section| EndianSlice::new(section, self.endian))
    }
}

/// `addr2line` with the debug information of a file.
pub(crate) struct Oracle<'a>(Context<Slice<'a>>);

impl<'a> Oracle<'a> {
    pub(crate) fn new(dwarf: Dwarf<Slice<'a>>) -> Option<Self> {
        Some(Self(Context::from_dwarf(dwarf).ok()?))
    }

    /// Returns the frames at an address, innermost first. `open` loads split units.
    pub(crate) fn chain(
        &self,
        svma: u64,
        open: impl Fn(PathBuf) -> Option<Dwarf<Slice<'a>>>,
    ) -> Chain {
        let mut lookup = self.0.find_frames(svma);
        let frames = loop {
            match lookup {
                LookupResult::Output(frames) => break frames,
                LookupResult::Load { load, continuation } => {
                    let text = |part: Option<Slice<'a>>| {
                        part.map(|part| part.to_string_lossy().into_owned())
                            .unwrap_or_default()
                    };
                    let path = Path::new(&text(load.comp_dir)).join(text(load.path));
                    let split = open(path).map(|mut split| {
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

/// Accepted difference: neither result is wrong, or only `addr2line` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Difference {
    /// Without debug information at the address, this crate uses the symbol table.
    SymbolTableOnly,
    /// Debug information has a line without a function: `addr2line` returns an unnamed frame, this
    /// crate the symbol's name.
    NamelessFunction,
    /// Padding without a function, but with the line of the previous one: `addr2line` returns an
    /// unnamed frame with that line, this crate no frame.
    LineBetweenFunctions,
    /// Only the outermost name differs, and this crate uses the symbol that covers the address, as
    /// in `reconcile.rs`. Debug information gives clones the name of the original, without a
    /// linkage name.
    NameOfSymbol,
    /// The line is 0, for code without a line: `addr2line` drops the column too. This crate keeps
    /// it, as llvm-symbolizer does.
    ColumnWithoutLine,
    /// The compilation directory is relative, as in Debian's C library, and DWARF 5 repeats it as
    /// folder 0. `addr2line` uses it once. This crate joins the two, as llvm-symbolizer,
    /// eu-addr2line and binutils do.
    RelativeFolder,
    /// No accepted class matches.
    Unexplained,
}

/// Functions of the symbol tables, parsed without this crate: start, end, name, and the highest end
/// so far. Sorted by start.
pub(crate) struct Functions(Vec<(u64, u64, String, u64)>);

impl Functions {
    pub(crate) fn of<'a>(files: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut all = Vec::new();
        let files = files.into_iter().map(object::File::parse);
        for file in files.filter_map(Result::ok) {
            for symbol in file.symbols().chain(file.dynamic_symbols()) {
                let end = symbol.address().saturating_add(symbol.size());
                let name = symbol.name().unwrap_or_default().to_owned();
                all.push((symbol.address(), end, name, 0));
            }
        }
        all.sort_unstable();
        let mut last = 0;
        for (_, end, _, reach) in &mut all {
            last = last.max(*end);
            *reach = last;
        }
        Self(all)
    }

    fn at(&self, svma: u64) -> impl Iterator<Item = &str> {
        let begun = self.0.partition_point(|(start, ..)| *start <= svma);
        let near = self.0[..begun].iter().rev();
        let near = near.take_while(move |(.., reach)| *reach > svma);
        near.filter(move |(_, end, ..)| *end > svma)
            .map(|(_, _, name, _)| &name[..])
    }
}

pub(crate) fn judge(
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
    // Replaces accepted differences with the other result.
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
