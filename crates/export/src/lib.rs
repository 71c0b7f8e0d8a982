//! A profile as something to look at, or to hand on.
//!
//! | module | makes |
//! |---|---|
//! | [`folded`] | folded stacks: `comm;root;…;leaf weight` |
//! | [`svg`] | a flame graph |
//! | [`table`] | the top functions as text |
//! | [`json`] | the same for machines |
//! | [`comma`] | the same as CSV |
//! | [`script`] | a block of text for each sample, as perf script prints it |
//! | [`verdict`] | the quality verdict in words |
//! | [`clean`] | names made safe to show |
//!
//! Nothing here knows how a profile was recorded. Everything writes to a
//! [`std::io::Write`]; nothing prints.

pub mod clean;
pub mod comma;
pub mod folded;
pub mod json;
pub mod rows;
pub mod script;
pub mod svg;
pub mod table;
pub mod verdict;
