//! Caches of pass two: each belongs to one thread, except the canonical addresses, which are
//! filled once and shared.
//!
//! | module | holds |
//! |---|---|
//! | [`callers`] | location ids of callers, by address |
//! | [`code_pages`] | images of leaf addresses, by page |
//! | [`thread_states`] | mapping state and name of threads, by thread and time |
//! | [`canonical`] | one address for each function, by image |

pub(crate) mod callers;
pub(crate) mod canonical;
pub(crate) mod code_pages;
pub(crate) mod thread_states;
