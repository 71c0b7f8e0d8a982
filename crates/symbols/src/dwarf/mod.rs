//! Functions, inlined calls and lines from debug information (DWARF 2 to 5).
//!
//! Lookups come in batches, and a batch is worked off unit by unit, on several threads: a
//! unit is read once for all addresses in it, and nothing of it is kept. So time depends
//! on the units that are asked for, and memory on the answers, not on the file.
//!
//! | module | idea |
//! |---|---|
//! | `debug_info` | the files of an image; what is asked and found |
//! | `resolve` | addresses, by the units that claim them |
//! | `sections` | the debug sections, decompressed |
//! | `units` | which unit describes an address; read once, then shared |
//! | `head` | the root entry of a unit |
//! | `ranges` | the addresses of an entry |
//! | `walk` | functions and inlined calls of a unit |
//! | `cursor` | going over entries |
//! | `layout` | what entries look like, by abbreviation |
//! | `names` | what they are called |
//! | `unit_refs` | entries in other units and files |
//! | `lines` | the files of a line program |
//! | `line_ranges` | the rows of a line program for a range of addresses |
//! | `rows` | the line program of a unit |
//! | `batch` | all of these, for the addresses in one unit |
//! | `abbreviations` | tables of abbreviations, none of them dearer than what it holds |
//! | `work_budget` | what a look-up may cost |
//! | `texts` | names and paths, each kept once |
//! | `split` | `.dwo` and `.dwp` files |

mod abbreviations;
mod batch;
mod cursor;
mod debug_info;
mod head;
mod layout;
mod line_ranges;
mod lines;
mod names;
mod ranges;
mod resolve;
mod rows;
mod sections;
mod split;
mod texts;
mod unit_refs;
mod units;
mod walk;
mod work_budget;

pub(crate) use debug_info::{DebugInfo, DwarfFile, DwarfQuery, Found, FoundFrame, FunctionEntry};
pub use line_ranges::LineRange;
pub(crate) use sections::NoRoom;
pub(crate) use split::SplitFiles;
