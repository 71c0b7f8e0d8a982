//! Functions, inlined calls and lines from debug information (DWARF 2 to 5).
//!
//! Lookups come in batches. Several threads read each unit once for all its addresses, and then
//! drop it. So time depends on the units with addresses, and memory on the results.
//!
//! | module | contents |
//! |---|---|
//! | `debug_info` | the files of an image |
//! | `query` | options and result of a lookup |
//! | `resolve` | distributes addresses to units |
//! | `sections` | the debug sections, decompressed |
//! | `units` | index of units by address |
//! | `head` | the root entry of a unit |
//! | `ranges` | the addresses of an entry |
//! | `walk` | functions and inlined calls of a unit |
//! | `cursor` | traversal of entries |
//! | `layout` | lengths and attributes of entries |
//! | `names` | names of functions |
//! | `unit_refs` | references to other units and files |
//! | `lines` | the files of a line program |
//! | `line_ranges` | the rows of a line program for a range |
//! | `rows` | the line program of a unit |
//! | `batch` | lookup of all addresses in one unit |
//! | `abbreviations` | abbreviation tables |
//! | `work_budget` | limits the work of a lookup, interns its names and paths |
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
mod query;
mod ranges;
mod resolve;
mod rows;
mod sections;
mod split;
mod unit_refs;
mod units;
mod walk;
mod work_budget;

pub(crate) use debug_info::{DebugInfo, DwarfFile};
pub use line_ranges::LineRange;
pub(crate) use query::{DwarfQuery, Found, FoundFrame, FunctionEntry};
pub(crate) use sections::NoRoom;
pub(crate) use split::SplitFiles;
