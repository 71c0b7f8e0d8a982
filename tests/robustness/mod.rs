//! Input that others made, some of it to do harm.

mod corpus;
mod corpus_counts;
mod expanding;
mod faults;
mod hostile_names;
mod mutated;
mod neighbour;
