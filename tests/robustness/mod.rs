//! Foreign input, some of it hostile.

mod bomb;
mod corpus;
mod corpus_counts;
mod dwarf_bombs;
mod expanding;
mod faults;
mod hostile_names;
mod importers;
mod mutated;
mod neighbour;
mod reader;
mod silent_losses;
