//! The container as its users see it: made files, damaged files, and, where they
//! are there, real captures.

mod agreement;
mod big_endian;
mod by_time;
mod corpus;
mod damage;
mod folder;
mod fuzz_corpus;
mod growing;
mod layouts;
mod made;
mod memory;
mod perf;
mod rewriting;
mod writing;
