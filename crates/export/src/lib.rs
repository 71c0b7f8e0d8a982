//! A profile as something to look at, or to hand on.
//!
//! | module | makes |
//! |---|---|
//! | [`folded`] | folded stacks: `comm;root;…;leaf weight` |
//! | [`svg`] | a flame graph |
//! | [`table`] | the top functions as text |
//! | [`json`] | the same for machines |
//! | [`comma`] | the same as CSV |
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
pub mod svg;
pub mod table;
pub mod verdict;
