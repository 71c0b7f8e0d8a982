//! The model of a profile: what exports are made from, wherever the samples came from.
//!
//! | module | holds |
//! |---|---|
//! | [`model`] | [`Profile`]: events, threads, functions, stacks and their weights |
//! | [`filter`] | [`Filter`]: which samples count |
//! | [`top`] | [`TopFunctions`]: sums by function, thread, object or line |
//! | [`quality`] | [`Quality`]: how much is known, and why the rest is not |
//! | [`intern`] | [`Lists`](intern::Lists), [`Values`](intern::Values): distinct lists and values by number |

pub mod filter;
pub mod intern;
pub mod model;
pub mod quality;
pub mod top;

pub use filter::Filter;
pub use model::{
    Entry, EventSummary, FileId, Function, FunctionId, FunctionStacks, Line, Object, ObjectId,
    Profile, StackId, Start,
};
pub use quality::{Quality, StackTally};
pub use top::{Keys, RowKey, TopFunctions, TopRow, Weight};
