//! What strangers can do to whoever records or reads, and cannot.

mod capabilities;
mod embedding;
mod neighbour;
mod outputs;
mod races;
mod released;
mod runtimes;
mod silent;
