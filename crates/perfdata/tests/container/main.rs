//! The container's public interface, with synthetic files, damaged files, and real captures if
//! available.

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
