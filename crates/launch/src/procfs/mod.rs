//! /proc: the one reader of it.
//!
//! | module | holds |
//! |---|---|
//! | `tasks` | [`Proc`]: processes, threads, names, parents |
//! | `maps` | [`MapsReader`]: executable mappings of a process |

mod maps;
mod tasks;

pub use maps::{ExistingMapping, MapsReader};
pub use tasks::{Proc, Stat};
