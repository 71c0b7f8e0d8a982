//! Functions, inlined calls and lines from debug information (DWARF 2 to 5).
//!
//! Lookups come in batches, and a batch is worked off unit by unit, on several threads: a
//! unit is read once for all addresses in it, and nothing of it is kept. So time depends
//! on the units that are asked for, and memory on the answers, not on the file.
//!
//! | module | idea |
//! |---|---|
//! | `sections` | the debug sections, decompressed |
//! | `units` | which unit describes an address; read once, then shared |
//! | `head` | the root entry of a unit |
//! | `ranges` | the addresses of an entry |
//! | `walk` | functions and inlined calls of a unit |
//! | `cursor` | going over entries |
//! | `layout` | what entries look like, by abbreviation |
//! | `names` | what they are called |
//! | `unit_ref` | entries in other units and files |
//! | `lines` | the files of a line program |
//! | `rows` | the line program of a unit |
//! | `batch` | all of these, for the addresses in one unit |
//! | `texts` | names and paths, each kept once |
//! | `split` | `.dwo` and `.dwp` files |

mod batch;
mod cursor;
mod head;
mod layout;
mod lines;
mod names;
mod ranges;
mod rows;
mod sections;
mod split;
mod texts;
mod unit_refs;
mod units;
mod walk;

pub(crate) use sections::NoRoom;
pub(crate) use split::SplitFiles;

use crate::frames::SourceLine;
use crate::pages::Pages;
use batch::Batch;
use gimli::SectionId;
use rprof_image::MemoryBudget;
use rprof_parallel::map_chunks;
use sections::{Naming, Sections};
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use units::Units;

/// Debug information of one file. The bytes are kept elsewhere, and each method must be handed the
/// same ones.
#[derive(Debug)]
pub(crate) struct DwarfFile {
    sections: Sections,
    units: OnceLock<Units>,
}

impl DwarfFile {
    /// Finds the debug sections. Returns `None` if the file has none.
    ///
    /// # Errors
    /// [`NoRoom`], if they do not go into `memory` once they are decompressed.
    pub(crate) fn find(bytes: &[u8], memory: &MemoryBudget) -> Result<Option<Self>, NoRoom> {
        let sections = Sections::find(bytes, Naming::Usual, memory)?;
        Ok(sections.map(|sections| Self {
            sections,
            units: OnceLock::new(),
        }))
    }

    fn units(&self, bytes: &[u8], threads: usize) -> &Units {
        self.units
            .get_or_init(|| Units::read(&self.sections.dwarf(bytes), threads))
    }
}

/// Details that a lookup asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DwarfQuery {
    /// Inlined calls, and with them names of functions.
    pub(crate) inlines: bool,
    /// Files and lines.
    pub(crate) lines: bool,
}

impl Default for DwarfQuery {
    fn default() -> Self {
        Self {
            inlines: true,
            lines: true,
        }
    }
}

/// Debug information about an address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// The function and the calls inlined at the address, outermost first. Empty if no function
    /// covers the address.
    pub(crate) frames: Vec<FoundFrame>,
    /// SVMAs of the function: its contiguous range that contains the address.
    pub(crate) range: Range<u64>,
    /// Source line of the address itself.
    pub(crate) line: Option<SourceLine>,
}

/// A function, or an inlined call of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundFrame {
    /// Linkage name, or else the plain name; `None` for a function without either.
    pub(crate) name: Option<Arc<str>>,
    /// Call site of an inlined call.
    pub(crate) call: Option<SourceLine>,
}

/// Files that complete an image, opened.
#[derive(Clone, Copy)]
pub(crate) struct DebugInfo<'a> {
    /// File with the units, and its bytes.
    pub(crate) main: (&'a DwarfFile, &'a [u8]),
    /// Owner of these bytes.
    pub(crate) pages: &'a dyn Pages,
    /// Supplementary file that `dwz` made.
    pub(crate) shared: Option<(&'a DwarfFile, &'a [u8])>,
    /// Places of its `.dwo` and `.dwp` files.
    pub(crate) split: &'a SplitFiles,
}

/// Most units that are searched for one address, of those that claim to cover it.
const MAX_CLAIMS: usize = 8;

impl DebugInfo<'_> {
    /// Looks up `svmas`, which are sorted, on up to `threads` threads. Returns one result for each.
    pub(crate) fn resolve(
        &self,
        svmas: &[u64],
        query: DwarfQuery,
        threads: usize,
    ) -> Vec<Option<Found>> {
        let mut results: Vec<Option<Found>> = vec![None; svmas.len()];
        let (file, bytes) = self.main;
        let is_first = file.units.get().is_none();
        let units = file.units(bytes, threads);
        if is_first && let Some(all) = file.sections.place(SectionId::DebugInfo, 0..usize::MAX) {
            self.pages.release(all);
        }
        if let Some((file, bytes)) = self.shared {
            file.units(bytes, threads);
        }
        let claims: Vec<Vec<u32>> = svmas
            .iter()
            .map(|&svma| units.at(svma).take(MAX_CLAIMS).collect())
            .collect();
        // Mostly one unit claims an address. Where several do and the first knows no
        // function there, the next is asked.
        for round in 0..MAX_CLAIMS {
            let mut asked: Vec<(u32, usize)> = Vec::new();
            for (index, claims) in claims.iter().enumerate() {
                let done = (results[index].as_ref()).is_some_and(|found| !found.frames.is_empty());
                if let Some(&unit) = claims.get(round)
                    && !done
                {
                    asked.push((unit, index));
                }
            }
            if asked.is_empty() {
                break;
            }
            asked.sort_unstable();
            let groups: Vec<&[(u32, usize)]> = asked.chunk_by(|a, b| a.0 == b.0).collect();
            let piece = groups.len().div_ceil(threads.max(1) * 16).max(1);
            let found = map_chunks(threads, &groups, piece, |groups| {
                let mut batch = Batch::new(*self, query);
                let mut found = Vec::new();
                for group in groups {
                    let Some(&(unit, _)) = group.first() else {
                        continue;
                    };
                    let svmas: Vec<u64> = group.iter().map(|&(_, index)| svmas[index]).collect();
                    let offset = units.offset(unit);
                    let indexes = group.iter().map(|&(_, index)| index);
                    found.extend(indexes.zip(batch.unit(offset, &svmas)));
                }
                found
            });
            for (index, found) in found.into_iter().flatten() {
                let known = results[index].get_or_insert_with(Found::default);
                if known.line.is_none() || !found.frames.is_empty() && found.line.is_some() {
                    known.line = found.line;
                }
                if known.frames.is_empty() {
                    (known.frames, known.range) = (found.frames, found.range);
                }
            }
        }
        results
    }
}
